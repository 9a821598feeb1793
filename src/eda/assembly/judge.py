"""Judging an assembly without its solution: do breaks lie on breaks, and does nothing lie inside anything else?

In: evidence and poses. Out: scores that are sums over joints (pairs of pieces), so a part can be judged on its own.

    score = (good - bad) / what all pieces could gain - 2 inside / points
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eda.assembly.evidence import Evidence
from eda.assembly.motion import inverse

INSIDE_WEIGHT = 2.0


@dataclass(frozen=True)
class Judgement:
    """K assemblies of N pieces; [k, i, j] is what the points of piece i meet on piece j."""

    good: np.ndarray  # (K, N, N) contacts as they should be
    bad: np.ndarray  # (K, N, N) contacts as they should not be
    inside: np.ndarray  # (K, N, N) points of i inside j
    joints: np.ndarray  # (K, N, N) symmetric: what each pair adds to the score, both ways together
    pieces: np.ndarray  # (K, N) what each piece gained of what it could
    score: np.ndarray  # (K,) 1 at best; 0 if nothing touches


def judge(evidence: Evidence, poses: np.ndarray, placed: np.ndarray | None = None) -> Judgement:
    """Scores of assemblies (K, N, 4, 4) of the pieces `placed` (K, N)."""
    count, num_pieces = poses.shape[:2]
    placed = np.ones((count, num_pieces), dtype=bool) if placed is None else placed
    good, bad, inside = np.zeros((3, count, num_pieces, num_pieces))
    for i, piece in enumerate(evidence.fragments):
        for j, other in enumerate(evidence.fragments):
            both = np.flatnonzero(placed[:, i] & placed[:, j])
            if i != j and len(both):
                relative = inverse(poses[both, j]) @ poses[both, i]
                met = evidence.regime.touch(piece, other, relative, evidence.spacing)
                good[both, i, j], bad[both, i, j], inside[both, i, j] = met.good, met.bad, met.inside
    mass = evidence.masses.sum()
    gain = good - bad - INSIDE_WEIGHT * mass / evidence.num_points * inside
    joints = (gain + gain.swapaxes(1, 2)) / mass
    pieces = gain.sum(axis=2) / evidence.masses
    return Judgement(good, bad, inside, joints, pieces, gain.sum(axis=(1, 2)) / mass)
