"""Feature matching: relative poses of two scans, from local features of the surface that both saw.

In: dense clouds of the pieces. Out: for every pair of pieces a few poses of the one in the frame of the other. The
features, correspondences and the consensus among them are KISS-Matcher's (Lim et al. 2025), which comes with the extra
`scan`. What is done here: downsampling that does not know the axes, several scales, and a unit of length that suits it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np
from scipy.spatial import cKDTree

from eda.assembly.proposals.proposer import NO_POSES, Pair, PairPoses, PairProposer, Problem, Proposals
from eda.budget import Budget, Stage
from eda.cloud import farthest_points_and_gaps

INSTALL = "pip install '.[scan]' in the clone of Eda"
# Of a cloud, at most so many points and this share of them: the last would lie beside others, at no even distance. Of
# more correspondences than 5000 KISS-Matcher would draw some, with a seed that cannot be set.
MAX_POINTS, SHARE = 5000, 0.8
# How far apart the points lie that are matched, in units of the least that both clouds allow, and at which
# scale their features are taken, in units of that distance: which does best differs from pair to pair.
TRIES = ((1.0, 1.7), (1.0, 2.2), (1.3, 1.7), (1.7, 1.7))
# That distance as KISS-Matcher is told it, which takes lengths for metres and those below 5 mm for a mistake.
SPACING = 0.1
# It estimates normals within this many scales, and crashes where hardly any point has the neighbours for one.
NORMAL_RADIUS, MIN_NEIGHBORS = 3.0, 12


class KissMatcher:
    """Proposes the poses that KISS-Matcher finds between the clouds of pieces; none where it is not installed."""

    def propose(self, problem: Problem, budget: Budget) -> PairProposer:
        """All pairs of pieces are matched at once. A match is nearly right, but may also be a rough guess."""
        found = match(problem.clouds, budget) if problem.clouds and is_installed() else {}
        found = problem.groups.merge_pair_poses(found)

        def of_pair(pair: Pair) -> Proposals:
            poses = found.get(pair, NO_POSES)
            return Proposals(rough=poses, close=poses)

        return of_pair


def is_installed() -> bool:
    """Whether KISS-Matcher is installed."""
    return importlib.util.find_spec("kiss_matcher") is not None


def version() -> str:
    """Which KISS-Matcher is installed; empty if none is."""
    return importlib.metadata.version("kiss-matcher") if is_installed() else ""


def match(clouds: Sequence[np.ndarray], budget: Budget | None = None) -> PairPoses:
    """Poses for every pair of clouds (n_i, 3), as long as there is time; none for a pair in which nothing matches."""
    budget = budget or Budget()
    pairs = list(itertools.combinations(range(len(clouds)), 2))
    downsampled = [_downsample(cloud) for cloud in clouds]
    found: dict[Pair, np.ndarray] = {}
    for done, (i, j) in enumerate(pairs):
        if budget.exhausted:
            break
        budget.report(Stage.MATCH, done / len(pairs))
        found[i, j] = _match_pair(*downsampled[i], *downsampled[j])
    return found


def _downsample(cloud: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, 3) that cover a cloud, and the distance (n,) of each to those before it, which only shrinks."""
    count = min(int(np.ceil(SHARE * len(cloud))), MAX_POINTS)
    rows, gaps = farthest_points_and_gaps(cloud - cloud.mean(axis=0), count)
    return cloud[rows], gaps


def _match_pair(mine: np.ndarray, my_gaps: np.ndarray, theirs: np.ndarray, their_gaps: np.ndarray) -> np.ndarray:
    """(M, 4, 4), M <= len(TRIES). Both clouds get the spacing of the sparser one: else their features differ."""
    densest = float(max(my_gaps[-1], their_gaps[-1]))
    if densest == 0:  # of one of them all points coincide, or nearly all
        return np.zeros((0, 4, 4))
    poses = [
        _try_scale(mine[my_gaps >= apart * densest], theirs[their_gaps >= apart * densest], apart * densest, scale)
        for apart, scale in TRIES
    ]
    return np.array([pose for pose in poses if pose is not None]).reshape(-1, 4, 4)


def _try_scale(mine: np.ndarray, theirs: np.ndarray, spacing: float, scale: float) -> np.ndarray | None:
    """(4, 4), from clouds of one spacing, in any unit and place."""
    # It turns normals towards the origin, where it thinks the scanner was. That is not known: the middle has to do.
    my_middle, their_middle, unit = mine.mean(axis=0), theirs.mean(axis=0), spacing / SPACING
    clouds = (mine - my_middle) / unit, (theirs - their_middle) / unit
    if not all(_is_dense(cloud, scale) for cloud in clouds):
        return None
    pose = _estimate_pose(*clouds, scale * SPACING)
    if pose is not None:
        pose[:3, 3] = unit * pose[:3, 3] + their_middle - pose[:3, :3] @ my_middle
    return pose


def _is_dense(cloud: np.ndarray, scale: float) -> bool:
    """Whether most points have the neighbours that a normal takes."""
    if len(cloud) <= MIN_NEIGHBORS:
        return False
    distance, _ = cKDTree(cloud).query(cloud, [MIN_NEIGHBORS])
    return bool(np.median(distance) < NORMAL_RADIUS * scale * SPACING)


def _estimate_pose(mine: np.ndarray, theirs: np.ndarray, scale: float) -> np.ndarray | None:
    """(4, 4), or None if no correspondences agree."""
    with _one_core():
        from kiss_matcher import KISSMatcher, KISSMatcherConfig

        config = KISSMatcherConfig(
            voxel_size=scale,
            use_voxel_sampling=False,  # on a grid, which knows the axes
            normal_r_gain=NORMAL_RADIUS,
            enable_noise_bound_clamping=False,  # to lengths in metres
        )
        solution = KISSMatcher(config).estimate(list(mine.astype(np.float32)), list(theirs.astype(np.float32)))
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = solution.rotation, np.ravel(solution.translation)
    return pose if solution.valid and np.isfinite(pose).all() else None


@contextmanager
def _one_core() -> Iterator[None]:
    """Let this thread see one core.

    KISS-Matcher's threads race: once in some hundred times the same clouds would get other features, and another pose.
    How many it starts cannot be set, but what it starts keeps to the core that its first use sees, and does not race
    there. Where a system has no such masks (macOS, Windows), or allows none, the race stays.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    seen = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, {sorted(seen)[threading.get_native_id() % len(seen)]})  # not the same one for all
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, seen)
