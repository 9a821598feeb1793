"""The data that the page receives: the contents of a report as JSON, with arrays in base64.

Lengths are in radii of the best alternative, around its centre, so that large coordinates keep their digits.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eda.assembly.result import Alternative
from eda.cloud import estimate_normals
from eda.data import Example
from eda.output.report.contents import Report, ReportPiece
from eda.output.seams import Joint, Paint
from eda.render.colors import FOREIGN, PLAIN, as_bytes, confidence_colors, piece_colors
from eda.render.point_drawing import point_spacing
from eda.render.scene import best_view
from eda.render.virtual_camera import Camera

if TYPE_CHECKING:
    from PIL.Image import Image

_RAMP_COLORS = 33  # from confidence 0 to 1; the page interpolates between them
_GAP = 0.12  # between unplaced pieces, in radii of the assembly
_DISC_SCALE = 1.3  # radius of a disc over the distance to the sixth neighbour
_OWN_DISC_SCALE = 1.4  # larger: random points leave gaps
_WALL = 1.5  # the points of one side of a thin wall are farther apart than those of both, by the root of two
_GAP_LEVELS = 254  # of a gap in a byte; one more for no gap
_JPEG_QUALITY = 88
_SAME_POSE = 1e-5  # poses that differ by less, in radii and radians, are the same


def encode_report(report: Report) -> dict[str, Any]:
    """The contents of a report as the page's scripts expect them, ready for JSON."""
    stage = _Stage.of(report)
    colors = _to_hex(piece_colors(len(report.pieces)))
    flows = [report.flow, *[None] * (len(report.alternatives) - 1)]
    paint = [None] * len(report.pieces) if report.seams is None else report.seams.paint
    top = 1.0 if report.seams is None else report.seams.top
    joints = _unmeasured_joints(report) if report.seams is None else report.seams.joints
    return {
        "title": report.title,
        "note": report.note,
        "command": report.command,
        "facts": list(report.facts.items()),
        "scale": stage.radius,
        "view": stage.camera.rotation.ravel().tolist(),
        "ramp": _to_hex(confidence_colors(np.linspace(0, 1, _RAMP_COLORS))),
        "unplacedColor": _to_hex(FOREIGN[1:])[0],
        "plainColor": _to_hex(PLAIN[None])[0],
        "topGap": top,
        "pieces": [
            {
                **_encode_piece(piece, color, stage.radius),
                "own": _encode_own_colors(piece, stage.radius),
                "seam": None if seam is None or not len(seam.points) else _encode_seam(piece, seam, top, stage.radius),
            }
            for piece, color, seam in zip(report.pieces, colors, paint, strict=True)
        ],
        "alternatives": [
            {**_encode_alternative(report.pieces, alternative, flow, stage), "joints": [_encode_joint(j) for j in each]}
            for alternative, flow, each in zip(report.alternatives, flows, joints, strict=True)
        ],
    }


@dataclass(frozen=True)
class _Stage:
    """The page's coordinates: radii of the best alternative, around its centre."""

    center: np.ndarray  # (3,) float64, of the best alternative
    radius: float
    camera: Camera  # only its rotation is used

    @staticmethod
    def of(report: Report) -> _Stage:
        best = report.alternatives[0]
        clouds = [_posed_points(piece, pose) for piece, pose in zip(report.pieces, best.poses, strict=True)]
        placed = best.placed if best.placed.any() else ~best.placed
        points = np.concatenate([cloud for cloud, is_placed in zip(clouds, placed, strict=True) if is_placed])
        center = (points.min(axis=0) + points.max(axis=0)) / 2
        radius = max(float(np.linalg.norm(points - center, axis=1).max()), 1e-30)
        scaled = [(cloud - center) / radius for cloud in clouds]
        return _Stage(center, radius, best_view(Example.from_clouds(report.title, scaled, foreign=list(~placed))))


def _posed_points(piece: ReportPiece, pose: np.ndarray) -> np.ndarray:
    """(n, 3) the points of a piece in the assembly."""
    return piece.centered_points @ pose[:3, :3].T + _posed_center(piece, pose)


