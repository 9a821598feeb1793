"""The report: one HTML file with an interactive 3D view of assemblies, which needs no network and no installation.

In: plain arrays (pieces in their own frames, ranked alternatives that place them). Out: a page as text, or as a file.
What the page shows and how is in `report/`: its markup, style and scripts are put into the page as they are.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from eda.assembly.result import Alternative, check_rigid
from eda.atomic import write_atomically
from eda.data import Example
from eda.errors import InputError
from eda.pieces import MIN_POINTS
from eda.view.camera import Camera
from eda.view.colors import FOREIGN, PIECES, as_bytes, confidence_colors
from eda.view.scene import good_view
from eda.view.splat import estimated_normals, spacing

_SCRIPTS = ("motion.js", "shaders.js", "painter.js", "panel.js", "viewer.js")  # in the order in which they run
_RAMP = 33  # colours from no confidence to full confidence; the page interpolates between them
_GAP = 0.12  # between pieces without a place, in radii of the assembly
_REACH = 1.3  # radius of a disc over the distance to the sixth neighbour
_WALL = 1.5  # a wall has two sides: neighbours on one are farther apart than all by the root of two
_SAME = 1e-5  # poses that differ by less, in radii and radians, are one


@dataclass(frozen=True)
class Piece:
    """One rigid piece in its own frame. With faces it is drawn as a mesh, else as discs."""

    name: str
    points: np.ndarray  # (n, 3) in the unit of the scene
    normals: np.ndarray | None = None  # (n, 3) unit and outward; None: estimated for discs, flat faces for meshes
    faces: np.ndarray | None = None  # (m, 3) rows of `points`
    color: int | None = None  # index into `colors.PIECES`; None: its place among the pieces

    def __post_init__(self) -> None:
        points = np.asarray(self.points)
        if points.ndim != 2 or points.shape[1] != 3 or len(points) < MIN_POINTS or not np.isfinite(points).all():
            raise InputError(
                f"piece {self.name!r}: need at least {MIN_POINTS} finite points of shape (n, 3), got {points.shape}"
            )
        if self.normals is not None and (self.normals.shape != points.shape or not np.isfinite(self.normals).all()):
            raise InputError(
                f"piece {self.name!r}: normals must be finite and {points.shape}, got {self.normals.shape}"
            )
        if self.faces is not None:
            self._check_faces(self.faces)

    def _check_faces(self, faces: np.ndarray) -> None:
        if faces.ndim != 2 or faces.shape[1] != 3 or not np.issubdtype(faces.dtype, np.integer):
            raise InputError(f"piece {self.name!r}: faces must be integers of shape (m, 3), got {faces.shape}")
        if len(faces) and (faces.min() < 0 or faces.max() >= len(self.points)):
            raise InputError(f"piece {self.name!r}: a face names a point that is not there")

    @cached_property
    def center(self) -> np.ndarray:
        """(3,) float64: about this point the piece turns when poses are interpolated."""
        return np.asarray(self.points, dtype=np.float64).mean(axis=0)

    @cached_property
    def centered(self) -> np.ndarray:
        """(n, 3) float64 the points around their centre."""
        return np.asarray(self.points, dtype=np.float64) - self.center


@dataclass(frozen=True)
class Scene:
    """All that a report shows."""

    title: str
    pieces: Sequence[Piece]  # N
    alternatives: Sequence[Alternative]  # the best first
    flow: np.ndarray | None = None  # (T, N, 4, 4) poses on the way from noise to the best alternative, evenly in time
    note: str = ""  # what must be known before anything else, such as that nothing was found
    unit: str = ""  # of all lengths, such as "mm"; empty: unknown
    command: str = ""  # that made the report
    facts: Mapping[str, str] = field(default_factory=dict)  # label -> text, in the order in which they are shown

    def __post_init__(self) -> None:
        if not self.pieces or not self.alternatives:
            raise InputError("a report needs at least one piece and one alternative")
        for number, alternative in enumerate(self.alternatives):
            if len(alternative.poses) != len(self.pieces):
                raise InputError(
                    f"alternative {number} has {len(alternative.poses)} poses for {len(self.pieces)} pieces"
                )
        if self.flow is not None:
            check_rigid("flow", self.flow, (len(self.flow), len(self.pieces), 4, 4))


def write_report(path: Path | str, scene: Scene) -> None:
    """The report as a file, whole or not at all."""
    write_atomically(Path(path), render_report(scene).encode())


def render_report(scene: Scene) -> str:
    """The report as one page of HTML."""
    style, scripts = _asset("viewer.css"), [_asset(name) for name in _SCRIPTS]
    parts = {
        "title": html.escape(scene.title).encode("ascii", "xmlcharrefreplace").decode(),
        "policy": _policy(style, scripts),
        "style": style,
        "data": _inert_json(_contents(scene)),
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    # In one pass: a title that looks like a slot is text.
    return re.sub(r"\{\{(\w+)\}\}", lambda slot: parts[slot[1]], _asset("template.html"))


def _asset(name: str) -> str:
    return resources.files("eda.view").joinpath("report", name).read_text(encoding="utf-8")


def _policy(style: str, scripts: Sequence[str]) -> str:
    """What the browser may do: run these scripts and no other, and fetch nothing."""
    allowed = " ".join(_fingerprint(script) for script in scripts)
    return f"default-src 'none'; img-src data:; style-src {_fingerprint(style)}; script-src {allowed}"


def _fingerprint(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _inert_json(contents: dict[str, Any]) -> str:
    """JSON without a character that HTML would understand."""
    text = json.dumps(contents, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


# -- what the page is told ---------------------------------------------------------------------------------------


def _contents(scene: Scene) -> dict[str, Any]:
    stage = _Stage.of(scene)
    return {
        "title": scene.title,
        "note": scene.note,
        "unit": scene.unit,
        "command": scene.command,
        "facts": list(scene.facts.items()),
        "scale": stage.radius,
        "view": stage.camera.rotation.ravel().tolist(),
        "ramp": _hex(confidence_colors(np.linspace(0, 1, _RAMP))),
        "unplacedColor": _hex(FOREIGN[1:])[0],
        "pieces": [_piece(piece, number, stage.radius) for number, piece in enumerate(scene.pieces)],
        "alternatives": [
            _alternative(scene, alternative, scene.flow if number == 0 else None, stage)
            for number, alternative in enumerate(scene.alternatives)
        ],
    }


@dataclass(frozen=True)
class _Stage:
    """The page's own lengths: radii of the best assembly, around its middle. Large coordinates keep their digits."""

    middle: np.ndarray  # (3,) float64, of the best assembly
    radius: float
    camera: Camera  # only its rotation is of use

    @staticmethod
    def of(scene: Scene) -> _Stage:
        best = scene.alternatives[0]
        clouds = [_moved(piece, pose) for piece, pose in zip(scene.pieces, best.poses, strict=True)]
        placed = best.placed if best.placed.any() else ~best.placed
        points = np.concatenate([cloud for cloud, is_placed in zip(clouds, placed, strict=True) if is_placed])
        middle = (points.min(axis=0) + points.max(axis=0)) / 2
        radius = max(float(np.linalg.norm(points - middle, axis=1).max()), 1e-30)
        scaled = [(cloud - middle) / radius for cloud in clouds]
        return _Stage(middle, radius, good_view(Example.from_clouds(scene.title, scaled, foreign=list(~placed))))


