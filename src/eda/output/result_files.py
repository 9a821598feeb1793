"""The files of a result: an assembly as data, pieces, pictures and a report in one folder, written all or not at all.

In: an `Assembly` and its pieces as they were given. Out: a folder with `assembly.json`, the pieces moved into place,
all of them in one file, a picture, an animation and the report.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eda.assembly.result import Assembly
from eda.data.piece_files import InputNotes
from eda.output import report
from eda.output.placed_pieces import write_merged, write_pieces
from eda.output.result_folder import ANIMATION, PIECES, PREVIEW, RECORD, REPORT, ClaimedFolder, claimed_folder
from eda.render.animation import interpolate_poses
from eda.render.colors import FOREIGN, as_bytes, piece_colors
from eda.render.drawable_pieces import DrawablePieces, best_view_of_pieces
from eda.render.image_files import encode_gif, encode_png
from eda.render.input_piece import InputPiece
from eda.render.virtual_camera import Camera

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
) -> None:
    """Write all files into `folder`, which appears, or is replaced, only when they are complete."""
    with claimed_folder(folder, overwrite) as claimed:
        write_claimed(assembly, pieces, claimed, command=command, sizes=sizes)


def write_claimed(
    assembly: Assembly,
    pieces: Sequence[InputPiece],
    claimed: ClaimedFolder,
    *,
    command: str,
    notes: InputNotes | None = None,
    sizes: PictureSizes | None = None,
) -> None:
    """Write all files into a folder that was claimed before the work began; `notes` go into `assembly.json`."""
    with claimed.replaced([piece.file.path for piece in pieces if piece.file is not None]) as partial:
        (partial / RECORD).write_text(json.dumps(record_of(assembly, command, notes), indent=2))
        _write_files(assembly, pieces, partial, command, sizes or PictureSizes())


def record_of(assembly: Assembly, command: str, notes: InputNotes | None = None) -> dict[str, Any]:
    """The content of `assembly.json`."""
    return {**assembly.as_dict(), "input": (notes or InputNotes()).as_dict(), "command": command}


def _write_files(
    assembly: Assembly, pieces: Sequence[InputPiece], folder: Path, command: str, sizes: PictureSizes
) -> None:
    _write_placed(assembly, pieces, folder)
    pictures = _Pictures.of(assembly, pieces)
    (folder / PREVIEW).write_bytes(pictures.preview(sizes.preview))
    (folder / ANIMATION).write_bytes(pictures.animation(assembly.flow, sizes))
    report.write_report(folder / REPORT, report.Report.of(assembly, pieces, command))


def _write_placed(assembly: Assembly, pieces: Sequence[InputPiece], folder: Path) -> None:
    """Write the placed pieces one by one and, if there are any, merged into one file."""
    rows = np.flatnonzero(assembly.best.placed)
    placed, poses = [pieces[i] for i in rows.tolist()], assembly.best.poses[rows]
    (folder / PIECES).mkdir()
    write_pieces(placed, poses, folder / PIECES)
    if placed:
        write_merged(placed, poses, as_bytes(piece_colors(len(pieces))[rows]), folder)


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
