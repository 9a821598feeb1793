"""For tests of arrangements: some by chance, puzzles with a known solution, and oracles pair by pair and by search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import torch
from scipy.spatial.transform import Rotation
from support.rigid_motions import random_se3, transform_points
from support.soft_matches import REACH, drawn, pairs_of
from torch import Tensor

from eda import SE3
from eda.registration.arrangements import Arrangements, PairScores
from eda.registration.hypotheses import PairHypotheses
from eda.registration.pair_scorer import num_features

FAR = 3.0  # the fastest that two pieces move, in sizes of the puzzle
SAME = math.cos(math.radians(10))  # turns are the same from here on; places are within the reach

# -- arrangements by chance --------------------------------------------------------------------------------


def arrangements_of(counts: list[int], num: int, *, complementary: bool = False, seed: int = 0) -> Arrangements:
    """`num` of puzzles of `counts` pieces; they place all, joined along some tree. Centres are no origins."""
    pairs, rng, total = pairs_of(counts), np.random.default_rng(seed), sum(counts)
    joined = torch.zeros(len(pairs), num, dtype=torch.bool)
    begins = [0, *itertools.accumulate(counts)]
    for way, (begin, end) in itertools.product(range(num), itertools.pairwise(begins)):
        for piece in range(begin + 1, end):
            joined[pairs.index((int(rng.integers(begin, piece)), piece)), way] = True
    first, second = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).unbind(1)
    return Arrangements(
        poses=random_se3(total * num, seed + 1, spread=0.7).reshape(total, num),
        placed=torch.ones(total, num, dtype=torch.bool),
        valid=torch.ones(len(counts), num, dtype=torch.bool),
        first=first,
        second=second,
        is_joint=joined,
        features=drawn(len(pairs), num, num_features(complementary), seed=seed + 2),
        counts=torch.tensor(counts),
        centers=0.5 * drawn(total, 3, seed=seed + 3),
    )


def leaving(arrangements: Arrangements, *left: tuple[int, int]) -> Arrangements:
    """Without some pieces, each in one of the arrangements."""
    placed, joined = arrangements.placed.clone(), arrangements.is_joint.clone()
    for piece, way in left:
        placed[piece, way] = False
        joined[(arrangements.first == piece) | (arrangements.second == piece), way] = False
    return replace(arrangements, placed=placed, is_joint=joined)


def pair_matrix(arrangements: Arrangements, q: int, h: int) -> np.ndarray:
    """How the first of a pair lies to the second."""
    poses = arrangements.poses.matrix().numpy()
    return np.linalg.inv(poses[int(arrangements.second[q]), h]) @ poses[int(arrangements.first[q]), h]


# -- two pieces, as they were moved when there were only pairs ---------------------------------------------


def pairwise(motion: np.ndarray, here: np.ndarray, there: np.ndarray, centers: np.ndarray) -> tuple[np.ndarray, ...]:
    """(w, u) of the first of two pieces at the poses here and there, which both go half of the way, and how far that
    is: in half turns, and in units of `FAR`. The second goes the opposite way.
    """
    whole = there @ motion @ np.linalg.inv(here)
    turn = Rotation.from_matrix(whole[:3, :3]).as_rotvec()
    one, other = transform_points(here, centers[0]), transform_points(there, centers[1])
    half_back = Rotation.from_rotvec(-turn / 2).as_matrix()
    going = (half_back @ (transform_points(whole, one) - other) - (one - other)) / 2
    return turn / 2, going, np.linalg.norm(turn) / math.pi, np.linalg.norm(going) / FAR


def moved_on(poses: SE3, velocity: Tensor, centers: Tensor, time: float) -> SE3:
    """By scipy: every piece turns about its centre, which moves straight on. velocity (N, 6) is (w, u)."""
    turn = torch.from_numpy(Rotation.from_rotvec((time * velocity[:, :3]).numpy()).as_matrix())
    rotation, middle = turn @ poses.rotation, poses.act(centers)
    return SE3(rotation, middle + time * velocity[:, 3:] - (rotation @ centers[..., None]).squeeze(-1))


# -- puzzles whose solution is known -----------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """Stands in for `PairScorer`: by how much a motion of two pieces is wrong, in angle and in place, and a zero."""

    matches: SimpleNamespace  # the pairs and the reach
    truth: SE3  # (N,)
    centers: Tensor  # (N, 3)

    def features(self, pair: Tensor, motion: SE3) -> Tensor:
        first, second = self.matches.first[pair], self.matches.second[pair]
        true = (self.truth[second].inverse() @ self.truth[first]).reshape(-1, 1)
        cosine = ((motion.rotation * true.rotation).sum((-1, -2)) - 1) / 2
        off = [
            (way.act(center[:, None]) - right.act(center[:, None])).norm(dim=-1)
            for way, right, center in (
                (motion, true, self.centers[first]),
                (motion.inverse(), true.inverse(), self.centers[second]),
            )
        ]
        return torch.stack([cosine, off[0] + off[1], torch.zeros_like(cosine)], dim=-1)


SCORES = PairScores(
    joint=lambda features: 1.5 + features[..., 0] - 0.4 * features[..., 1] + features[..., 2],
    neighbor=lambda features: (2 * features[..., 0]).cos() - 0.3 * features[..., 1],
)


@dataclass(frozen=True)
class Planted:
    """A puzzle of which every two pieces have some motions, which are liked more or less."""

    motions: PairHypotheses
    centers: Tensor
    truth: SE3

    @property
    def holding(self) -> list[list[int]]:
        """The motions of every pair that hold."""
        return [row.nonzero()[:, 0].tolist() for row in self.motions.valid]

    def but(self, holds: Tensor) -> Planted:
        return replace(self, motions=replace(self.motions, valid=holds))


def planted(count: int, ways: int, *, worlds: int = 1, seed: int = 0, liked: float = 1.0) -> Planted:
    """The first motions of all pairs agree, in as many `worlds`, the first of them the truth; others do by chance."""
    pairs = pairs_of([count])
    first, second = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).unbind(1)
    solutions = [random_se3(count, seed + 10 * world, spread=1.5) for world in range(max(worlds, 1))]
    together = [(world[second].inverse() @ world[first]).reshape(-1, 1) for world in solutions[:worlds]]
    chance = random_se3(len(pairs) * ways, seed + 5, spread=1.5).reshape(len(pairs), ways)[:, worlds:]
    rotation = torch.cat([*(of.rotation for of in together), chance.rotation], dim=1)
    motion = SE3(rotation, torch.cat([*(of.translation for of in together), chance.translation], dim=1))
    centers = 0.3 * drawn(count, 3, seed=seed + 6)
    known = Seen(SimpleNamespace(first=first, second=second, reach=REACH), solutions[0], centers)
    evidence = known.features(torch.arange(len(pairs)), motion)
    evidence[..., 2] = liked * drawn(len(pairs), ways, seed=seed + 7)
    holds = torch.ones(len(pairs), ways, dtype=torch.bool)
    return Planted(PairHypotheses(motion, holds, evidence, known), centers, solutions[0])


def reframed(puzzle: Planted, frames: SE3) -> Planted:
    """The same puzzle, the own frames of its pieces moved (N,)."""
    seen, motions = puzzle.motions.scorer, puzzle.motions
    ends = [frames[of].reshape(-1, 1) for of in (seen.matches.second, seen.matches.first)]
    centers, truth = frames.act(puzzle.centers), puzzle.truth @ frames.inverse()
    motion = ends[0] @ motions.T_second_first @ ends[1].inverse()
    return Planted(replace(motions, T_second_first=motion, scorer=Seen(seen.matches, truth, centers)), centers, truth)


def reordered(puzzle: Planted, order: list[int]) -> Planted:
    """The same puzzle: its piece i is order[i] of before."""
    seen, motions = puzzle.motions.scorer, puzzle.motions
    pairs = pairs_of([len(order)])
    rows = torch.tensor([pairs.index((min(order[a], order[b]), max(order[a], order[b]))) for a, b in pairs])
    same = torch.tensor([order[a] < order[b] for a, b in pairs])[:, None].expand(-1, motions.T_second_first.shape[1])
    motion = motions.T_second_first[rows].where(same, motions.T_second_first[rows].inverse())
    centers, truth = puzzle.centers[order], puzzle.truth[order]
    known = Seen(seen.matches, truth, centers)
    return Planted(PairHypotheses(motion, motions.valid[rows], motions.features[rows], known), centers, truth)


# -- oracles of the search ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Laid:
    """Some pieces of a puzzle, by name, where they are; which pairs were joined, and what it is worth."""

    poses: dict[int, np.ndarray]
    joints: frozenset[tuple[int, int]]
    value: float


class Plain:
    """A puzzle as a table of matrices, and what pieces are worth to each other, one by one."""

    def __init__(self, puzzle: Planted) -> None:
        self.count, self.pairs = len(puzzle.centers), pairs_of([len(puzzle.centers)])
        motion, holding = puzzle.motions.T_second_first.matrix().numpy(), puzzle.holding
        joined = SCORES.joint(puzzle.motions.features).tolist()
        self.ways = {
            pair: [(motion[q, k], joined[q][k]) for k in holding[q]] for q, pair in enumerate(self.pairs) if holding[q]
        }
        self.truth, self.centers = puzzle.truth.matrix().numpy(), puzzle.centers.numpy()

    def beside(self, i: int, j: int, poses: dict[int, np.ndarray]) -> float:
        """Of how two pieces lie."""
        found, true = (np.linalg.inv(of[j]) @ of[i] for of in (poses, self.truth))
        cosine = (np.trace(found[:3, :3] @ true[:3, :3].T) - 1) / 2
        off = np.linalg.norm(transform_points(found, self.centers[i]) - transform_points(true, self.centers[i]))
        back, true_back = np.linalg.inv(found), np.linalg.inv(true)
        off += np.linalg.norm(transform_points(back, self.centers[j]) - transform_points(true_back, self.centers[j]))
        return math.cos(2 * cosine) - 0.3 * off

    def worth(self, poses: dict[int, np.ndarray], joints: dict[tuple[int, int], float]) -> float:
        """Of all pairs: what their motion is worth where they were joined, else how they lie."""
        return sum(
            joints[pair] if pair in joints else self.beside(*pair, poses)
            for pair in itertools.combinations(sorted(poses), 2)
        )

    def same(self, a: Laid, b: Laid, cosine: float = SAME, apart: float = REACH) -> bool:
        """Whether two place the same pieces, every one alike as every other sees it."""
        if a.poses.keys() != b.poses.keys():
            return False
        for i, j in itertools.permutations(a.poses, 2):
            one, other = (np.linalg.inv(of.poses[j]) @ of.poses[i] for of in (a, b))
            if (np.trace(one[:3, :3] @ other[:3, :3].T) - 1) / 2 <= cosine:
                return False
            here, there = (transform_points(motion, self.centers[i]) for motion in (one, other))
            if np.linalg.norm(here - there) >= apart:
                return False
        return True

    def laid(self, tree: dict[tuple[int, int], np.ndarray]) -> dict[int, np.ndarray]:
        """The pieces along a tree of motions, from that of its first pair."""
        poses = {min(itertools.chain(*tree)): np.eye(4)}
        while len(poses) <= len(tree):
            for (i, j), motion in tree.items():
                if j in poses and i not in poses:
                    poses[i] = poses[j] @ motion
                elif i in poses and j not in poses:
                    poses[j] = poses[i] @ np.linalg.inv(motion)
        return poses

    def trees(self) -> Iterator[tuple[tuple[int, int], ...]]:
        """All spanning trees of the pairs that have motions."""
        for edges in itertools.combinations(self.ways, self.count - 1):
            reached = {0}
            for _ in edges:
                reached |= {piece for edge in edges if reached & set(edge) for piece in edge}
            if len(reached) == self.count:
                yield edges

    def exhausted(self) -> list[Laid]:
        """Every arrangement there is, the best first, each once: by its best tree."""
        everything = []
        for edges in self.trees():
            for ways in itertools.product(*(self.ways[edge] for edge in edges)):
                poses = self.laid({edge: motion for edge, (motion, _) in zip(edges, ways, strict=True)})
                joints = {edge: value for edge, (_, value) in zip(edges, ways, strict=True)}
                everything.append(Laid(poses, frozenset(edges), self.worth(poses, joints)))
        everything.sort(key=lambda laid: -laid.value)
        found: list[Laid] = []
        for laid in everything:
            if not any(self.same(laid, better) for better in found):
                found.append(laid)
        return found

    def beam(self, beam: int, joints: int, examined: int) -> list[Laid]:
        """The search as it is described, one arrangement at a time."""
        begun = [(value, pair, motion) for pair, ways in self.ways.items() for motion, value in ways]
        begun.sort(key=lambda way: -way[0])
        found = [Laid({i: m, j: np.eye(4)}, frozenset([(i, j)]), value) for value, (i, j), m in begun[:beam]]
        while found and any(self._ways_to_grow(laid) for laid in found):
            more = [grown for laid in found for grown in self._grown(laid, joints)]
            more = sorted(more, key=lambda laid: -laid.value)[: examined * beam]
            differ = [one for rank, one in enumerate(more) if not any(self.same(one, of) for of in more[:rank])]
            found = differ[:beam]
        return found

    def _ways_to_grow(self, laid: Laid) -> list[tuple[float, tuple[int, int], np.ndarray]]:
        return [
            (value, pair, motion)
            for pair, ways in self.ways.items()
            if (pair[0] in laid.poses) != (pair[1] in laid.poses)
            for motion, value in ways
        ]

    def _grown(self, laid: Laid, joints: int) -> Iterator[Laid]:
        best = sorted(self._ways_to_grow(laid), key=lambda way: -way[0])[:joints]
        for value, (i, j), motion in best:
            new, old, pose = (i, j, laid.poses.get(j)) if j in laid.poses else (j, i, laid.poses[i])
            poses = {**laid.poses, new: pose @ (motion if new == i else np.linalg.inv(motion))}
            beside = sum(self.beside(min(new, k), max(new, k), poses) for k in laid.poses if k != old)
            yield Laid(poses, laid.joints | {(i, j)}, laid.value + value + beside)


def laid_out(arrangements: Arrangements, value: list[float] | None = None) -> list[Laid]:
    """The arrangements of one puzzle that hold, in their order."""
    matrix, pairs = arrangements.poses.matrix().numpy(), pairs_of(arrangements.counts.tolist())
    return [
        Laid(
            {i: matrix[i, h] for i in range(len(matrix)) if arrangements.placed[i, h]},
            frozenset(pair for q, pair in enumerate(pairs) if arrangements.is_joint[q, h]),
            value[h] if value else math.nan,
        )
        for h in range(arrangements.valid.shape[1])
        if arrangements.valid[0, h]
    ]


def assert_laid_alike(found: list[Laid], expected: list[Laid]) -> None:
    """The same pieces, joined by the same pairs, one as the other sees them; in the same order."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.poses.keys() == b.poses.keys()
        assert a.joints == b.joints
        for i, j in itertools.combinations(a.poses, 2):
            one, other = (np.linalg.inv(of.poses[j]) @ of.poses[i] for of in (a, b))
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)
