"""Scene: many scans of one place, put together pair by pair.

In: the scans, what registers two of them, and perhaps a folder with results of pairs from before. Out: one alternative
whose pieces placed are the largest group of scans that connect, with the other groups beside it.

All work is done in an order of the scans that depends on their content only. So the same scans in another order give
the same result, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, logit

from eda.assembly.inputs.clouds import Clouds
from eda.assembly.proposals.proposer import Pair
from eda.assembly.result import Alternative, Group
from eda.assembly.scenes.candidate_pairs import bridging_pairs, nearest_pairs
from eda.assembly.scenes.pair_cache import PairCache, PairJoint, digest
from eda.assembly.scenes.places import can_describe, place_features, similarity
from eda.budget import Budget, Stage
from eda.model import Eda
from eda.registration.pose_graph import Edges
from eda.registration.pose_groups import AGREE, PoseGroup, join_groups
from eda.registration.rigid import inverse

# Of each scan, so many of the most similar ones are tried; and where scans do not connect, so often as many more.
NEIGHBORS, BRIDGES = 6, 1
# Up to so many scans every pair is tried, and all are put together at once.
MOST_AT_ONCE = 8
# The probabilities of joints were fitted to pairs that mostly overlap; of candidate pairs, few do. This is by how much
# less likely a joint is right then, as a difference of log-odds: of joints of 0.8 to 0.9 one in five was
# (docs/results.md).
FEWER_OVERLAP = -2.0

_Results = dict[Pair, tuple[PairJoint, ...]]
Register = Callable[[int, int], tuple[PairJoint, ...]]  # two scans -> the ways in which they may lie, surest first


@dataclass(frozen=True)
class Scene:
    """N scans to be put together."""

    clouds: Clouds
    model: Eda | None
    register: Register
    settings: str  # everything else that the result of a pair depends on
    cache: PairCache
    pins: Mapping[int, np.ndarray]  # (4, 4) by scan

    def assemble(self, budget: Budget) -> tuple[Alternative, int]:
        """The alternative, in the user's frames, and how many pairs were tried."""
        results, pairs, groups = _Results(), self._first_pairs(budget), list[PoseGroup]()
        for _ in range(1 + BRIDGES):
            self._register_all(pairs, results, budget)
            groups = join_groups(len(self.clouds), self._edges(results), self._pinned_poses, budget)
            if len(groups) == 1 or budget.exhausted or self._similarity is None:
                break
            pairs = bridging_pairs(self._similarity, _numbers(groups), set(results), NEIGHBORS)
        budget.report(Stage.JOIN, 1.0)
        return self._alternative(groups, self._edges(results)), len(results)

    # -- in the order of the content -------------------------------------------------------------------------------

    @cached_property
    def _digests(self) -> list[str]:
        """The content of each scan."""
        parts = zip(self.clouds.points, self.clouds.normals, strict=True)
        return [digest(points.tobytes(), normals.tobytes()) for points, normals in parts]

    @cached_property
    def _order(self) -> list[int]:
        """The scans by their content."""
        return sorted(range(len(self.clouds)), key=lambda i: (self._digests[i], i))

    @cached_property
    def _ordered(self) -> Clouds:
        return self.clouds.choose(self._order)

    @cached_property
    def _middles(self) -> np.ndarray:
        """(N, 4, 4) what moves the origin to the middle of each scan."""
        shifts = np.tile(np.eye(4), (len(self.clouds), 1, 1))
        shifts[:, :3, 3] = [cloud.mean(axis=0) for cloud in self._ordered.points]
        return shifts

    @cached_property
    def _radius(self) -> float:
        """Of the usual scan, the root mean square of the distances from its middle."""
        clouds = zip(self._ordered.points, self._middles[:, :3, 3], strict=True)
        return float(np.median([np.sqrt(np.square(cloud - middle).sum(axis=1).mean()) for cloud, middle in clouds]))

    @cached_property
    def _pinned_poses(self) -> dict[int, np.ndarray]:
        """Poses of pinned scans, moved as one so that the first is at the origin: far away digits are lost."""
        poses = {k: self.pins[i] @ self._middles[k] for k, i in enumerate(self._order) if i in self.pins}
        return {k: inverse(poses[min(poses)]) @ pose for k, pose in poses.items()}

    # -- pairs -----------------------------------------------------------------------------------------------------

    @cached_property
    def _similarity(self) -> np.ndarray | None:
        """(N, N) how similar the scans are; None if there is nothing to tell it by."""
        if self.model is None or not can_describe(self.model):
            return None
        similar = similarity(place_features(self.model, self._ordered))
        pins = list(self._pinned_poses)
        similar[np.ix_(pins, pins)] = -np.inf
        return similar

    def _first_pairs(self, budget: Budget) -> list[Pair]:
        budget.report(Stage.COMPARE, 0.0)
        if self._similarity is not None:
            return nearest_pairs(self._similarity, NEIGHBORS)
        return [(i, j) for j in range(len(self.clouds)) for i in range(j) if not {i, j} <= set(self._pinned_poses)]

    def _register_all(self, pairs: list[Pair], results: _Results, budget: Budget) -> None:
        """Add what is found of the pairs, the most similar first, as long as there is time."""
        total = len(results) + len(pairs)
        for pair in pairs:
            if budget.exhausted:
                break
            budget.report(Stage.REGISTER, len(results) / total)
            results[pair] = self._registered(pair)

    def _registered(self, pair: Pair) -> tuple[PairJoint, ...]:
        """What is found of a pair, now or before."""
        i, j = (self._order[k] for k in pair)
        key = digest(self.settings, self._digests[i], self._digests[j])
        joints = self.cache.read(key)
        if joints is None:
            joints = self.register(i, j)
            self.cache.write(key, joints)
        return joints

    def _edges(self, results: _Results) -> Edges:
        edges = [
            (i, j, inverse(self._middles[j]) @ joint.T_second_first @ self._middles[i], _of_candidates(joint))
            for (i, j), joints in sorted(results.items())
            for joint in joints
        ]
        return Edges.of(edges, self._radius)

    # -- the result ------------------------------------------------------------------------------------------------

    def _alternative(self, groups: list[PoseGroup], edges: Edges) -> Alternative:
        """The first group placed, the others of more than one scan beside it; in the user's order and frames."""
        count, first = len(self.clouds), groups[0]
        poses, joints = np.tile(np.eye(4), (count, 1, 1)), np.zeros((count, count))
        is_placed = np.zeros(count, dtype=bool)
        if len(first.members) > 1 or self.pins:
            rows = [self._order[k] for k in first.members]
            joints[np.ix_(rows, rows)] = _joint_confidence(first, edges)
            poses[rows], is_placed[rows] = self._motions(first, joints[rows].max(axis=1)), True
        confidence = joints.max(axis=1)
        in_question = is_placed & ~np.isin(np.arange(count), list(self.pins))
        probability = float(min([first.probability, *confidence[in_question]])) if in_question.any() else 0.0
        joints = np.where(joints > 0, joints.clip(min=probability), 0)  # none is less likely right than the whole
        return Alternative(
            poses=poses,
            placed=is_placed,
            score=float(joints.sum()) / count,
            probability=probability,
            confidence=confidence,
            joints=joints,
            groups=tuple(self._group(group, edges) for group in groups[1:] if len(group.members) > 1),
        )

    def _group(self, group: PoseGroup, edges: Edges) -> Group:
        poses = self._motions(group, _joint_confidence(group, edges).max(axis=1))
        rows = [self._order[k] for k in group.members]
        order = np.argsort(rows)
        return Group(tuple(int(rows[k]) for k in order), poses[order], group.probability)

    def _motions(self, group: PoseGroup, confidence: np.ndarray) -> np.ndarray:
        """(n, 4, 4) of the user's clouds: the surest scan stays where it is."""
        motions = group.poses @ inverse(self._middles[group.members])
        return inverse(motions[int(confidence.argmax())]) @ motions


