"""Joints: how two pieces may lie to each other.

In: proposed relative poses of a pair. Out: the distinct joints that they lead to and that are supported, each refined
on its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.score import score_assemblies
from eda.assembly.proposals import Proposals
from eda.assembly.search.assemblies import SAME
from eda.assembly.search.refine import RefineConfig, refine
from eda.registration.rigid import inverse, largest_displacement, relative_poses
from eda.registration.suppression import keep_distinct

# The first half of the steps, while the radius is wide, do with half of the points.
ROUGH = RefineConfig(most_points=RefineConfig().most_points // 2)
HALF = ROUGH.steps // 2
# A wide radius pulls whole breaks together, also where only a part of each meets the other. What is proposed within
# some ten degrees is better refined near by; so both are tried.
NEARBY = RefineConfig(first_radius=0.15, steps=8, first_slide=0.1, most_points=150)
# What is left to do for a match: it is nearly right, but little of the two scans may overlap, so many points are asked.
CLOSE = RefineConfig(first_radius=0.15, steps=8, first_slide=0.1, most_points=400)


@dataclass(frozen=True)
class JointConfig:
    """How many possibilities to follow."""

    joints_per_pair: int = 4
    beam: int = 6  # partial assemblies kept at each step
    tries: int = 10  # ways to go on from each
    least_gain: float = 0.1  # a joint or piece that gains less of what it could is not supported


@dataclass(frozen=True)
class Joint:
    """Piece i at a pose in the frame of piece j."""

    pair: tuple[int, int]  # i, j
    relative: np.ndarray  # (4, 4)
    score: float  # what it adds to the score of an assembly
    quality: float  # what the smaller of the two breaks gains of what it could
    count: int  # how many proposals came to it

    def adds_to(self, poses: np.ndarray, placed: np.ndarray) -> tuple[int, np.ndarray] | None:
        """The piece that the joint adds to an assembly (N, 4, 4), and its pose; None if it adds none."""
        i, j = self.pair
        if placed[i] == placed[j]:
            return None
        return (i, poses[j] @ self.relative) if placed[j] else (j, poses[i] @ inverse(self.relative))


def find_joints(evidence: Evidence, pair: tuple[int, int], proposals: Proposals, config: JointConfig) -> list[Joint]:
    """The distinct joints of one pair that proposals lead to and that are supported, the best first."""
    two = evidence.of_pair(*pair)
    wide = refine(two, _at_identity(proposals.rough), config=ROUGH, part=slice(HALF))
    refined = np.concatenate(
        [
            refine(two, wide, part=slice(HALF, None)),
            refine(two, _at_identity(proposals.rough), config=NEARBY),
            refine(two, _at_identity(proposals.close), config=CLOSE),
        ]
    )
    gain = score_assemblies(two, refined).score * two.masses.sum()
    order = np.argsort(-gain, kind="stable")
    gain, relative = gain[order], relative_poses(refined[order], (0, 1))
    corners = two.fragments[0].corners
    kept, counts = keep_distinct(
        len(order),
        lambda a, b: bool(largest_displacement(corners, relative[a], relative[b]) < SAME),
        config.joints_per_pair,
    )
    quality = gain / (2 * two.masses.min())
    total = evidence.masses.sum()
    return [
        Joint(pair, relative[k], float(gain[k] / total), float(quality[k]), count)
        for k, count in zip(kept, counts, strict=True)
        if quality[k] > config.least_gain
    ]


def _at_identity(proposals: np.ndarray) -> np.ndarray:
    """Assemblies of two pieces of which the second is not moved. (M, 4, 4) -> (M, 2, 4, 4)."""
    return np.stack([proposals, np.broadcast_to(np.eye(4), proposals.shape)], axis=1)