def _moved(piece: Piece, pose: np.ndarray) -> np.ndarray:
    """(n, 3) the points of a piece in the assembly."""
    return piece.centered @ pose[:3, :3].T + _center(piece, pose)


def _center(piece: Piece, pose: np.ndarray) -> np.ndarray:
    """(..., 3) where poses (..., 4, 4) put the centre of a piece."""
    return pose[..., :3, :3] @ piece.center + pose[..., :3, 3]


def _piece(piece: Piece, number: int, radius: float) -> dict[str, Any]:
    """Points as 16 bits a coordinate in the piece's box; normals and the radius of the disc as 8 bits each."""
    points = piece.centered / radius
    low, extent = points.min(axis=0), np.ptp(points, axis=0)
    is_mesh = piece.faces is not None
    normals = estimated_normals(points) if piece.normals is None and not is_mesh else piece.normals
    reach = np.zeros(len(points)) if is_mesh else _disc_radii(points, piece.normals)
    largest = max(float(reach.max()), 1e-30)
    directions = np.zeros((len(points), 3)) if normals is None else normals
    return {
        "name": piece.name,
        "color": _hex(PIECES[[(number if piece.color is None else piece.color) % len(PIECES)]])[0],
        "count": len(points),
        "center": piece.center.tolist(),
        "low": low.tolist(),
        "extent": extent.tolist(),
        "disc": 0 if is_mesh else largest,
        "oriented": piece.normals is not None,
        "places": _base64(np.rint((points - low) / np.maximum(extent, 1e-30) * 65535), "<u2"),
        "shapes": _base64(np.rint(127 * np.column_stack([directions, reach / largest]).clip(-1, 1)), "i1"),
        "faces": None if piece.faces is None else _base64(piece.faces, "<u4"),
    }


