"""Example: one labelled puzzle as it lies on disk, whatever it came from. Every reader and the generator make these.

In: clouds in assembled position with what is known of their points. Out: a `Puzzle` for the network, thinned to a
number of points, with the labels of the points that were kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eda.cloud import estimate_normals, farthest_points_and_gaps
from eda.errors import InputError
from eda.pieces import MIN_POINTS, Puzzle

NEIGHBORS = 16  # nearest points by which readers estimate the normals that a cloud does not have

# Labels of `contact` that are not the index of a piece.
OUTER = -1  # on the object's own surface
LOST = -2  # on a break, but what it touched is not among the pieces


@dataclass(frozen=True)
class Example:
    """N pieces in assembled position, in their own units, P points in all, one piece after the other."""

    name: str
    points: np.ndarray  # (P, 3) float32
    sizes: np.ndarray  # (N,) int64, points of each piece
    normals: np.ndarray | None = None  # (P, 3) float32, unit and outward
    contact: np.ndarray | None = None  # (P,) int16, the piece that a point on a break touches, or OUTER or LOST
    foreign: np.ndarray | None = None  # (N,) bool, pieces of another object, whose place means nothing; None: no piece
    gaps: np.ndarray | None = None  # (P,) float32, see `sort_farthest_first`

    def __post_init__(self) -> None:
        count, num_pieces = len(self.points), len(self.sizes)
        for what, array, shape in (
            ("points", self.points, (count, 3)),
            ("normals", self.normals, (count, 3)),
            ("contact", self.contact, (count,)),
            ("foreign", self.foreign, (num_pieces,)),
            ("gaps", self.gaps, (count,)),
        ):
            if array is not None and array.shape != shape:
                raise InputError(f"{self.name}: {what} must have shape {shape}, got {array.shape}")
        if num_pieces and self.sizes.min() < 1:
            raise InputError(f"{self.name}: piece {int(self.sizes.argmin())} has no points")
        if int(self.sizes.sum()) != count:
            raise InputError(f"{self.name}: the pieces have {int(self.sizes.sum())} points but there are {count}")
        if not np.isfinite(self.points).all():
            raise InputError(f"{self.name}: points with NaN or infinite coordinates")

    @staticmethod
    def from_clouds(
        name: str,
        clouds: Sequence[np.ndarray],
        normals: Sequence[np.ndarray] | None = None,
        contact: Sequence[np.ndarray] | None = None,
        foreign: Sequence[bool] | None = None,
    ) -> Example:
        """An example from one array a piece, moved to the origin in float64 and stored in float32."""
        if not clouds:
            raise InputError(f"{name}: no pieces")
        points = np.concatenate([np.asarray(cloud, dtype=np.float64) for cloud in clouds])
        return Example(
            name=name,
            points=(points - points.mean(axis=0)).astype(np.float32),
            sizes=np.array([len(cloud) for cloud in clouds], dtype=np.int64),
            normals=None if normals is None else np.concatenate(normals).astype(np.float32),
            contact=None if contact is None else np.concatenate(contact).astype(np.int16),
            foreign=None if foreign is None else np.asarray(foreign, dtype=bool),
        )

    def check(self) -> None:
        """Raises `InputError` for what cannot be a puzzle."""
        if self.num_pieces < 2 or self.sizes.min() < MIN_POINTS:
            raise InputError(
                f"{self.name}: {self.num_pieces} pieces, the smallest of {min(self.sizes, default=0)} points; "
                f"a puzzle needs at least 2 pieces of {MIN_POINTS} points"
            )

    @property
    def num_pieces(self) -> int:
        """N, the number of pieces."""
        return len(self.sizes)

    @property
    def on_break(self) -> np.ndarray | None:
        """(P,) bool, which points lie on a break surface."""
        return None if self.contact is None else self.contact != OUTER

    @property
    def own(self) -> np.ndarray:
        """(N,) bool, which pieces belong to the object."""
        return np.ones(self.num_pieces, dtype=bool) if self.foreign is None else ~self.foreign

    def clouds(self, values: np.ndarray | None = None) -> list[np.ndarray]:
        """The points, or other values of the points, one array a piece."""
        return np.split(self.points if values is None else values, np.cumsum(self.sizes)[:-1])

    def rows(self, chosen: np.ndarray, sizes: np.ndarray) -> Example:
        """The example with some of its points only, or in another order; `chosen` stays within pieces."""
        return replace(
            self,
            points=self.points[chosen],
            sizes=sizes,
            normals=None if self.normals is None else self.normals[chosen],
            contact=None if self.contact is None else self.contact[chosen],
            gaps=None if self.gaps is None else self.gaps[chosen],
        )

    def with_normals(self, neighbors: int = NEIGHBORS) -> Example:
        """The example with its own normals, or else with normals estimated from so many nearest points of a piece.

        The signs of estimated normals are a guess. With `neighbors` 0 nothing is estimated.
        """
        if self.normals is not None or not neighbors:
            return self
        estimated = [estimate_normals(cloud, neighbors) for cloud in self.clouds()]
        return replace(self, normals=np.concatenate(estimated).astype(np.float32))

    def sort_farthest_first(self) -> Example:
        """The points of every piece in farthest-point order, each with its gap: how far those before it were.

        The points with a gap above some length cover every piece evenly at that length, so thinning is a choice of
        rows, and does not know the axes.
        """
        first = np.cumsum(self.sizes) - self.sizes
        runs = [farthest_points_and_gaps(cloud, len(cloud)) for cloud in self.clouds()]
        order = np.concatenate([rows + start for (rows, _), start in zip(runs, first, strict=True)])
        gaps = np.concatenate([gaps for _, gaps in runs]).astype(np.float32)
        return replace(self.rows(order, self.sizes), gaps=gaps)

    def downsample(self, budget: int) -> Example:
        """About `budget` points at the same distance from each other on every piece; small pieces keep a few more."""
        if self.gaps is None:
            return self.sort_farthest_first().downsample(budget)
        if budget >= len(self.points):
            return self
        keep = np.concatenate([np.arange(size) for size in self.sizes]) < MIN_POINTS
        keep[np.argsort(-self.gaps, kind="stable")[:budget]] = True
        piece = np.repeat(np.arange(self.num_pieces), self.sizes)
        return self.rows(np.flatnonzero(keep), np.bincount(piece[keep], minlength=self.num_pieces))

    def puzzle(self) -> Puzzle:
        """The pieces for a network and their solution, in which the object's own pieces are centred."""
        normals = None if self.normals is None else self.clouds(self.normals)
        return Puzzle.from_assembled(self.clouds(), normals, own=self.own)
