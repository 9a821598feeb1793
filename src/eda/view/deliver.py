"""What a person gets: an assembly as files and pictures in one folder, all of it or nothing.

In: an `Assembly` and the pieces it is of, as they were read. Out: a folder with `assembly.json`, the pieces moved into
place, all of them as one file, a picture, an animation and the report.
"""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from eda.assembly.result import Assembly
from eda.data.example import Example
from eda.errors import InputError
from eda.lie import SE3
from eda.pieces import Pieces
from eda.view import report
from eda.view.animation import animate
from eda.view.colors import FOREIGN, piece_colors
from eda.view.scene import good_view, piece_of_point
from eda.view.splat import splat

if TYPE_CHECKING:
    import trimesh

# Points of a piece in pictures: more look no better.
DRAWN_POINTS = 3000
_PICTURE = 900  # pixels
_FRAMES, _FRAME = 16, 300  # of the animation, and their pixels


@dataclass(frozen=True)
class Given:
    """A piece as it came: what is delivered is moved from here."""

    name: str
    points: np.ndarray  # (n, 3) float64 on its surface
    normals: np.ndarray  # (n, 3)
    path: Path | None = None  # the file it was read from, if it is alone in it

    def thinned(self) -> Given:
        """Few enough points to draw; they come in no order, so the first will do."""
        return Given(self.name, self.points[:DRAWN_POINTS], self.normals[:DRAWN_POINTS], self.path)


def deliver(
    assembly: Assembly, pieces: Sequence[Given], folder: Path, *, command: str, overwrite: bool = False
) -> None:
    """Write everything into `folder`, which appears only when all of it is there."""
    check_free(folder, overwrite)
    making = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        making.mkdir(parents=True)
        _write(assembly, [piece.thinned() for piece in pieces], making, command)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(making, folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error})") from error
    finally:
        shutil.rmtree(making, ignore_errors=True)


def check_free(folder: Path, overwrite: bool) -> None:
    """Raises `InputError` where something else lies already."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: a file, not a folder")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise InputError(f"{folder}: not empty; choose another folder, or give --overwrite")


def _write(assembly: Assembly, pieces: Sequence[Given], folder: Path, command: str) -> None:
    record = {**assembly.as_dict(), "command": command}
    (folder / "assembly.json").write_text(json.dumps(record, indent=2))
    _write_moved(assembly, pieces, folder / "pieces")
    _whole(assembly, pieces).export(folder / "assembled.ply")
    _whole(assembly, pieces).export(folder / "assembled.glb")
    (folder / "preview.png").write_bytes(_preview(assembly, pieces))
    (folder / "assembly.gif").write_bytes(_animation(assembly, pieces))
    report.write_report(folder / "report.html", _scene(assembly, pieces, command))


def _write_moved(assembly: Assembly, pieces: Sequence[Given], folder: Path) -> None:
    """Every placed piece in its own format, colours and textures kept; what has no mesh format becomes PLY."""
    import trimesh

    folder.mkdir()
    for piece, pose, placed in zip(pieces, assembly.best.poses, assembly.best.placed, strict=True):
        if not placed:
            continue
        kept = piece.path is not None and piece.path.suffix.lower() in (".ply", ".obj", ".stl", ".off", ".glb")
        shape = trimesh.load(piece.path) if kept else trimesh.PointCloud(piece.points)
        shape.apply_transform(pose)
        shape.export(folder / (piece.path.name if kept and piece.path else f"{piece.name}.ply"))


def _whole(assembly: Assembly, pieces: Sequence[Given]) -> trimesh.PointCloud:
    """All placed pieces in one cloud, coloured by piece."""
    import trimesh

    placed = np.flatnonzero(assembly.best.placed).tolist()
    clouds = [_moved(pieces[i].points, assembly.best.poses[i]) for i in placed]
    colors = [np.tile(_color(len(pieces), i), (len(cloud), 1)) for i, cloud in zip(placed, clouds, strict=True)]
    if not clouds:
        return trimesh.PointCloud(np.zeros((1, 3)))
    return trimesh.PointCloud(np.concatenate(clouds), colors=np.concatenate(colors))


def _color(count: int, index: int) -> np.ndarray:
    return (255 * np.append(piece_colors(count)[index], 1)).astype(np.uint8)


def _moved(points: np.ndarray, pose: np.ndarray) -> np.ndarray:
    return points @ pose[:3, :3].T + pose[:3, 3]


def _preview(assembly: Assembly, pieces: Sequence[Given]) -> bytes:
    """The best assembly as a PNG; what has no place is left out."""
    from PIL import Image

    best = assembly.best
    shown = np.flatnonzero(best.placed).tolist() or list(range(len(pieces)))
    example = Example.from_clouds(
        "best",
        [_moved(pieces[i].points, best.poses[i]) for i in shown],
        [pieces[i].normals @ best.poses[i][:3, :3].T for i in shown],
    )
    colors = piece_colors(len(pieces))[shown] if best.placed.any() else np.tile(FOREIGN, (len(pieces), 1))
    camera = good_view(example).framing(example.points)
    image = splat(example.points, colors[piece_of_point(example)], example.normals, camera=camera, size=_PICTURE)
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG", optimize=True)
    return file.getvalue()


def _animation(assembly: Assembly, pieces: Sequence[Given]) -> bytes:
    """From noise to the best assembly as a GIF."""
    few = [slice(None, None, max(1, len(piece.points) // 600)) for piece in pieces]
    normalised = Pieces.from_clouds(
        [piece.points[rows] for piece, rows in zip(pieces, few, strict=True)],
        [piece.normals[rows] for piece, rows in zip(pieces, few, strict=True)],
        dtype=torch.float64,
    )
    chosen = np.unique(np.linspace(0, len(assembly.flow) - 1, _FRAMES).round().astype(int))
    poses = np.concatenate([assembly.flow[chosen], assembly.best.poses[None]])
    return animate(normalised, normalised.from_user(SE3.from_matrix(torch.from_numpy(poses))), size=_FRAME)


def _scene(assembly: Assembly, pieces: Sequence[Given], command: str) -> report.Scene:
    facts: Mapping[str, str] = {
        "model": assembly.model,
        "time": f"{assembly.seconds:.1f} s",
        **{name: str(value) for name, value in assembly.settings.items()},
    }
    return report.Scene(
        title=f"{len(pieces)} pieces",
        pieces=[report.Piece(piece.name, piece.points, piece.normals) for piece in pieces],
        alternatives=[
            report.Alternative(
                poses=alternative.poses,
                score=alternative.score,
                probability=alternative.probability,
                confidence=alternative.confidence,
                unplaced=~alternative.placed,
                joints=[(int(i), int(j), float(alternative.joints[i, j])) for i, j in _touching(alternative.joints)],
                trajectory=assembly.flow if rank == 0 else None,
            )
            for rank, alternative in enumerate(assembly.alternatives)
        ],
        command=command,
        facts=dict(facts),
    )


def _touching(joints: np.ndarray) -> np.ndarray:
    return np.argwhere(np.triu(joints, 1) > 0)