def _posed_center(piece: ReportPiece, pose: np.ndarray) -> np.ndarray:
    """(..., 3) the centre of a piece in poses (..., 4, 4)."""
    return pose[..., :3, :3] @ piece.center + pose[..., :3, 3]


def _encode_piece(piece: ReportPiece, color: str, radius: float) -> dict[str, Any]:
    points = piece.centered_points / radius
    is_mesh = piece.faces is not None
    normals = estimate_normals(points) if piece.normals is None and not is_mesh else piece.normals
    radii = np.zeros(len(points)) if is_mesh else _disc_radii(points, piece.normals)
    return {
        "name": piece.name,
        "color": color,
        "center": piece.center.tolist(),
        **_encode_points(points, normals, radii),
        "oriented": piece.normals is not None,
        "faces": None if piece.faces is None else _to_base64(piece.faces, "<u4"),
    }


def _encode_points(points: np.ndarray, normals: np.ndarray | None, radii: np.ndarray) -> dict[str, Any]:
    """Points take 16 bits a coordinate within their box; normals and the radius of the disc 8 bits each."""
    low, extent = points.min(axis=0), np.ptp(points, axis=0)
    largest = max(float(radii.max()), 1e-30)
    directions = np.zeros((len(points), 3)) if normals is None else normals
    return {
        "count": len(points),
        "low": low.tolist(),
        "extent": extent.tolist(),
        "disc": largest if radii.any() else 0,
        "places": _to_base64(np.rint((points - low) / np.maximum(extent, 1e-30) * 65535), "<u2"),
        "shapes": _to_base64(np.rint(127 * np.column_stack([directions, radii / largest]).clip(-1, 1)), "i1"),
    }


def _encode_own_colors(piece: ReportPiece, radius: float) -> dict[str, Any] | None:
    """The colours of a mesh's vertices and its pictures, or coloured discs; None if there are none."""
    own = piece.own
    if own is None:
        return None
    if own.faces is None:
        radii = _OWN_DISC_SCALE * _disc_radii(own.points - piece.center, own.normals)
        return {
            **_encode_discs(piece, own.points, own.normals, radii, radius),
            "colors": _to_base64(own.colors, "u1"),
            "mean": _to_hex(own.colors.mean(axis=0, keepdims=True) / 255)[0],
        }
    return {
        "colors": _to_base64(own.colors, "u1"),
        "imagePlaces": None if own.places is None else _to_base64(own.places, "<f4"),
        "skins": [
            {"faces": skin.num_faces, "image": None if skin.image is None else _to_data_address(skin.image)}
            for skin in own.skins
        ],
    }


def _encode_seam(piece: ReportPiece, seam: Paint, top: float, radius: float) -> dict[str, Any]:
    """Discs, and for every alternative a byte for each: its gap up to `top` in 254 steps, or 255 away from seams."""
    share = np.rint(np.clip(seam.gaps / top, 0, 1) * _GAP_LEVELS)
    levels = np.where(np.isfinite(seam.gaps), share, _GAP_LEVELS + 1)
    discs = _encode_discs(piece, seam.points, seam.normals, np.full(len(seam.points), seam.radius), radius)
    return {**discs, "gaps": [_to_base64(each, "u1") for each in levels]}


def _encode_discs(
    piece: ReportPiece, points: np.ndarray, normals: np.ndarray | None, radii: np.ndarray, radius: float
) -> dict[str, Any]:
    """Coloured discs (n,) on a piece. Without normals they face the viewer."""
    encoded = _encode_points((points - piece.center) / radius, normals, radii / radius)
    return {**encoded, "oriented": normals is not None}


def _unmeasured_joints(report: Report) -> list[list[Joint]]:
    """The joints of every alternative, when no seams were measured."""
    return [[Joint(*contact, None, 0, 0.0) for contact in each.contacts] for each in report.alternatives]


def _encode_joint(joint: Joint) -> dict[str, Any]:
    return {
        "pieces": [joint.first, joint.second],
        "confidence": joint.confidence,
        "gap": joint.gap,
        "points": joint.points,
        "area": joint.area,
    }


