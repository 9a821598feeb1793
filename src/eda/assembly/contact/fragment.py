"""Fragment: a piece as the assembly engine sees it.

In: a cloud with outward normals and, for every point, how likely it lies on a break; in normalised units
(`Pieces.points`) and float64. Out: the same, made ready for many nearest-point questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from eda.cloud import farthest_points
from eda.errors import InputError
from eda.registration.icp import Surface
from eda.registration.patches import Patch

# A piece is judged by at most so many points.
MOST_POINTS = 5000
# The share of points on a break in usual puzzles, which a probability must exceed to speak for a break; and the odds,
# relative to that, from which on more would prove no more.
USUAL_SHARE, SURE_ODDS = 0.12, 8.0
MIN_SPACING = 1e-9  # where all points coincide


@dataclass(frozen=True)
class Fragment:
    """One piece in its own frame."""

    points: np.ndarray  # (n, 3)
    normals: np.ndarray  # (n, 3) outward unit vectors
    break_probability: np.ndarray  # (n,)

    def __post_init__(self) -> None:
        count = len(self.points)
        for what, array, shape in (
            ("points", self.points, (count, 3)),
            ("normals", self.normals, (count, 3)),
            ("break_probability", self.break_probability, (count,)),
        ):
            if array.shape != shape or not np.isfinite(array).all():
                raise InputError(f"{what} of a fragment must be finite numbers {shape}, got shape {array.shape}")
        if count < 2:
            raise InputError(f"a fragment needs at least 2 points, got {count}")
        probability = self.break_probability
        if probability.min() < 0 or probability.max() > 1:
            raise InputError(f"break_probability must lie in [0, 1], got {probability.min()} to {probability.max()}")

    def order_points(self, most_points: int = MOST_POINTS) -> Fragment:
        """At most `most_points` points, each the farthest from those before it: any first few cover the piece."""
        rows = farthest_points(self.points, min(len(self.points), most_points))
        return Fragment(self.points[rows], self.normals[rows], self.break_probability[rows])

    def patch(self, rows: np.ndarray, weights: np.ndarray, *, side: int) -> Patch:
        """The patch of some rows; weights (n,) are those of all points."""
        return Patch.of(self.points[rows], self.normals[rows], weights[rows], side=side)

    def surface(self, spacing: float) -> Surface:
        """All points, for registration on another surface; `spacing` is the unit of what is near."""
        return Surface(self.points, self.normals, spacing)

    @cached_property
    def break_evidence(self) -> np.ndarray:
        """(n,) the evidence for a break at every point: 1 surely broken, -1 surely not, 0 as likely as anywhere.

        It is a logarithm of odds, so that a detector that is seldom sure still counts for what it knows.
        """
        probability = self.break_probability.clip(1e-6, 1 - 1e-6)
        odds = probability / (1 - probability) / (USUAL_SHARE / (1 - USUAL_SHARE))
        return (np.log(odds) / np.log(SURE_ODDS)).clip(-1, 1)

    @cached_property
    def tree(self) -> cKDTree:
        """Of all points."""
        return cKDTree(self.points)

    @cached_property
    def center(self) -> np.ndarray:
        """(3,) of a sphere around the points."""
        return (self.points.min(axis=0) + self.points.max(axis=0)) / 2

    @cached_property
    def radius(self) -> float:
        """Of that sphere."""
        return float(np.sqrt(np.square(self.points - self.center).sum(axis=1).max()))

    @cached_property
    def corners(self) -> np.ndarray:
        """(8, 3) of the box around the points: no motion moves a point further than the farthest moved corner."""
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        unit = np.stack(np.meshgrid(*[[0.0, 1.0]] * 3, indexing="ij"), axis=-1).reshape(8, 3)
        return low + unit * (high - low)

    @cached_property
    def spacing(self) -> float:
        """The usual distance between neighbouring points, of those that coincide one: files may repeat points."""
        places = np.unique(self.points, axis=0)
        return float(np.median(cKDTree(places).query(places, k=2)[0][:, 1])) if len(places) > 1 else MIN_SPACING
