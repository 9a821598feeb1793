"""Proposer: the protocol of whatever suggests how two pieces may lie to each other.

The search asks every proposer once per assembly, and what that returns once per pair of pieces. All that is proposed is
refined and scored alike, so a proposer need not be right often. A new one is a class with one method, in a file of its
own; it is listed in a regime (`eda.assembly.regimes`), or given in `RankConfig.proposers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from eda.assembly.contact.detail import Detail
from eda.assembly.contact.evidence import Evidence
from eda.budget import Budget
from eda.registration.rigid_groups import RigidGroups

NO_POSES = np.zeros((0, 4, 4))
Pair = tuple[int, int]  # i < j
PairPoses = Mapping[Pair, np.ndarray]  # poses (M, 4, 4) of piece i in the frame of piece j, by pair
Resample = Callable[[Detail, Budget], np.ndarray]  # from pieces to poses (K, N, 4, 4) in their frames


@dataclass(frozen=True)
class Problem:
    """What is to be put together: G groups of the N pieces, most of which are single pieces."""

    evidence: Evidence  # of the groups
    samples: np.ndarray  # (K, G, 4, 4) assemblies of the groups, drawn from the flow
    groups: RigidGroups
    anchor: int | None = None  # the group that every assembly contains
    detail: Detail | None = None  # all points of the groups, if they may be used
    resample: Resample | None = None  # draws assemblies of other pieces, such as groups that were merged
    clouds: Sequence[np.ndarray] = ()  # N of (n_i, 3): all points of the pieces themselves, if they may be used


class Proposals(NamedTuple):
    """Poses of one group in the frame of another."""

    rough: np.ndarray = NO_POSES  # (M, 4, 4) to be refined from far away, by some 30 degrees
    close: np.ndarray = NO_POSES  # (M', 4, 4) nearly right, if they are right at all: only refined nearby

    @staticmethod
    def cat(several: Sequence[Proposals]) -> Proposals:
        """Those of several proposers, one after the other."""
        rough, close = ([NO_POSES, *(getattr(some, kind) for some in several)] for kind in ("rough", "close"))
        return Proposals(np.concatenate(rough), np.concatenate(close))


PairProposer = Callable[[Pair], Proposals]


class Proposer(Protocol):
    """Suggests relative poses of pairs of groups."""

    def propose(self, problem: Problem, budget: Budget) -> PairProposer:
        """A function from a pair of groups to proposals. What concerns all pairs at once is done before it returns."""
