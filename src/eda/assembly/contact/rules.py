"""ContactRules: what it means that two pieces fit, for fragments that meet at their breaks and for scans that overlap.

They say which points look for counterparts (`patches`), how much a piece can gain (`mass`), and what two pieces gain
where they meet (`meet`). Refinement, scoring and search are the same for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from eda.assembly.contact.fragment import Fragment
from eda.regime import Regime
from eda.registration.patches import Patch


@dataclass(frozen=True)
class Touch:
    """What the points of one piece meet on another, in K assemblies; all (K,)."""

    good: np.ndarray  # contacts as they should be; of scans, how likely they are
    bad: np.ndarray  # contacts as they should not be
    seam: np.ndarray  # points beside a joint from which the surface goes on to the other piece
    inside: np.ndarray  # points behind the other's surface


class ContactRules(Protocol):
    """What it means that two pieces fit."""

    name: Regime

    def patches(self, fragment: Fragment) -> tuple[Patch, ...]:
        """The patches of a piece, by kind; the first kind alone suggests where another piece may go."""

    def mass(self, fragment: Fragment) -> float:
        """How much of `Touch.good` a piece can gain."""

    def meet(self, piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> tuple[Touch, Touch]:
        """What the points of a piece meet on another and the other's on it, at poses (K, 4, 4) in the frame of that."""
