"""Pose groups: which scans hang together, and how they lie, by edges of which some are wrong.

In: a pose graph. Out: groups of scans with their poses, and how sure each is.

First, edges go that are contradicted by loops of three more strongly than they, and loops that agree, speak for them.
Then every scan begins as a group of its own, and the two groups that surely lie to each other in one way become one,
the surest first; with one edge a pair this is a spanning tree of the most probable edges. Between larger groups there
are several edges: those that agree on how the groups lie count together, and those that contradict count against.
Where loops close, the poses of the new group are optimised, so errors do not add up along a chain. It ends when nothing
is sure enough; what is left apart does not connect, as far as is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from eda.budget import Budget
from eda.lie import SE3
from eda.registration.pose_graph import SUREST, Edges, displacement, optimize
from eda.registration.rigid import inverse

# Edges agree if they are no further from one another than this, in units of the radius of a scan.
AGREE = 0.35
# So sure it must be how two groups lie before they become one.
LEAST = 0.75
STEPS, FINAL_STEPS = 3, 20  # of the solver: after loops were closed, when poses are nearly right, and at the end


@dataclass(frozen=True)
class PoseGroup:
    """Scans that hang together."""

    members: np.ndarray  # (n,) in rising order
    poses: np.ndarray  # (n, 4, 4) up to a motion of the whole
    probability: float  # that all of them lie rightly


@dataclass(frozen=True)
class _Joining:
    """How two groups lie to each other by one of the edges between them."""

    evidence: float  # -log of the probability that this is wrong
    first: int  # of the groups, by their smallest members
    second: int
    T_second_first: np.ndarray = field(repr=False)


def join_groups(
    count: int, edges: Edges, known_poses: dict[int, np.ndarray] | None = None, budget: Budget | None = None
) -> list[PoseGroup]:
    """The groups of so many scans, the largest first, of equals that with the smallest member.

    Scans with `known_poses` (4, 4) are one group from the beginning, do not move, and are in the first. When the time
    is over, poses are no longer optimised after each joining, only at the end.
    """
    return _Joiner(count, edges[without_contradicted(edges)], known_poses or {}, budget or Budget()).run()


def without_contradicted(edges: Edges) -> np.ndarray:
    """The rows of edges that loops of three do not contradict more strongly than all else speaks for them."""
    ways: dict[int, dict[int, list[tuple[np.ndarray, float]]]] = {}  # from a scan to its neighbours
    for i, j, motion, probability in zip(
        edges.source.tolist(), edges.target.tolist(), edges.T_target_source, edges.probability, strict=True
    ):
        ways.setdefault(i, {}).setdefault(j, []).append((motion, probability))
        ways.setdefault(j, {}).setdefault(i, []).append((inverse(motion), probability))
    own = edges.strength
    return np.array([row for row in range(len(edges)) if own[row] + _loops(edges, row, ways) > 0], dtype=np.int64)


def _loops(edges: Edges, row: int, ways: dict[int, dict[int, list[tuple[np.ndarray, float]]]]) -> float:
    """How strongly the ways over a third scan speak for an edge, or against it if negative."""
    i, j, total = int(edges.source[row]), int(edges.target[row]), 0.0
    for third in ways[i].keys() & ways[j].keys():
        each = [(back @ on, p * q) for on, p in ways[i][third] for back, q in ways[third][j]]
        motions, sure = np.stack([motion for motion, _ in each]), np.array([likely for _, likely in each])
        agree = displacement(edges.T_target_source[row], motions, edges.radius) < AGREE * edges.radius
        strength = -np.log1p(-sure.clip(max=SUREST))
        total += strength[agree].max() if agree.any() else -strength.max()
    return total


class _Joiner:
    """Groups that become fewer."""

    def __init__(self, count: int, edges: Edges, known_poses: dict[int, np.ndarray], budget: Budget) -> None:
        self.edges, self.budget = edges, budget
        self.tolerance = AGREE * edges.radius
        self.poses = np.tile(np.eye(4), (count, 1, 1))
        self.group = np.arange(count)
        self.doubt = np.zeros(count)  # -log of the probability of each group
        self.free = np.ones(count, dtype=bool)
        for scan, pose in known_poses.items():
            self.poses[scan], self.group[scan], self.free[scan] = pose, min(known_poses), False

    def run(self) -> list[PoseGroup]:
        """Join until nothing is sure enough."""
        least = -np.log1p(-LEAST)
        joinings = {pair: self._joining(*pair) for pair in self._neighbors()}
        while joinings:
            best = min(joinings.values(), key=lambda joining: (-joining.evidence, joining.first, joining.second))
            if best.evidence < least:
                break
            self._join(best)
            old = {best.first, best.second}
            joinings = {pair: one for pair, one in joinings.items() if not old & set(pair)}
            joinings |= {pair: self._joining(*pair) for pair in self._neighbors() if best.first in pair}
        return self._groups()

    def _neighbors(self) -> list[tuple[int, int]]:
        """The pairs of groups between which there is an edge, by their smallest members."""
        ends = np.stack([self.group[self.edges.source], self.group[self.edges.target]])
        apart = np.sort(ends[:, ends[0] != ends[1]], axis=0)
        return sorted({(first, second) for first, second in apart.T.tolist()})

    def _between(self, first: int, second: int) -> np.ndarray:
        """(E,) which edges lead from one group to the other, either way."""
        source, target = self.group[self.edges.source], self.group[self.edges.target]
        return ((source == first) & (target == second)) | ((source == second) & (target == first))

    def _joining(self, first: int, second: int) -> _Joining:
        """The way in which two groups most surely lie to each other."""
        edges = self.edges[np.flatnonzero(self._between(first, second))]
        T_target_source = self.poses[edges.target] @ edges.T_target_source @ inverse(self.poses[edges.source])
        forward = self.group[edges.source] == first
        ways = np.where(forward[:, None, None], T_target_source, inverse(T_target_source))
        scores = np.array([self._evidence(edges, way, first) for way in ways])
        best = int(scores.argmax())
        return _Joining(float(scores[best]), first, second, ways[best])

    def _evidence(self, edges: Edges, T_second_first: np.ndarray, first: int) -> float:
        """How strongly the edges between two groups speak for a way to join them: those that agree, less the others."""
        poses = np.where((self.group == first)[:, None, None], T_second_first @ self.poses, self.poses)
        agree = edges.residuals(poses) < self.tolerance
        strength = edges.strength
        # Edges of one pair of scans are alternatives, of which at most one is right: so each pair speaks once.
        pair = np.minimum(edges.source, edges.target) * len(poses) + np.maximum(edges.source, edges.target)
        total = 0.0
        for of_pair in np.unique(pair):
            rows = pair == of_pair
            total += strength[rows & agree].max() if (rows & agree).any() else -strength[rows].max()
        return total

    def _join(self, joining: _Joining) -> None:
        """Two groups become one, with the smaller number of the two."""
        first, second = (self.group == number for number in (joining.first, joining.second))
        # The motion is made of poses: without polish, what they are off a rotation by would double with every joining.
        T_second_first = SE3.from_matrix(torch.from_numpy(joining.T_second_first)).polish().matrix().numpy()
        if self.free[first].all():
            self.poses[first] = T_second_first @ self.poses[first]
        else:
            self.poses[second] = inverse(T_second_first) @ self.poses[second]
        between = self.edges[np.flatnonzero(self._between(joining.first, joining.second))]
        # One edge alone is met exactly, so the best poses within either group are the best ones of the whole.
        closes_loop = (between.residuals(self.poses) < 2 * self.tolerance).sum() > 1
        doubt = self.doubt[joining.first] + self.doubt[joining.second] - np.log1p(-np.exp(-joining.evidence))
        self.group[second], self.doubt[joining.first] = joining.first, doubt
        if closes_loop and not self.budget.exhausted:
            self._optimize(np.flatnonzero(self.group == joining.first), STEPS)

    def _optimize(self, members: np.ndarray, steps: int) -> None:
        """Move the scans of a group to where they agree best with the edges inside it."""
        row = np.full(len(self.group), -1)
        row[members] = np.arange(len(members))
        inside = self.edges[np.flatnonzero((row[self.edges.source] >= 0) & (row[self.edges.target] >= 0))]
        inside = inside[np.flatnonzero(inside.residuals(self.poses) < 2 * self.tolerance)]
        inside = replace(inside, source=row[inside.source], target=row[inside.target])
        free = self.free[members]
        self.poses[members] = optimize(self.poses[members], inside, self.tolerance / 2, free, steps)

    def _groups(self) -> list[PoseGroup]:
        groups = []
        for number in np.unique(self.group).tolist():
            members = np.flatnonzero(self.group == number)
            self._optimize(members, FINAL_STEPS)
            groups.append(PoseGroup(members, self.poses[members], float(np.exp(-self.doubt[number]))))
        return sorted(groups, key=lambda group: (bool(self.free[group.members].all()), -len(group.members)))
