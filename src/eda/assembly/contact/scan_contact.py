"""Contact of scans: surfaces seen twice lie on each other. Their normals have no sign.

How much two scans overlap says little of whether they do so rightly: a room turned by half a turn may overlap itself
by more. So a joint gains the probability that it is right, by how its surfaces overlap (`registration/overlap.py`), and
no more if it is large. What speaks for it is weighed by a logistic regression.
"""

from __future__ import annotations

import numpy as np

from eda.assembly.contact.fragment import Fragment
from eda.assembly.contact.rules import Touch
from eda.calibration import Calibration, shipped_calibrations
from eda.regime import Regime
from eda.registration.icp import MAX_DISTANCE
from eda.registration.overlap import overlap_features
from eda.registration.patches import Patch
from eda.registration.rigid import act

# How near is near, in units of the spacing of points; and of which share of the points something has to be near.
REACH, LEAST_NEAR = 2.0, 0.01


class ScanContact:
    """When two scans fit: their surfaces overlap, as those of right pairs do."""

    name: Regime = "scan"

    def __init__(self, calibration: Calibration | None = None) -> None:
        """Joints are trusted by a calibration; by default, by that of the model that ships for scans."""
        self._calibration = calibration

    def patches(self, fragment: Fragment) -> tuple[Patch, ...]:
        """All points."""
        rows = np.arange(len(fragment.points))
        return (fragment.patch(rows, np.ones(len(rows)), side=0),)

    def mass(self, fragment: Fragment) -> float:
        """Every scan counts alike, however large."""
        return 1.0

    def meet(self, piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> tuple[Touch, Touch]:
        """A joint is as good for both as it is likely; nothing is inside a surface."""
        likely = joint_probability(piece, other, relative, spacing, self._calibration)
        none = np.zeros(len(relative))
        return Touch(likely, none, none, none), Touch(likely, none, none, none)


def joint_probability(
    piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float, calibration: Calibration | None = None
) -> np.ndarray:
    """(K,) how likely two scans lie rightly to each other at relative poses (K, 4, 4); 0 where they do not touch."""
    calibration = calibration or shipped_calibrations("scan")["joint"]
    reach = REACH * spacing
    middle = act(relative, piece.center[None])[:, 0]
    within = piece.radius + other.radius + MAX_DISTANCE * reach
    near = np.flatnonzero(np.linalg.norm(middle - other.center, axis=1) < within)
    features = overlap_features(piece.surface(reach), other.surface(reach), relative[near])
    likely = np.zeros(len(relative))
    likely[near] = np.where(features[:, 0] > np.log(LEAST_NEAR), calibration(features), 0)
    return likely
