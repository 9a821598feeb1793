"""What a person gets: an assembly as files and pictures in one folder, all of it or nothing.

In: an `Assembly` and the pieces it is of, as they were read. Out: a folder with `assembly.json`, the pieces moved into
place, all of them as one file, a picture, an animation and the report.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eda.assembly.result import Assembly
from eda.data.piece_files.writing import write_cloud
from eda.pieces import MIN_POINTS
from eda.view import report
from eda.view.animation import gif
from eda.view.camera import Camera
from eda.view.colors import FOREIGN, piece_colors
from eda.view.figures import Figures, Given, are_meshes, between, view_of
from eda.view.result_folder import PIECES, RECORD, check_free, written_whole

if TYPE_CHECKING:
    import trimesh

_DISCS = 9000  # in a picture of clouds; more look no better
_FRAME_DISCS = 2400
_REPORT_POINTS = 60_000  # of all pieces in the report
_REPORT_PIECE = 3000  # points of one piece at most
_WHOLE_POINTS = 500_000  # of all pieces in one cloud
_KEPT = (".ply", ".obj", ".stl", ".off", ".glb")  # formats that are written as they were read


@dataclass(frozen=True)
class Pictures:
    """How much is drawn."""

    preview: int = 720  # pixels of the picture's side
    frame: int = 240  # and of the animation's
    frames: int = 10  # along the flow
    last_frames: int = 4  # from the end of the flow to the assembly


def deliver(
    assembly: Assembly,
    pieces: Sequence[Given],
    folder: Path,
    *,
    command: str,
    overwrite: bool = False,
    pictures: Pictures | None = None,
) -> None:
    """Write everything into `folder`, which appears only when all of it is there."""
    check_free(folder, overwrite, [piece.file.path for piece in pieces if piece.file is not None])
    with written_whole(folder) as making:
        _write(assembly, pieces, making, command, pictures or Pictures())


def _write(assembly: Assembly, pieces: Sequence[Given], folder: Path, command: str, pictures: Pictures) -> None:
    record = {**assembly.as_dict(), "command": command}
    (folder / RECORD).write_text(json.dumps(record, indent=2))
    _write_moved(assembly, pieces, folder / PIECES)
    whole = _whole(assembly, pieces)
    whole.export(folder / "assembled.ply")
    whole.export(folder / "assembled.glb")
    shown = _Shown.of(assembly, pieces)
    (folder / "preview.png").write_bytes(shown.preview(pictures.preview))
    (folder / "assembly.gif").write_bytes(shown.animation(assembly.flow, pictures))
    report.write_report(folder / "report.html", _scene(assembly, pieces, command))


def _write_moved(assembly: Assembly, pieces: Sequence[Given], folder: Path) -> None:
    """Every placed piece by its name: meshes in their own format, with colours and textures; clouds as PLY."""
    folder.mkdir()
    for i in np.flatnonzero(assembly.best.placed).tolist():
        piece, pose, file = pieces[i], assembly.best.poses[i], pieces[i].file
        if piece.num_triangles is not None:
            shape, suffix = _mesh(piece)
            shape.apply_transform(pose).export(folder / f"{piece.name}{suffix}")
            continue
        points, normals = (piece.points, piece.normals) if file is None else (file.points, file.normals)
        turned = None if normals is None else normals @ pose[:3, :3].T
        write_cloud(folder / f"{piece.name}.ply", _moved(points, pose), turned, None if file is None else file.colors)


def _mesh(piece: Given) -> tuple[Any, str]:
    """The mesh of a piece as trimesh holds it, and the ending of the file to write."""
    import trimesh

    file = piece.file
    assert file is not None
    suffix = file.path.suffix.lower()
    if file.scene_index is not None or suffix not in _KEPT:
        return trimesh.Trimesh(file.points, file.faces, vertex_colors=file.colors, process=False), ".ply"
    loaded: Any = trimesh.load(file.path, process=False)
    # The pictures of textured OBJ files have names that the pieces would share; GLB holds its own.
    plain = getattr(getattr(loaded, "visual", None), "kind", "texture") != "texture"
    return loaded, suffix if plain or suffix != ".obj" else ".glb"


def _whole(assembly: Assembly, pieces: Sequence[Given]) -> trimesh.parent.Geometry:
    """All placed pieces in one mesh, or in one cloud if not all are meshes, coloured by piece."""
    import trimesh

    placed = np.flatnonzero(assembly.best.placed).tolist()
    if not placed:
        return trimesh.PointCloud(np.zeros((1, 3)))
    tints = (255 * np.c_[piece_colors(len(pieces)), np.ones(len(pieces))]).astype(np.uint8)
    poses = assembly.best.poses
    files = [pieces[i].file for i in placed]
    if all(file is not None and file.faces is not None for file in files):
        return trimesh.util.concatenate(
            [
                trimesh.Trimesh(
                    _moved(file.points, poses[i]),
                    file.faces,
                    vertex_colors=np.tile(tints[i], (len(file.points), 1)),
                    process=False,
                )
                for i, file in zip(placed, files, strict=True)
                if file is not None
            ]
        )
    clouds = [_moved(pieces[i].points[: _WHOLE_POINTS // len(placed)], poses[i]) for i in placed]
    return trimesh.PointCloud(np.concatenate(clouds), colors=np.repeat(tints[placed], [len(c) for c in clouds], axis=0))


def _moved(points: np.ndarray, pose: np.ndarray) -> np.ndarray:
    return points @ pose[:3, :3].T + pose[:3, 3]


@dataclass(frozen=True)
class _Shown:
    """The n pieces of pictures: what has no place is left out, unless nothing has one."""

    pieces: Sequence[Given]  # n
    rows: np.ndarray  # (n,) which of all pieces they are
    poses: np.ndarray  # (n, 4, 4)
    colors: np.ndarray  # (n, 3)
    camera: Camera

    @staticmethod
    def of(assembly: Assembly, pieces: Sequence[Given]) -> _Shown:
        placed, count = assembly.best.placed, len(pieces)
        rows = np.flatnonzero(placed) if placed.any() else np.arange(count)
        colors = piece_colors(count)[rows] if placed.any() else np.tile(FOREIGN[1], (count, 1))
        chosen, poses = [pieces[i] for i in rows.tolist()], assembly.best.poses[rows]
        return _Shown(chosen, rows, poses, colors, view_of(chosen, poses))

    def preview(self, size: int) -> bytes:
        """A PNG."""
        from PIL import Image

        figures, file = Figures.of(self.pieces, _DISCS), io.BytesIO()
        camera = self.camera.framing(figures.moved(self.poses))
        Image.fromarray(figures.picture(self.poses, self.colors, camera, size)).save(file, "PNG")
        return file.getvalue()

    def animation(self, flow: np.ndarray, pictures: Pictures) -> bytes:
        """A GIF along the flow (T, N, 4, 4), and from its end to the assembly."""
        figures = Figures.of(self.pieces, _FRAME_DISCS)
        chosen = np.unique(np.linspace(0, len(flow) - 1, pictures.frames).round().astype(int))
        way = flow[chosen][:, self.rows]
        middles = np.stack([piece.points.mean(axis=0) for piece in self.pieces])
        poses = np.concatenate([way, between(way[-1], self.poses, middles, pictures.last_frames)])
        camera = self.camera.framing(np.concatenate([figures.moved(frame) for frame in poses]))
        return gif([figures.picture(frame, self.colors, camera, pictures.frame) for frame in poses])


def _scene(assembly: Assembly, pieces: Sequence[Given], command: str) -> report.Scene:
    facts: Mapping[str, str] = {
        "model": assembly.model,
        "time": f"{assembly.seconds:.1f} s",
        **{name: str(value) for name, value in assembly.settings.items()},
    }
    return report.Scene(
        title=f"{len(pieces)} pieces",
        pieces=_report_pieces(pieces),
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


def _report_pieces(pieces: Sequence[Given]) -> list[report.Piece]:
    if are_meshes(pieces):
        files = [(piece.name, piece.file) for piece in pieces if piece.file is not None]
        return [report.Piece(name, file.points, None, file.faces) for name, file in files]
    each = min(_REPORT_PIECE, _REPORT_POINTS // len(pieces))
    few = [piece.thinned(max(each, MIN_POINTS)) for piece in pieces]
    return [report.Piece(piece.name, piece.points, piece.normals) for piece in few]


def _touching(joints: np.ndarray) -> np.ndarray:
    return np.argwhere(np.triu(joints, 1) > 0)