def _disc_radii(points: np.ndarray, normals: np.ndarray | None) -> np.ndarray:
    """(n,) the distance to neighbours on the same side of a thin wall; few points can have none, so within limits."""
    return _REACH * np.minimum(spacing(points, normals), _WALL * spacing(points))


def _alternative(scene: Scene, alternative: Alternative, flow: np.ndarray | None, stage: _Stage) -> dict[str, Any]:
    track = _track(scene.pieces, alternative, flow, stage)
    return {
        "score": float(alternative.score),
        "probability": float(alternative.probability),
        "confidence": np.asarray(alternative.confidence, float).tolist(),
        "placed": alternative.placed.tolist(),
        "joints": [list(contact) for contact in alternative.contacts],
        "poses": np.asarray(alternative.poses, dtype=np.float64).tolist(),
        "frames": len(track),
        "track": _base64(track, "<f4"),
    }


def _track(pieces: Sequence[Piece], alternative: Alternative, flow: np.ndarray | None, stage: _Stage) -> np.ndarray:
    """(T, N, 7) rotations as quaternions x y z w, and centres on the stage; the last frame is the assembly itself."""
    from scipy.spatial.transform import Rotation

    poses = np.asarray(alternative.poses, dtype=np.float64)[None]
    if flow is not None:
        poses = np.concatenate([np.asarray(flow, dtype=np.float64), poses])
    turns = Rotation.from_matrix(poses[..., :3, :3].reshape(-1, 3, 3)).as_quat().reshape(*poses.shape[:2], 4)
    centers = np.stack([_center(piece, poses[:, i]) for i, piece in enumerate(pieces)], axis=1)
    track = np.concatenate([turns, (centers - stage.middle) / stage.radius], axis=2)
    if len(track) > 1 and _same(track[-2], track[-1]):
        track = track[:-1]
    if not alternative.placed.all():
        time = np.linspace(0, 1, len(track))[:, None, None] if len(track) > 1 else np.ones((1, 1, 1))
        lost = np.flatnonzero(~alternative.placed)
        track[:, lost, 4:] += time * (_row_below(pieces, alternative, stage) - track[:, lost, 4:])
    return track


def _same(frame: np.ndarray, other: np.ndarray) -> bool:
    """Whether two frames (N, 7) show the same; a quaternion and its opposite are one rotation."""
    aligned = np.abs((frame[:, :4] * other[:, :4]).sum(axis=1))
    return bool((aligned > 1 - _SAME).all() and np.abs(frame[:, 4:] - other[:, 4:]).max() < _SAME)


def _row_below(pieces: Sequence[Piece], alternative: Alternative, stage: _Stage) -> np.ndarray:
    """(lost, 3) centres side by side, under what is placed as the page first shows it."""
    placed, clouds = alternative.placed, [_moved(*each) for each in zip(pieces, alternative.poses, strict=True)]
    shown = [cloud for cloud, is_placed in zip(clouds, placed, strict=True) if is_placed] or [stage.middle[None]]
    seen = (np.concatenate(shown) - stage.middle) / stage.radius @ stage.camera.rotation.T
    low, high = seen.min(axis=0), seen.max(axis=0)
    reach = np.array([np.linalg.norm(piece.centered, axis=1).max() for piece in pieces])[~placed] / stage.radius
    ends = np.cumsum(2 * reach + _GAP)
    row = np.tile((low + high) / 2, (len(reach), 1))
    row[:, 0] += ends - reach - _GAP - (ends[-1] - _GAP) / 2
    row[:, 1] = low[1] - _GAP - reach.max()
    return row @ stage.camera.rotation


def _base64(array: np.ndarray, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array).astype(dtype).tobytes()).decode()


def _hex(colors: np.ndarray) -> list[str]:
    return ["#" + bytes(color).hex() for color in as_bytes(colors)]
