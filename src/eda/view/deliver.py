"""What a person gets: an assembly as files and pictures in one folder, all of it or nothing.

In: an `Assembly` and the pieces it is of, as they were read. Out: a folder with `assembly.json`, the pieces moved into
place, all of them as one file, a picture, an animation and the report.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eda.assembly.result import Assembly
from eda.pieces import MIN_POINTS
from eda.view import report
from eda.view.animation import gif
from eda.view.camera import Camera
from eda.view.colors import FOREIGN, as_bytes, piece_colors
from eda.view.figures import Figures, Given, are_meshes, between, view_of
from eda.view.moved_pieces import write_moved, write_whole
from eda.view.result_folder import PIECES, RECORD, check_free, written_whole

_DISCS = 9000  # in a picture of clouds; more look no better
_FRAME_DISCS = 2400
_REPORT_POINTS = 60_000  # of all pieces in the report
_REPORT_PIECE = 3000  # points of one piece at most
_SCORE = (
    "0 if nothing touches, about 1 if all breaks are closed (of two scans: how likely they are right); surfaces that "
    "go on across seams add to it"
)
_SIDE_BY_SIDE = "They are drawn side by side."


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
    _write_pieces(assembly, pieces, folder)
    shown = _Shown.of(assembly, pieces)
    (folder / "preview.png").write_bytes(shown.preview(pictures.preview))
    (folder / "assembly.gif").write_bytes(shown.animation(assembly.flow, pictures))
    report.write_report(folder / "report.html", _scene(assembly, pieces, command))


def _write_pieces(assembly: Assembly, pieces: Sequence[Given], folder: Path) -> None:
    """Those that are placed, one by one and, if there are any, all as one."""
    rows = np.flatnonzero(assembly.best.placed)
    placed, poses = [pieces[i] for i in rows.tolist()], assembly.best.poses[rows]
    (folder / PIECES).mkdir()
    write_moved(placed, poses, folder / PIECES)
    if placed:
        write_whole(placed, poses, as_bytes(piece_colors(len(pieces))[rows]), folder)


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
    return report.Scene(
        title=f"{len(pieces)} pieces",
        note=" ".join([*assembly.notes, *([_SIDE_BY_SIDE] if assembly.is_empty else [])]),
        pieces=_report_pieces(pieces),
        alternatives=assembly.alternatives,
        flow=assembly.flow,
        command=command,
        facts=_facts(assembly),
    )


def _facts(assembly: Assembly) -> dict[str, str]:
    """How the assembly was made, in words."""
    known = assembly.settings
    settings: dict[str, str] = {
        name: str(known[name]) for name in ("samples", "steps", "rounds", "solver", "seed") if name in known
    }
    if "time_limit" in known:
        settings["time limit"] = "none" if known["time_limit"] is None else f"{known['time_limit']:g} s"
    if "refine" in known:
        settings["refinement"] = "yes" if known["refine"] else "no, samples are judged as they are"
    return {
        "model": f"{assembly.model} ({assembly.why})",
        "time": f"{assembly.seconds:.1f} s",
        **settings,
        "score": _SCORE,
    }


def _report_pieces(pieces: Sequence[Given]) -> list[report.Piece]:
    if are_meshes(pieces):
        files = [(piece.name, piece.file) for piece in pieces if piece.file is not None]
        return [report.Piece(name, file.points, None, file.faces) for name, file in files]
    each = min(_REPORT_PIECE, _REPORT_POINTS // len(pieces))
    few = [piece.thinned(max(each, MIN_POINTS)) for piece in pieces]
    return [report.Piece(piece.name, piece.points, piece.normals) for piece in few]
