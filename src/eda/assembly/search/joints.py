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
from eda.registration.suppression import keep_distinct, keep_distinct_poses

# The first half of the steps, while the radius is wide, do with half of the points.
ROUGH = RefineConfig(most_points=RefineConfig().most_points // 2)
HALF = ROUGH.steps // 2
# A wide radius pulls whole breaks together, also where only a part of each meets the other. What is proposed within
# some ten degrees is better refined near by; so both are tried.
NEARBY = RefineConfig(first_radius=0.15, steps=8, first_slide=0.1, most_points=100)
# What is left to do for a match: it is nearly right, but little of the two scans may overlap, so many points are asked.
CLOSE = RefineConfig(first_radius=0.15, steps=8, first_slide=0.1, most_points=400)
# Poses need not be refined, or scored, twice if no point lies further apart than this.
ALIKE = 0.02


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

    def adds_to(self, poses: np.ndarray, placed: np.ndarray) -> tuple[int, np.ndarray] | None:
        """The piece that the joint adds to an assembly (N, 4, 4), and its pose; None if it adds none."""
        i, j = self.pair
        if placed[i] == placed[j]:
            return None
        return (i, poses[j] @ self.relative) if placed[j] else (j, poses[i] @ inverse(self.relative))


def find_joints(evidence: Evidence, pair: tuple[int, int], proposals: Proposals, config: JointConfig) -> list[Joint]:
    """The distinct joints of one pair that proposals lead to and that are supported, the best first."""
    two, corners = evidence.of_pair(*pair), evidence.fragments[pair[0]].corners
    refined = _refine(two, _distinct(proposals.rough, corners), _distinct(proposals.close, corners))
    relative = _distinct(relative_poses(refined, (0, 1)), corners)
    gain = score_assemblies(two, _at_identity(relative)).score * two.masses.sum()
    order = np.argsort(-gain, kind="stable")
    gain, relative = gain[order], relative[order]
    kept, _ = keep_distinct(
        len(order),
        lambda a, b: bool(largest_displacement(corners, relative[a], relative[b]) < SAME),
        config.joints_per_pair,
    )
    quality = gain / (2 * two.masses.min())
    total = evidence.masses.sum()
    return [
        Joint(pair, relative[k], float(gain[k] / total), float(quality[k]))
        for k in kept
        if quality[k] > config.least_gain
    ]


def _refine(two: Evidence, rough: np.ndarray, close: np.ndarray) -> np.ndarray:
    """Two pieces at proposed relative poses, each moved to a fit nearby: rough ones to one far and one near."""
    wide = refine(two, _at_identity(rough), config=ROUGH, part=slice(HALF))
    each = [
        refine(two, wide, part=slice(HALF, None)),
        refine(two, _at_identity(rough), config=NEARBY),
        refine(two, _at_identity(close), config=CLOSE),
    ]
    return np.concatenate(each)


def _distinct(poses: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Poses (M, 4, 4) without those that hardly differ from one before: samples mostly agree. -> (M', 4, 4)."""
    return keep_distinct_poses(poses, corners, ALIKE, len(poses))


def _at_identity(proposals: np.ndarray) -> np.ndarray:
    """Assemblies of two pieces of which the second is not moved. (M, 4, 4) -> (M, 2, 4, 4)."""
    return np.stack([proposals, np.broadcast_to(np.eye(4), proposals.shape)], axis=1)
