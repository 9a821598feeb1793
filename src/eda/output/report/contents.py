"""What a report shows: the pieces, the alternatives that place them, and how they were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from eda.assembly.result import Alternative, Assembly
from eda.errors import InputError
from eda.output.own_colors import OwnColors, Skin
from eda.output.piece_source import PieceSource
from eda.output.result_folder import PIECES
from eda.output.seams import Seams
from eda.pieces import MIN_POINTS
from eda.render.input_piece import InputPiece, can_draw_as_meshes

_MAX_POINTS = 60_000  # of all pieces
_MAX_PIECE_POINTS = 3000
_MAX_COLORED, _MAX_PIECE_COLORED = 100_000, 20_000  # points with their own colours, of all pieces and of one
_MAX_PIXELS = 8_000_000  # of all pictures on meshes
_SCORE = (
    "0 if no pieces touch, about 1 if all breaks are closed, and more if surfaces continue across the joints; "
    "for scans, the probability that they are aligned correctly"
)


@dataclass(frozen=True)
class ReportPiece:
    """One rigid piece in its own frame. It is drawn as a mesh if it has faces, otherwise as discs.

    Its own colours are those of its mesh, with the same points and faces; or, if it is drawn as discs, of a cloud.
    """

    name: str
    points: np.ndarray  # (n, 3)
    normals: np.ndarray | None = None  # (n, 3) unit and outward; None: estimated for discs, flat faces for meshes
    faces: np.ndarray | None = None  # (m, 3) rows of `points`
    own: OwnColors | None = None

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
    seams: Seams | None = None  # of these pieces and alternatives

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
    def of(
        assembly: Assembly,
        pieces: Sequence[InputPiece],
        command: str,
        folder: str,
        own_colors: Sequence[OwnColors | None],
        seams: Seams,
    ) -> Report:
        """The report of an assembly of these pieces, in the result folder of this name."""
        return Report(
            title=_title(pieces, folder),
            pieces=_report_pieces(pieces, own_colors),
            alternatives=assembly.alternatives,
            flow=assembly.flow,
            note=_note(assembly),
            command=command,
            facts={**_facts(assembly), **_color_facts(own_colors)},
            seams=seams,
        )


def shown_colors(source: PieceSource, pieces: Sequence[InputPiece]) -> OwnColors | None:
    """The own colours of one of the pieces, in as much detail as the report has room for; None if it has none."""
    own = OwnColors.of(source, _MAX_PIXELS / len(pieces))
    if own is None or can_draw_as_meshes(pieces):
        return own
    return own.scattered(min(_MAX_PIECE_COLORED, _MAX_COLORED // len(pieces)))


def _title(pieces: Sequence[InputPiece], folder: str) -> str:
    """The name of the result folder and, if all pieces are from one folder or file, its name."""
    files = [piece.file for piece in pieces if piece.file is not None]
    origins = {file.path.name if file.scene_index is not None else file.path.resolve().parent.name for file in files}
    origin = f" from {next(iter(origins))}" if len(files) == len(pieces) and len(origins) == 1 else ""
    return f"{folder}: {len(pieces)} pieces{origin}"


def _report_pieces(pieces: Sequence[InputPiece], own_colors: Sequence[OwnColors | None]) -> list[ReportPiece]:
    each = max(min(_MAX_PIECE_POINTS, _MAX_POINTS // len(pieces)), MIN_POINTS)
    as_meshes = can_draw_as_meshes(pieces)
    return [
        _report_piece(piece, own, None if as_meshes else each) for piece, own in zip(pieces, own_colors, strict=True)
    ]


def _report_piece(piece: InputPiece, own: OwnColors | None, max_discs: int | None) -> ReportPiece:
    """A piece as a mesh, in the form that carries its colours, or as so many discs."""
    if max_discs is not None:
        downsampled = piece.downsample(max_discs)
        return ReportPiece(piece.name, downsampled.points, downsampled.normals, own=own)
    if own is not None:
        return ReportPiece(piece.name, own.points, None, own.faces, own)
    assert piece.file is not None
    return ReportPiece(piece.name, piece.file.points, None, piece.file.faces)


def _note(assembly: Assembly) -> str:
    """The verdict and what else must not be missed, in words."""
    drawn = ["The pieces are drawn side by side."] if assembly.is_empty else []
    return " ".join([str(assembly.verdict), *assembly.notes, *drawn])


def _color_facts(own_colors: Sequence[OwnColors | None]) -> dict[str, str]:
    """What the own colours leave out, as a label and a text; empty if there are none."""
    known = [own for own in own_colors if own is not None]
    if not known:
        return {}
    skins = [skin for own in known for skin in own.skins if skin.image is not None]
    reduced = [skin for skin in skins if skin.image is not None and skin.image.size != skin.size]
    parts = [f"of {len(known)} pieces"]
    if any(own.faces is None for own in known):
        parts.append(f"at {sum(len(own.points) for own in known if own.faces is None):,} points")
    if reduced:
        parts.append(f"{len(reduced)} of {len(skins)} pictures reduced, {_largest_reduction(reduced)}")
    return {"Own colours": f"{', '.join(parts)}; the files in {PIECES} have them whole"}


def _largest_reduction(skins: Sequence[Skin]) -> str:
    largest = max(skins, key=lambda skin: skin.size[0] * skin.size[1])
    shown = largest.size if largest.image is None else largest.image.size
    return f"the largest from {_pixels(largest.size)} to {_pixels(shown)} pixels"


def _pixels(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"


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
