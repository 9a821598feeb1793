"""What it means that two pieces fit, for sherds that meet at their breaks as for scans that overlap.

A regime says which points pull on which (`patches`), how much a piece can gain (`mass`), and what two pieces gain where
they meet (`meet`). Everything else, from refinement to ranking, is the same, but for how sure one may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from eda.assembly.fragment import Fragment
from eda.assembly.motion import act, turn
from eda.kernels.nearest import NearestTable
from eda.regime import Regime as RegimeName

# How many points of a patch are looked for.
MOST_TARGETS = 1024
# How far apart two normals that differ by 60 degrees are, in the trees that see normals as well as places.
NORMAL_WEIGHT = 0.1


@dataclass(frozen=True)
class Patch:
    """m points of a piece that correspond to points of the same kind of patch on another piece."""

    points: np.ndarray  # (m, 3)
    normals: np.ndarray  # (m, 3)
    weights: np.ndarray  # (m,) how likely they are of that kind
    side: int  # the normals of corresponding points are the same (1), opposed (-1), or known up to their sign (0)
    table: NearestTable  # of (place, weighted normal of the counterpart)

    @staticmethod
    def of(fragment: Fragment, weights: np.ndarray, rows: np.ndarray, *, side: int) -> Patch:
        """Of some rows of a fragment; weights (n,) are those of all its points."""
        points, normals = fragment.points[rows], fragment.normals[rows]
        seen = np.hstack([points, side * NORMAL_WEIGHT * normals])[:MOST_TARGETS]
        return Patch(points, normals, weights[rows], side, NearestTable(seen))

    def nearest(self, points: np.ndarray, normals: np.ndarray) -> np.ndarray:
        """Which of the first `MOST_TARGETS` points lies nearest in place and normal. (..., 3), (..., 3) -> (...)."""
        seen = np.concatenate([points.reshape(-1, 3), NORMAL_WEIGHT * normals.reshape(-1, 3)], axis=1)
        return self.table.nearest(seen).reshape(points.shape[:-1])


def counterpart(mine: Patch, points: np.ndarray, normals: np.ndarray, theirs: Patch) -> tuple[np.ndarray, np.ndarray]:
    """Of points (..., 3) with normals of one patch: the nearest of another (...), and its normals (..., 3), turned so
    that the two would be the same where the patches fit.
    """
    index = theirs.nearest(points, normals)
    found = theirs.normals[index]
    sign = np.copysign(1.0, (normals * found).sum(axis=-1, keepdims=True)) if mine.side == 0 else mine.side
    return index, sign * found


def closeness(
    mine: Sequence[Patch], theirs: Sequence[Patch], relative: np.ndarray, probes: int, radius: float
) -> np.ndarray:
    """(K,) how much of a piece's patches comes near another's with normals that agree, at relative poses (K, 4, 4).

    Of every patch its first points are asked, which cover it.
    """
    total = np.zeros(len(relative))
    for patch, other in zip(mine, theirs, strict=True):
        points, normals = act(relative, patch.points[:probes]), turn(relative, patch.normals[:probes])
        index, wanted = counterpart(patch, points, normals, other)
        squared = np.square(points - other.points[index]).sum(axis=2)
        squared += np.square(NORMAL_WEIGHT * (normals - wanted)).sum(axis=2)
        weights = patch.weights[:probes]
        near = np.clip(1 - np.sqrt(squared) / radius, 0, None) * other.weights[index] * weights
        total += near.sum(axis=1) / max(float(weights.sum()), 1e-12)
    return total


@dataclass(frozen=True)
class Touch:
    """What the points of one piece meet on another, in K assemblies; all (K,)."""

    good: np.ndarray  # contacts as they should be; of scans, how likely they are
    bad: np.ndarray  # contacts as they should not be
    seam: np.ndarray  # points beside a joint from which the surface goes on to the other piece
    inside: np.ndarray  # points behind the other's surface


class Regime(Protocol):
    """What it means that two pieces fit."""

    name: RegimeName

    def patches(self, fragment: Fragment) -> tuple[Patch, ...]:
        """The points of a piece that pull, by kind; the first kind alone suggests where another piece may go."""

    def mass(self, fragment: Fragment) -> float:
        """How much of `Touch.good` a piece can gain."""

    def meet(self, piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> tuple[Touch, Touch]:
        """What the points of a piece meet on another and the other's on it, at poses (K, 4, 4) in the frame of that."""
