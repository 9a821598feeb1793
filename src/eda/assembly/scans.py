"""Scans: surfaces seen twice lie on each other. Their normals are lines: which side was seen does not matter.

How much two scans overlap says little of whether they do so rightly: a room turned by half a turn may overlap itself
by more. So a joint gains the probability that it is right, by how its surfaces agree (`nn/surfaces.py`), and no more if
it is large. What speaks for it is weighed by a logistic regression.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse.csgraph import minimum_spanning_tree

from eda.assembly.confidence import Calibration, Seen
from eda.assembly.contact import Patch, Touch
from eda.assembly.fragment import Fragment
from eda.assembly.motion import act
from eda.lie import SE3
from eda.nn.surfaces import FARTHEST, Surface, agreement

# How near is near, in units of the spacing of points; and of which share of the points something has to be near.
REACH, LEAST_NEAR = 2.0, 0.01
TRUST = Calibration(
    (1.335, 0.236, -0.185, -1.333, -38.04, 6.537, -7.922, 0.713, 1.0, 0.117, 0.433, -0.035),
    14.965,
    "1,802 joints of 300 pairs of scans of made-up rooms, as benchmarks/calibrate_scans.py finds them",
)


class Trusted:
    """Confidence in scans: as much as is trusted in their joints. A piece has its place by the surest of these."""

    def joints(self, seen: Seen) -> np.ndarray:
        """(K, N, N)."""
        return seen.judged.good

    def pieces(self, seen: Seen) -> np.ndarray:
        """(K, N)."""
        return self.joints(seen).max(axis=2)

    def whole(self, seen: Seen) -> np.ndarray:
        """(K,): the surest joints by which all pieces hang together have to be right; none if they do not."""
        likely = np.where(seen.known[:, None] & seen.known, 1, self.joints(seen))
        return np.array([_hanging(one[np.ix_(rows, rows)]) for one, rows in zip(likely, seen.placed, strict=True)])


def _hanging(likely: np.ndarray) -> float:
    """The product over the joints (n, n) of the surest tree, 0 if there is none."""
    if len(likely) < 2:
        return 1.0
    cost = np.where(likely > 0, 1 - np.log(np.where(likely > 0, likely, 1)), 0)  # one a joint, since 0 is no joint
    tree = minimum_spanning_tree(np.triu(cost, 1))
    return float(np.exp(tree.nnz - tree.sum())) if tree.nnz == len(likely) - 1 else 0.0


class Scan:
    """The regime of scans."""

    docks = False

    def patches(self, fragment: Fragment) -> tuple[Patch, ...]:
        """All points."""
        rows = np.arange(len(fragment.points))
        return (Patch.of(fragment, np.ones(len(rows)), rows, side=0),)

    def mass(self, fragment: Fragment) -> float:
        """Every scan counts alike, however large."""
        return 1.0

    def meet(self, piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> tuple[Touch, Touch]:
        """A joint is as good for both as it is likely; nothing is inside a surface."""
        likely, none = trust(piece, other, relative, spacing), np.zeros(len(relative))
        return Touch(likely, none, none, none), Touch(likely, none, none, none)


def trust(piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> np.ndarray:
    """(K,) how likely two scans lie rightly to each other at relative poses (K, 4, 4); 0 where they do not touch."""
    reach = REACH * spacing
    middle = act(relative, piece.center[None])[:, 0]
    within = piece.radius + other.radius + FARTHEST * reach
    near = np.flatnonzero(np.linalg.norm(middle - other.center, axis=1) < within)
    numbers, likely = agreements(piece, other, relative[near], reach), np.zeros(len(relative))
    likely[near] = np.where(numbers[:, 0] > np.log(LEAST_NEAR), TRUST(numbers), 0)
    return likely


def agreements(piece: Fragment, other: Fragment, relative: np.ndarray, reach: float) -> np.ndarray:
    """(K, 12) how the surfaces of two scans agree at relative poses (K, 4, 4)."""
    here, there = (
        Surface(torch.from_numpy(one.points), torch.from_numpy(one.normals), reach) for one in (piece, other)
    )
    return agreement(here, there, SE3.from_matrix(torch.from_numpy(relative))).numpy()
