"""InputPiece: a piece as the user gave it. Pictures and result files are made from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eda.cloud import farthest_points
from eda.data.piece_files import PieceFile

MAX_TRIANGLES = 60_000  # of all pieces together; heavier meshes are drawn as discs, which take the same time for any


@dataclass(frozen=True)
class InputPiece:
    """A piece as it was given, with points on its surface and the file from which it was read."""

    name: str
    points: np.ndarray  # (n, 3) float64 on its surface
    normals: np.ndarray | None  # (n, 3) outward
    file: PieceFile | None = None

    @property
    def num_triangles(self) -> int | None:
        """The number of triangles of its mesh; None if it is a cloud."""
        return None if self.file is None or self.file.faces is None else len(self.file.faces)

    def downsample(self, count: int) -> InputPiece:
        """The piece with at most `count` points, evenly spaced."""
        rows = farthest_points(self.points, min(count, len(self.points)))
        normals = None if self.normals is None else self.normals[rows]
        return InputPiece(self.name, self.points[rows], normals, self.file)


def can_draw_as_meshes(pieces: Sequence[InputPiece]) -> bool:
    """Whether all pieces are meshes, and together light enough to be drawn as meshes."""
    counts = [piece.num_triangles for piece in pieces]
    return None not in counts and sum(count or 0 for count in counts) <= MAX_TRIANGLES
