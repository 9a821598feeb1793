"""Scans: surfaces seen twice lie on each other. Their normals are lines: which side was seen does not matter.

How much two scans overlap says little of whether they do so rightly: a room turned by half a turn may overlap itself
by more. So a joint gains the probability that it is right, by how its surfaces agree (`nn/surfaces.py`), and no more if
it is large. That agreement is the same for sofas, corridors and streets; it is weighed by a logistic regression.
"""

from __future__ import annotations

import numpy as np
import torch

from eda.assembly.confidence import Calibration, Confidence, Seen
from eda.assembly.contact import Patch, Touch
from eda.assembly.fragment import Fragment
from eda.assembly.motion import act
from eda.lie import SE3
from eda.nn.surfaces import Surface, agreement

# How near is near, in units of the spacing of points.
REACH = 2.0
# Scans that are trusted less than this do not touch.
LEAST_TRUST = 0.01
TRUST = Calibration(
    (1.335, 0.236, -0.185, -1.333, -38.04, 6.537, -7.922, 0.713, 1.0, 0.117, 0.433, -0.035),
    14.965,
    "1,802 joints of 300 pairs of scans of made-up rooms, as benchmarks/trust.py finds them",
)


class Trusted:
    """Confidence in scans: as much as is trusted in their joints. A piece has its place by the surest of these."""

    def joints(self, seen: Seen) -> np.ndarray:
        """(K, N, N)."""
        return seen.judged.good / seen.evidence.masses[:, None]

    def pieces(self, seen: Seen) -> np.ndarray:
        """(K, N)."""
        return self.joints(seen).max(axis=2)

    def whole(self, seen: Seen) -> np.ndarray:
        """(K,): every piece has to be in its place, but for one, which says where the others belong."""
        likely = np.where(seen.placed & ~seen.known, self.pieces(seen), 1)
        surest = np.where(seen.placed, likely, 0).max(axis=1)
        return likely.prod(axis=1) / np.maximum(surest, LEAST_TRUST)


class Scan:
    """The regime of scans."""

    docks = False
    confidence: Confidence = Trusted()

    def patches(self, fragment: Fragment) -> tuple[Patch, ...]:
        """All points."""
        rows = np.arange(len(fragment.points))
        return (Patch.of(fragment, np.ones(len(rows)), rows, side=0),)

    def mass(self, fragment: Fragment) -> float:
        """How many points there are: scans may overlap in all of them."""
        return float(len(fragment.points))

    def meet(self, piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> tuple[Touch, Touch]:
        """All points are as good as the joint is likely; nothing is inside a surface."""
        likely, none = trust(piece, other, relative, spacing), np.zeros(len(relative))
        here, there = (Touch(len(one.points) * likely, none, none, none) for one in (piece, other))
        return here, there


def trust(piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> np.ndarray:
    """(K,) how likely two scans lie rightly to each other at relative poses (K, 4, 4); 0 where they do not touch."""
    reach = REACH * spacing
    middle = act(relative, piece.center[None])[:, 0]
    near = np.flatnonzero(np.linalg.norm(middle - other.center, axis=1) < piece.radius + other.radius + reach)
    likely = np.zeros(len(relative))
    likely[near] = TRUST(agreements(piece, other, relative[near], reach))
    return np.where(likely < LEAST_TRUST, 0, likely)


def agreements(piece: Fragment, other: Fragment, relative: np.ndarray, reach: float) -> np.ndarray:
    """(K, 12) how the surfaces of two scans agree at relative poses (K, 4, 4)."""
    here, there = (
        Surface(torch.from_numpy(one.points), torch.from_numpy(one.normals), reach) for one in (piece, other)
    )
    return agreement(here, there, SE3.from_matrix(torch.from_numpy(relative))).numpy()
