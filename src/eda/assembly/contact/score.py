"""The score of an assembly without its solution: do breaks lie on breaks, and does nothing lie inside anything else?
Of scans: how likely do they lie rightly on each other?

In: evidence and poses. Out: scores that are sums over joints (pairs of pieces), so a part has a score of its own.

    score = (good - bad + seam / 2 - 4 inside) / what the pieces could gain by their breaks alone

The weights are those of a conditional logit that picks the right one of some 200 refined placements of two pieces.
Seams count only beside contacts, so pieces that do not touch gain nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eda.assembly.contact.evidence import Evidence
from eda.registration.rigid import relative_poses

SEAM_WEIGHT, INSIDE_WEIGHT = 0.5, 4.0
# Points of a seam that one contact can answer for: on a thin shell there are more of them than of contacts.
SEAM_PER_CONTACT = 4.0


@dataclass(frozen=True)
class AssemblyScores:
    """K assemblies of N pieces; [k, i, j] is what the points of piece i meet on piece j."""

    good: np.ndarray  # (K, N, N) contacts as they should be; of scans, how likely they are
    bad: np.ndarray  # (K, N, N) contacts as they should not be
    seam: np.ndarray  # (K, N, N) points of i from which the surface goes on to j
    inside: np.ndarray  # (K, N, N) points of i inside j
    gain: np.ndarray  # (K, N, N) what that is worth to piece i
    joints: np.ndarray  # (K, N, N) symmetric: what each pair adds to the score, both ways together
    pieces: np.ndarray  # (K, N) what each piece gained of what it could
    score: np.ndarray  # (K,) 0 if nothing touches, about 1 if all breaks are closed; seams and many scans make it more


def score_assemblies(
    evidence: Evidence, poses: np.ndarray, placed: np.ndarray | None = None, joints: np.ndarray | None = None
) -> AssemblyScores:
    """Scores of assemblies (K, N, 4, 4) of the pieces `placed` (K, N), or of some `joints` (K, N, N) alone."""
    count, num_pieces = poses.shape[:2]
    if joints is None:
        placed = np.ones((count, num_pieces), dtype=bool) if placed is None else placed
        joints = placed[:, :, None] & placed[:, None]
    good, bad, seam, inside = np.zeros((4, count, num_pieces, num_pieces))
    for i, j in evidence.pairs:
        both = np.flatnonzero(joints[:, i, j])
        if not len(both):
            continue
        T_j_i = relative_poses(poses[both], (i, j))
        pair = evidence.fragments[i], evidence.fragments[j]
        for (a, b), touch in zip(((i, j), (j, i)), evidence.rules.meet(*pair, T_j_i, evidence.spacing), strict=True):
            good[both, a, b], bad[both, a, b] = touch.good, touch.bad
            seam[both, a, b], inside[both, a, b] = touch.seam, touch.inside
    mass = evidence.masses.sum()
    gain = good - bad + SEAM_WEIGHT * np.minimum(seam, SEAM_PER_CONTACT * good) - INSIDE_WEIGHT * inside
    both_ways = (gain + gain.swapaxes(1, 2)) / mass
    pieces = gain.sum(axis=2) / evidence.masses
    return AssemblyScores(good, bad, seam, inside, gain, both_ways, pieces, gain.sum(axis=(1, 2)) / mass)