def _disc_radii(points: np.ndarray, normals: np.ndarray | None) -> np.ndarray:
    """(n,) in proportion to the distance to neighbours on the same side of a thin wall.

    It is limited, because a piece of few points may have no neighbours on that side.
    """
    return _DISC_SCALE * np.minimum(point_spacing(points, normals), _WALL * point_spacing(points))


def _encode_alternative(
    pieces: Sequence[ReportPiece], alternative: Alternative, flow: np.ndarray | None, stage: _Stage
) -> dict[str, Any]:
    track = _track(pieces, alternative, flow, stage)
    return {
        "score": float(alternative.score),
        "probability": float(alternative.probability),
        "confidence": np.asarray(alternative.confidence, float).tolist(),
        "placed": alternative.placed.tolist(),
        "whyUnplaced": [alternative.why_unplaced(piece) for piece in range(len(pieces))],
        "poses": np.asarray(alternative.poses, dtype=np.float64).tolist(),
        "frames": len(track),
        "track": _to_base64(track, "<f4"),
    }


def _track(
    pieces: Sequence[ReportPiece], alternative: Alternative, flow: np.ndarray | None, stage: _Stage
) -> np.ndarray:
    """(T, N, 7) rotations as quaternions x y z w, and centres on the stage; the last frame is the alternative."""
    from scipy.spatial.transform import Rotation

    poses = np.asarray(alternative.poses, dtype=np.float64)[None]
    if flow is not None:
        poses = np.concatenate([np.asarray(flow, dtype=np.float64), poses])
    rotations = Rotation.from_matrix(poses[..., :3, :3].reshape(-1, 3, 3)).as_quat().reshape(*poses.shape[:2], 4)
    centers = np.stack([_posed_center(piece, poses[:, i]) for i, piece in enumerate(pieces)], axis=1)
    track = np.concatenate([rotations, (centers - stage.center) / stage.radius], axis=2)
    if len(track) > 1 and _is_same_frame(track[-2], track[-1]):
        track = track[:-1]
    if not alternative.placed.all():
        time = np.linspace(0, 1, len(track))[:, None, None] if len(track) > 1 else np.ones((1, 1, 1))
        unplaced = np.flatnonzero(~alternative.placed)
        track[:, unplaced, 4:] += time * (_row_below(pieces, alternative, stage) - track[:, unplaced, 4:])
    return track


def _is_same_frame(frame: np.ndarray, other: np.ndarray) -> bool:
    """Whether two frames (N, 7) show the same; a quaternion and its negative are the same rotation."""
    cosine = np.abs((frame[:, :4] * other[:, :4]).sum(axis=1))
    return bool((cosine > 1 - _SAME_POSE).all() and np.abs(frame[:, 4:] - other[:, 4:]).max() < _SAME_POSE)


def _row_below(pieces: Sequence[ReportPiece], alternative: Alternative, stage: _Stage) -> np.ndarray:
    """(unplaced, 3) centres of the unplaced pieces in a row below the placed ones, as the page first shows them."""
    placed, clouds = alternative.placed, [_posed_points(*each) for each in zip(pieces, alternative.poses, strict=True)]
    shown = [cloud for cloud, is_placed in zip(clouds, placed, strict=True) if is_placed] or [stage.center[None]]
    rotated = (np.concatenate(shown) - stage.center) / stage.radius @ stage.camera.rotation.T
    low, high = rotated.min(axis=0), rotated.max(axis=0)
    radii = np.array([np.linalg.norm(piece.centered_points, axis=1).max() for piece in pieces])[~placed] / stage.radius
    ends = np.cumsum(2 * radii + _GAP)
    row = np.tile((low + high) / 2, (len(radii), 1))
    row[:, 0] += ends - radii - _GAP - (ends[-1] - _GAP) / 2
    row[:, 1] = low[1] - _GAP - radii.max()
    return row @ stage.camera.rotation


def _to_data_address(image: Image) -> str:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=_JPEG_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


def _to_base64(array: np.ndarray, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array).astype(dtype).tobytes()).decode()


def _to_hex(colors: np.ndarray) -> list[str]:
    return ["#" + bytes(color).hex() for color in as_bytes(colors)]