def _of_candidates(joint: PairJoint) -> float:
    """How likely a joint is right that was found among candidate pairs."""
    return float(expit(logit(joint.probability) + FEWER_OVERLAP))


def _numbers(groups: list[PoseGroup]) -> np.ndarray:
    """(N,) the group of every scan."""
    number = np.zeros(sum(len(group.members) for group in groups), dtype=np.int64)
    for which, group in enumerate(groups):
        number[group.members] = which
    return number


def _joint_confidence(group: PoseGroup, edges: Edges) -> np.ndarray:
    """(n, n) how sure the joints of a group are: by themselves, or by a way round over a third scan that agrees."""
    size = int(max(group.members.max(), edges.source.max(initial=0), edges.target.max(initial=0))) + 1
    inside, poses = np.zeros(size, dtype=bool), np.tile(np.eye(4), (size, 1, 1))
    inside[group.members], poses[group.members] = True, group.poses
    own = edges[np.flatnonzero(edges.within(inside))]
    agree = own.residuals(poses) < AGREE * own.radius
    sure = np.zeros((size, size))
    for i, j, probability in zip(own.source[agree], own.target[agree], own.probability[agree], strict=True):
        sure[i, j] = sure[j, i] = max(sure[i, j], probability)
    sure = sure[np.ix_(group.members, group.members)]
    wrong = np.stack([np.prod(1 - row[:, None] * sure, axis=0) for row in sure])  # that all ways round are wrong
    return np.where(sure > 0, 1 - (1 - sure) * wrong, 0)
