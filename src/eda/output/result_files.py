"""The files of a result: an assembly as data, pieces, pictures and a report in one folder, written all or not at all.

In: an `Assembly` and its pieces as they were given. Out: a folder with `assembly.json`, the pieces moved into place,
all of them in one file, the same for every alternative, a picture, an animation and the report.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eda.assembly.result import Alternative, Assembly
from eda.data.piece_files import InputNotes
from eda.output import report
from eda.output.own_colors import OwnColors
from eda.output.piece_source import PieceSource
from eda.output.placed_pieces import write_merged, write_piece
from eda.output.record import record_of
from eda.output.result_folder import (
    ALTERNATIVES,
    ANIMATION,
    PIECES,
    PREVIEW,
    RECORD,
    REPORT,
    UNPLACED,
    ClaimedFolder,
    claimed_folder,
)
from eda.output.seams import Seams
from eda.render.animation import interpolate_poses
from eda.render.colors import FOREIGN, as_bytes, piece_colors
from eda.render.drawable_pieces import DrawablePieces, best_view_of_pieces
from eda.render.image_files import encode_gif, encode_png
from eda.render.input_piece import InputPiece
from eda.render.virtual_camera import Camera

DEFAULT_MEGABYTES = 200.0  # that the files of all alternatives but the best may take
_PREVIEW_DISCS = 9000  # in a picture of clouds; more look no better
_FRAME_DISCS = 2400


@dataclass(frozen=True)
class PictureSizes:
    """The sizes of the pictures, and the number of frames of the animation."""

    preview: int = 720  # side of the picture in pixels
    frame: int = 240  # side of the animation in pixels
    frames: int = 10  # along the flow
    last_frames: int = 4  # from the end of the flow to the assembly


def write_result(
    assembly: Assembly,
    pieces: Sequence[InputPiece],
    folder: Path,
    *,
    command: str,
    overwrite: bool = False,
    sizes: PictureSizes | None = None,
    megabytes: float = DEFAULT_MEGABYTES,
) -> dict[str, Any]:
    """Write all files into `folder`, which appears, or is replaced, only when they are complete.

    Returns what `assembly.json` holds. The pieces of an alternative are written if all those before it were, and all of
    them but the best take at most so many megabytes; the poses of all are in `assembly.json`.
    """
    with claimed_folder(folder, overwrite) as claimed:
        return write_claimed(assembly, pieces, claimed, command=command, sizes=sizes, megabytes=megabytes)


def write_claimed(
    assembly: Assembly,
    pieces: Sequence[InputPiece],
    claimed: ClaimedFolder,
    *,
    command: str,
    notes: InputNotes | None = None,
    sizes: PictureSizes | None = None,
    megabytes: float = DEFAULT_MEGABYTES,
) -> dict[str, Any]:
    """Write all files, as `write_result` does, into a folder that was claimed before the work began.

    `notes` on the input go into `assembly.json`.
    """
    with claimed.replaced([piece.file.path for piece in pieces if piece.file is not None]) as partial:
        files, own_colors = _write_pieces(assembly, pieces, partial, megabytes)
        seams = Seams.of(assembly, pieces)
        record = record_of(assembly, command, files, seams, notes)
        (partial / RECORD).write_text(json.dumps(record, indent=2))
        _write_pictures(assembly, pieces, partial, sizes or PictureSizes())
        name = claimed.folder.resolve().name
        report.write_report(partial / REPORT, report.Report.of(assembly, pieces, command, name, own_colors, seams))
    return record


# -- pieces ------------------------------------------------------------------------------------------------------------


def _write_pieces(
    assembly: Assembly, pieces: Sequence[InputPiece], folder: Path, megabytes: float
) -> tuple[list[list[str] | None], list[OwnColors | None]]:
    """Write the pieces of the alternatives. Returns the files of each, None if not written, and the pieces' colours."""
    best, others = assembly.best, assembly.alternatives[1:]
    first, own_colors = _write_best(best, pieces, folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    count = min(int(megabytes * 1e6 / max(size, 1)), len(others))
    written = [first, *_write_others(others[:count], pieces, folder / ALTERNATIVES)]
    names = [[path.relative_to(folder).as_posix() for path in each] for each in written]
    return [*names, *[None] * (len(others) - count)], own_colors


def _write_best(
    best: Alternative, pieces: Sequence[InputPiece], folder: Path
) -> tuple[list[Path], list[OwnColors | None]]:
    """Write the pieces of the best alternative. Returns their files, and their colours."""
    files, own_colors = list[Path](), list[OwnColors | None]()
    for i, piece in enumerate(pieces):
        source = PieceSource.of(piece)
        files.append(_write_one(source, i, best, folder))
        own_colors.append(report.shown_colors(source, pieces))
    _write_whole(best, pieces, folder)
    return files, own_colors


def _write_others(others: Sequence[Alternative], pieces: Sequence[InputPiece], folder: Path) -> list[list[Path]]:
    """Write the pieces of other alternatives into folders 2, 3, ... Every piece is loaded once, and one at a time."""
    folders = [folder / str(number) for number in range(2, len(others) + 2)]
    files: list[list[Path]] = [[] for _ in others]
    for i, piece in enumerate(pieces if others else []):
        source = PieceSource.of(piece)
        for other, place, written in zip(others, folders, files, strict=True):
            written.append(_write_one(source, i, other, place))
    for other, place in zip(others, folders, strict=True):
        _write_whole(other, pieces, place)
    return files


def _write_one(source: PieceSource, i: int, alternative: Alternative, folder: Path) -> Path:
    """Write piece i where an alternative has it, or unmoved if it has no place there. Returns the file."""
    place, pose = (PIECES, alternative.poses[i]) if alternative.placed[i] else (UNPLACED, np.eye(4))
    (folder / place).mkdir(parents=True, exist_ok=True)
    return write_piece(source, pose, folder / place)


def _write_whole(alternative: Alternative, pieces: Sequence[InputPiece], folder: Path) -> None:
    """Write the placed pieces, if there are any, merged into one file."""
    (folder / PIECES).mkdir(exist_ok=True)
    rows = np.flatnonzero(alternative.placed)
    if len(rows):
        colors = as_bytes(piece_colors(len(pieces))[rows])
        write_merged([pieces[i] for i in rows.tolist()], alternative.poses[rows], colors, folder)


# -- pictures ----------------------------------------------------------------------------------------------------------


def _write_pictures(assembly: Assembly, pieces: Sequence[InputPiece], folder: Path, sizes: PictureSizes) -> None:
    pictures = _Pictures.of(assembly, pieces)
    (folder / PREVIEW).write_bytes(pictures.preview(sizes.preview))
    (folder / ANIMATION).write_bytes(pictures.animation(assembly.flow, sizes))


@dataclass(frozen=True)
class _Pictures:
    """The n pieces that the pictures show: those that are placed, or all of them in grey if none is."""

    pieces: Sequence[InputPiece]  # n
    rows: np.ndarray  # (n,) their indices among all pieces
    poses: np.ndarray  # (n, 4, 4)
    colors: np.ndarray  # (n, 3)
    camera: Camera

    @staticmethod
    def of(assembly: Assembly, pieces: Sequence[InputPiece]) -> _Pictures:
        placed, count = assembly.best.placed, len(pieces)
        rows = np.flatnonzero(placed) if placed.any() else np.arange(count)
        colors = piece_colors(count)[rows] if placed.any() else np.tile(FOREIGN[1], (count, 1))
        chosen, poses = [pieces[i] for i in rows.tolist()], assembly.best.poses[rows]
        return _Pictures(chosen, rows, poses, colors, best_view_of_pieces(chosen, poses))

    def preview(self, size: int) -> bytes:
        """A PNG of the best alternative."""
        drawable = DrawablePieces.of(self.pieces, _PREVIEW_DISCS)
        camera = self.camera.framing(drawable.posed_points(self.poses))
        return encode_png(drawable.picture(self.poses, self.colors, camera, size))

    def animation(self, flow: np.ndarray, sizes: PictureSizes) -> bytes:
        """A GIF along the flow (T, N, 4, 4), and from its end to the best alternative."""
        drawable = DrawablePieces.of(self.pieces, _FRAME_DISCS)
        chosen = np.unique(np.linspace(0, len(flow) - 1, sizes.frames).round().astype(int))
        along = flow[chosen][:, self.rows]
        centers = np.stack([piece.points.mean(axis=0) for piece in self.pieces])
        poses = np.concatenate([along, interpolate_poses(along[-1], self.poses, centers, sizes.last_frames)])
        camera = self.camera.framing(np.concatenate([drawable.posed_points(frame) for frame in poses]))
        return encode_gif([drawable.picture(frame, self.colors, camera, sizes.frame) for frame in poses])
