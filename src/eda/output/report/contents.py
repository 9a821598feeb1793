"""What a report shows: the pieces, the alternatives that place them, and how they were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from eda.assembly.result import Alternative, Assembly
from eda.errors import InputError
from eda.pieces import MIN_POINTS
from eda.render.input_piece import InputPiece, can_draw_as_meshes

_MAX_POINTS = 60_000  # of all pieces
_MAX_PIECE_POINTS = 3000
_SCORE = (
    "0 if no pieces touch, about 1 if all breaks are closed, and more if surfaces continue across the joints; "
    "for scans, the probability that they are aligned correctly"
)


@dataclass(frozen=True)
class ReportPiece:
    """One rigid piece in its own frame. It is drawn as a mesh if it has faces, otherwise as discs."""

    name: str
    points: np.ndarray  # (n, 3)
    normals: np.ndarray | None = None  # (n, 3) unit and outward; None: estimated for discs, flat faces for meshes
    faces: np.ndarray | None = None  # (m, 3) rows of `points`

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
            raise InputError(f"piece {self.name!r}: a face refers to a point that does not exist")

    @cached_property
    def center(self) -> np.ndarray:
        """(3,) float64, the point about which the piece rotates when poses are interpolated."""
        return np.asarray(self.points, dtype=np.float64).mean(axis=0)

    @cached_property
    def centered_points(self) -> np.ndarray:
        """(n, 3) float64, the points relative to their centre."""
        return np.asarray(self.points, dtype=np.float64) - self.center


@dataclass(frozen=True)
class Report:
    """Everything that a report shows."""

    title: str
    pieces: Sequence[ReportPiece]  # N
    alternatives: Sequence[Alternative]  # the best first
    flow: np.ndarray | None = None  # (T, N, 4, 4) poses from noise to the best alternative, evenly spaced in time
    note: str = ""  # what the reader must not miss, such as that no piece was placed
    command: str = ""  # that made the report
    facts: Mapping[str, str] = field(default_factory=dict)  # label -> text, in the order in which they are shown

    def __post_init__(self) -> None:
        count = len(self.pieces)
        if not count or not self.alternatives:
            raise InputError("a report needs at least one piece and one alternative")
        for number, alternative in enumerate(self.alternatives):
            if len(alternative.poses) != count:
                raise InputError(f"alternative {number} has {len(alternative.poses)} poses for {count} pieces")
        if self.flow is not None and self.flow.shape[1:] != (count, 4, 4):
            raise InputError(f"the flow must have shape (T, {count}, 4, 4), got {self.flow.shape}")

    @staticmethod
    def of(assembly: Assembly, pieces: Sequence[InputPiece], command: str) -> Report:
        """The report of an assembly of these pieces."""
        return Report(
            title=f"Assembly of {len(pieces)} pieces",
            pieces=_report_pieces(pieces),
            alternatives=assembly.alternatives,
            flow=assembly.flow,
            note=_note(assembly),
            command=command,
            facts=_facts(assembly),
        )


def _report_pieces(pieces: Sequence[InputPiece]) -> list[ReportPiece]:
    if can_draw_as_meshes(pieces):
        files = [(piece.name, piece.file) for piece in pieces if piece.file is not None]
        return [ReportPiece(name, file.points, None, file.faces) for name, file in files]
    each = min(_MAX_PIECE_POINTS, _MAX_POINTS // len(pieces))
    downsampled = [piece.downsample(max(each, MIN_POINTS)) for piece in pieces]
    return [ReportPiece(piece.name, piece.points, piece.normals) for piece in downsampled]


def _note(assembly: Assembly) -> str:
    """The verdict and what else must not be missed, in words."""
    drawn = ["The pieces are drawn side by side."] if assembly.is_empty else []
    return " ".join([str(assembly.verdict), *assembly.notes, *drawn])


def _facts(assembly: Assembly) -> dict[str, str]:
    """How the assembly was made, as labels and texts."""
    known = assembly.settings
    settings: dict[str, str] = {
        name.capitalize(): str(known[name])
        for name in ("samples", "steps", "rounds", "solver", "seed")
        if name in known
    }
    if "time_limit" in known:
        settings["Time limit"] = "none" if known["time_limit"] is None else f"{known['time_limit']:g} s"
    if "refine" in known:
        settings["Refinement"] = "yes" if known["refine"] else "no, samples were ranked without it"
    return {
        "Model": f"{assembly.model} ({assembly.why})",
        "Time": f"{assembly.seconds:.1f} s",
        **settings,
        "Score": _SCORE,
    }
