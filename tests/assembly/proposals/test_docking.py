"""Docking: what geometry alone proposes."""

import numpy as np
from support.sliced_block import errors, slices, taken_apart

from eda.assembly.proposals import docking_poses

DENSITY = 110.0


def test_proposals_come_near_the_solution():
    evidence, true = taken_apart(slices(2, DENSITY))
    relative = docking_poses(evidence, (0, 1))
    wanted = np.linalg.inv(true[1]) @ true[0]
    off = [errors(np.stack([np.eye(4), r]), np.stack([np.eye(4), wanted])) for r in relative]
    assert min(degrees for degrees, distance in off if distance < 0.3) < 30
