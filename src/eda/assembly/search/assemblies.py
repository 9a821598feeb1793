"""Assemblies: some placements of the pieces of a puzzle, with their scores; and which of them are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.score import score_assemblies
from eda.assembly.search.refine import RefineConfig, refine
from eda.registration.rigid import act, inverse, largest_displacement
from eda.registration.suppression import keep_distinct

# What is left to do for pieces whose joints are already refined: the errors that add up along a chain.
POLISH = RefineConfig(first_radius=0.15, steps=5, first_slide=0.05, most_points=40)
# Two placements are the same if no point lies further apart than this, in units of the puzzle's size.
SAME = 0.1


@dataclass(frozen=True)
class Assemblies:
    """K assemblies, not all of whose pieces need be placed."""

    poses: np.ndarray  # (K, N, 4, 4)
    placed: np.ndarray  # (K, N) bool
    score: np.ndarray  # (K,)
    pieces: np.ndarray  # (K, N) what each piece gained of what it could

    @staticmethod
    def none(num_pieces: int) -> Assemblies:
        """No assembly at all."""
        shape = (0, num_pieces)
        return Assemblies(np.zeros((*shape, 4, 4)), np.zeros(shape, dtype=bool), np.zeros(0), np.zeros(shape))

    @staticmethod
    def of(evidence: Evidence, poses: np.ndarray, placed: np.ndarray) -> Assemblies:
        """Poses (K, N, 4, 4) of the pieces `placed` (K, N), with their scores."""
        found = score_assemblies(evidence, poses, placed)
        return Assemblies(poses, placed, found.score, found.pieces)

    @staticmethod
    def cat(several: Sequence[Assemblies]) -> Assemblies:
        """One after the other."""
        names = ("poses", "placed", "score", "pieces")
        return Assemblies(*(np.concatenate([getattr(some, name) for some in several]) for name in names))

    def polish(self, evidence: Evidence) -> Assemblies:
        """Refined a little, all pieces of an assembly together; those that this makes worse are left as they are."""
        return self.or_better(Assemblies.of(evidence, refine(evidence, self.poses, self.placed, POLISH), self.placed))

    def or_better(self, others: Assemblies) -> Assemblies:
        """Each of these, or of as many others the one in its place where that has a higher score."""
        either = Assemblies.cat([self, others])
        return either[np.arange(len(self)) + np.where(others.score > self.score, len(self), 0)]

    def best(self, evidence: Evidence, count: int) -> Assemblies:
        """The distinct ones with the highest scores, the best first."""
        ranked = self[np.argsort(-self.score, kind="stable")]
        kept, _ = keep_distinct(len(ranked), lambda a, b: is_same(evidence, ranked, a, b), count)
        return ranked[kept]

    def __getitem__(self, index: np.ndarray | list[int]) -> Assemblies:
        index = np.asarray(index, dtype=np.int64)
        return Assemblies(self.poses[index], self.placed[index], self.score[index], self.pieces[index])

    def __len__(self) -> int:
        return len(self.score)


def is_same(evidence: Evidence, every: Assemblies, a: int, b: int) -> bool:
    """Whether two assemblies have the same pieces in the same places, up to a motion of the whole."""
    return np.array_equal(every.placed[a], every.placed[b]) and not contradict(evidence, every, a, b)


def contradict(evidence: Evidence, every: Assemblies, a: int, b: int) -> bool:
    """Whether two assemblies cannot both be right: the pieces that both place do not lie alike in them."""
    shared = np.flatnonzero(every.placed[a] & every.placed[b])
    if len(shared) < 2:
        return False
    first, *others = shared
    onto = every.poses[a, first] @ inverse(every.poses[b, first])
    corners = [fragment.corners for fragment in evidence.fragments]
    moves = (largest_displacement(corners[i], every.poses[a, i], onto @ every.poses[b, i]) for i in others)
    return any(move >= SAME for move in moves)


def same_shape(evidence: Evidence, every: Assemblies, a: int, b: int) -> bool:
    """Whether two assemblies look the same though pieces changed places or turned about their own symmetry.

    One of them is moved so that some piece lies in the same place in both; then all points must have one nearby.
    """
    if not np.array_equal(every.placed[a], every.placed[b]):
        return False
    whole = placed_points(evidence, every.poses[a], every.placed[a])
    tree = cKDTree(whole)
    moved = placed_points(evidence, every.poses[b], every.placed[b])
    for i in np.flatnonzero(every.placed[a]):
        onto = every.poses[a, i] @ inverse(every.poses[b, i])
        distance, _ = tree.query(act(onto, moved))
        if np.quantile(distance, 0.95) < evidence.spacing * 1.5:
            return True
    return False


def placed_points(evidence: Evidence, poses: np.ndarray, placed: np.ndarray) -> np.ndarray:
    """The points of all pieces placed, in their places."""
    return np.concatenate([act(poses[i], evidence.fragments[i].points) for i in np.flatnonzero(placed)])
