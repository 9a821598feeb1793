"""Pooling: joints that were right in different samples, put together into one assembly.

In: relative poses of pairs of pieces, from samples or from geometry. Out: the distinct joints that are supported, each
refined on its own, and assemblies grown from them by a beam search over pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components

from eda.assembly.assemblies import SAME, Assemblies
from eda.assembly.evidence import Evidence
from eda.assembly.judge import judge
from eda.assembly.refine import RefineConfig, refine
from eda.registration.beam_search import beam_search
from eda.registration.rigid import inverse, largest_displacement, relative_poses
from eda.registration.suppression import keep_distinct

# The first half of the steps, while the radius is wide, do with half of the points.
ROUGH = RefineConfig(most_points=RefineConfig().most_points // 2)
HALF = ROUGH.steps // 2
# What is left to do for a match: it is nearly right, but little of the two scans may overlap, so many points are asked.
CLOSE = RefineConfig(first_radius=0.15, steps=8, first_slide=0.1, most_points=400)
NO_POSES = np.zeros((0, 4, 4))


@dataclass(frozen=True)
class PoolConfig:
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


def find_joints(
    evidence: Evidence,
    pair: tuple[int, int],
    config: PoolConfig,
    *,
    rough: np.ndarray = NO_POSES,
    close: np.ndarray = NO_POSES,
) -> list[Joint]:
    """The distinct joints of one pair that proposals lead to and that are supported, the best first.

    Of the proposals, some are `rough` (M, 4, 4); others are `close` (M', 4, 4), if they are right at all.
    """
    two = evidence.of_pair(*pair)
    wide = refine(two, _at_identity(rough), config=ROUGH, part=slice(HALF))
    refined = np.concatenate(
        [refine(two, wide, part=slice(HALF, None)), refine(two, _at_identity(close), config=CLOSE)]
    )
    gain = judge(two, refined).score * two.masses.sum()
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


def grow(evidence: Evidence, joints: list[Joint], config: PoolConfig, anchor: int | None = None) -> Assemblies:
    """Assemblies from joints, by a beam search, the best first. Pieces without a supported joint stay unplaced.

    With an anchor, only assemblies with this piece.
    """
    seeds = _seed_beam(evidence, [joint for joint in joints if anchor is None or anchor in joint.pair], config)
    beams = beam_search(seeds, lambda beam: _expand_beam(evidence, beam, joints, config))
    return Assemblies.cat(beams).best(evidence, 4 * config.beam)


def _seed_beam(evidence: Evidence, joints: list[Joint], config: PoolConfig) -> Assemblies:
    """Assemblies of two pieces: the best joints."""
    best = sorted(joints, key=lambda joint: -joint.score)[: 2 * config.beam]
    poses = np.tile(np.eye(4), (len(best), len(evidence), 1, 1))
    placed = np.zeros((len(best), len(evidence)), dtype=bool)
    for k, joint in enumerate(best):
        poses[k, joint.pair[0]] = joint.relative
        placed[k, list(joint.pair)] = True
    return Assemblies.of(evidence, poses, placed)


def _expand_beam(evidence: Evidence, beam: Assemblies, joints: list[Joint], config: PoolConfig) -> Assemblies | None:
    """The assemblies with one more piece, in the best of the ways that joints offer; None if there is none."""
    by_score = sorted(joints, key=lambda joint: -joint.score)
    offers: list[tuple[int, int, np.ndarray]] = []
    for k in range(len(beam)):
        added = [joint.adds_to(beam.poses[k], beam.placed[k]) for joint in by_score]
        offers += [(k, *offer) for offer in added if offer is not None][: config.tries]
    if not offers:
        return None
    rough = with_piece(evidence, beam, offers).best(evidence, 2 * config.beam)
    refined = rough.polish(evidence)
    grown = refined[np.flatnonzero(all_supported(refined, config))].best(evidence, config.beam)
    return grown if len(grown) else None


def with_piece(evidence: Evidence, beam: Assemblies, offers: list[tuple[int, int, np.ndarray]]) -> Assemblies:
    """For every offer (assembly, piece, pose), the assembly with that piece at that pose."""
    source, piece = np.array([k for k, _, _ in offers]), np.array([i for _, i, _ in offers])
    every, before = np.arange(len(offers)), beam[source]
    poses, placed = before.poses.copy(), before.placed.copy()
    poses[every, piece] = np.stack([pose for _, _, pose in offers])
    placed[every, piece] = True
    new = np.zeros((*placed.shape, len(evidence)), dtype=bool)
    new[every, piece] = new[every, :, piece] = before.placed
    added = judge(evidence, poses, joints=new)  # the other joints are as they were
    return Assemblies(poses, placed, before.score + added.score, before.pieces + added.pieces)


def prune_unsupported(
    evidence: Evidence, poses: np.ndarray, config: PoolConfig, anchor: int | None = None
) -> Assemblies:
    """Assemblies (K, N, 4, 4) without their unsupported pieces, taken out one after the other, and of the rest the
    connected component that gains most. With an anchor, which is never taken out, the component of this piece.
    """
    gain, placed = judge(evidence, poses).gain, np.ones(poses.shape[:2], dtype=bool)
    for _ in range(len(evidence)):
        pieces = (gain * placed[:, None]).sum(axis=2) / evidence.masses
        unsupported = placed & (pieces <= config.least_gain)
        if anchor is not None:
            unsupported[:, anchor] = False
        rows = np.flatnonzero(unsupported.any(axis=1))
        placed[rows, np.where(unsupported, pieces, np.inf)[rows].argmin(axis=1)] = False
    components = [_best_component(one, some, anchor) for one, some in zip(gain, placed, strict=True)]
    placed = np.array(components, dtype=bool).reshape(placed.shape)
    found = Assemblies.of(evidence, poses, placed)
    return found[np.flatnonzero(all_supported(found, config) & (placed.sum(axis=1) > 1))]


def _best_component(gain: np.ndarray, placed: np.ndarray, anchor: int | None) -> np.ndarray:
    """(N,) of the pieces placed, the component, connected by joints of gain (N, N), that gains most."""
    components = _components(gain, placed)
    if anchor is not None:
        return placed & (components == components[anchor])
    within = [gain[np.ix_(components == k, components == k)].sum() for k in range(components.max() + 1)]
    return placed & (components == int(np.argmax(within)))


def _components(gain: np.ndarray, placed: np.ndarray) -> np.ndarray:
    """(N,) the number of the connected component of every piece; those not placed are components of their own."""
    return connected_components((gain + gain.T > 0) & placed & placed[:, None], directed=False)[1]


def is_connected(evidence: Evidence, assemblies: Assemblies) -> np.ndarray:
    """(K,) whether the pieces placed are connected by joints that gain."""
    gain = judge(evidence, assemblies.poses, assemblies.placed).gain
    every = zip(gain, assemblies.placed, strict=True)
    return np.array([len(np.unique(_components(one, placed)[placed])) <= 1 for one, placed in every], dtype=bool)


def all_supported(assemblies: Assemblies, config: PoolConfig) -> np.ndarray:
    """(K,) whether every piece that is placed gains enough."""
    return ((assemblies.pieces > config.least_gain) | ~assemblies.placed).all(axis=1)
