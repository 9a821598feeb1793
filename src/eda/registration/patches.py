"""Patches: the points of a piece that look for counterparts on another piece, close in place and in normal.

On a break normals are opposed where two pieces fit; on a surface that goes on they are the same; of scans only the line
of a normal is known. `Surface` of `icp` looks for the closest point in place alone, within a radius: what overlaps has
one there. A patch always finds a counterpart, so that pieces are pulled together from afar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eda.kernels.nearest import NearestTable
from eda.registration.icp import Correspondences
from eda.registration.rigid import act, inverse, rotate

# How many points of a patch can be counterparts.
MAX_TARGETS = 2048
# How far apart two normals that differ by 60 degrees are, in the tables that see normals as well as places.
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
    def of(points: np.ndarray, normals: np.ndarray, weights: np.ndarray, *, side: int) -> Patch:
        """A patch of points (m, 3), any first few of which cover it."""
        seen = np.hstack([points, side * NORMAL_WEIGHT * normals])[:MAX_TARGETS]
        return Patch(points, normals, weights, side, NearestTable(seen))

    def closest(self, points: np.ndarray, normals: np.ndarray) -> np.ndarray:
        """Which of the first `MAX_TARGETS` points is closest in place and normal. (..., 3), (..., 3) -> (...)."""
        seen = np.concatenate([points.reshape(-1, 3), NORMAL_WEIGHT * normals.reshape(-1, 3)], axis=1)
        return self.table.nearest(seen).reshape(points.shape[:-1])


def counterparts(mine: Patch, points: np.ndarray, normals: np.ndarray, theirs: Patch) -> tuple[np.ndarray, np.ndarray]:
    """Of points (..., 3) with normals of one patch: the closest of another (...), and its normals (..., 3), turned so
    that the two would be the same where the patches fit.
    """
    index = theirs.closest(points, normals)
    found = theirs.normals[index]
    sign = np.copysign(1.0, (normals * found).sum(axis=-1, keepdims=True)) if mine.side == 0 else mine.side
    return index, sign * found


def find_correspondences(
    mine: Patch, theirs: Patch, pose: np.ndarray, other_pose: np.ndarray, radius: float, most_points: int
) -> Correspondences:
    """Points of a patch with their counterparts on another, at poses (K, 4, 4) of the two pieces.

    Weights are Tukey's of the distance within a radius, times how well the normals agree, times those of both points.
    """
    T_theirs_mine = inverse(other_pose) @ pose
    chosen = slice(max(most_points, 1))
    points, normals = act(T_theirs_mine, mine.points[chosen]), rotate(T_theirs_mine, mine.normals[chosen])
    index, target_normals = counterparts(mine, points, normals, theirs)
    targets = theirs.points[index]
    apart = np.square(points - targets).sum(axis=2) / radius**2
    robust = np.square(np.clip(1 - apart, 0, None))  # Tukey's
    agreeing = np.clip((normals * target_normals).sum(axis=2), 0, None)
    # The mean normal instead of either one: exact for curved surfaces too, as in symmetric ICP.
    middle = target_normals + normals
    middle /= np.maximum(np.linalg.norm(middle, axis=2, keepdims=True), 1e-9)
    weights = robust * agreeing * mine.weights[chosen] * theirs.weights[index]
    return Correspondences(act(other_pose, points), act(other_pose, targets), rotate(other_pose, middle), weights)


def closeness(
    mine: Sequence[Patch], theirs: Sequence[Patch], T_theirs_mine: np.ndarray, probes: int, radius: float
) -> np.ndarray:
    """(K,) how much of a piece's patches comes near another's with normals that agree, at relative poses (K, 4, 4).

    Of every patch its first points are asked, which cover it.
    """
    total = np.zeros(len(T_theirs_mine))
    for patch, other in zip(mine, theirs, strict=True):
        points, normals = act(T_theirs_mine, patch.points[:probes]), rotate(T_theirs_mine, patch.normals[:probes])
        index, wanted = counterparts(patch, points, normals, other)
        squared = np.square(points - other.points[index]).sum(axis=2)
        squared += np.square(NORMAL_WEIGHT * (normals - wanted)).sum(axis=2)
        weights = patch.weights[:probes]
        near = np.clip(1 - np.sqrt(squared) / radius, 0, None) * other.weights[index] * weights
        total += near.sum(axis=1) / max(float(weights.sum()), 1e-12)
    return total
