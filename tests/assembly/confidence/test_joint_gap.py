"""The gap of a joint: known between sheets, and alike however it is looked at."""

import numpy as np
import pytest
from support.sliced_block import slices, taken_apart

from eda.assembly import Fragment
from eda.assembly.confidence.joint_gap import WIDEST, joint_gap
from eda.registration.rigid import act, relative_poses

SPACING = 0.05


def sheet(facing: int) -> Fragment:
    """A flat square on a grid that looks up (1) or down (-1)."""
    x, y = (axis.ravel() for axis in np.meshgrid(*[np.arange(-0.5, 0.5, SPACING)] * 2))
    points = np.stack([x, y, np.zeros_like(x)], axis=1)
    return Fragment(points, np.tile([0.0, 0.0, facing], (len(points), 1)), np.ones(len(points)))


def lifted(height: float) -> np.ndarray:
    pose = np.eye(4)
    pose[2, 3] = height
    return pose


@pytest.mark.parametrize("gap", [0.0, 0.2, 0.7, 1.4])
def test_it_is_the_distance_of_the_surfaces_in_spacings(gap):
    assert joint_gap(sheet(1), sheet(-1), lifted(gap * SPACING), SPACING) == pytest.approx(gap, abs=1e-9)


def test_what_does_not_touch_or_looks_the_same_way_has_the_widest():
    assert joint_gap(sheet(1), sheet(-1), lifted(9), SPACING) == WIDEST
    assert joint_gap(sheet(1), sheet(1), np.eye(4), SPACING) == WIDEST


def test_a_shift_off_the_right_place_opens_a_joint():
    evidence, true = taken_apart(slices(2))
    right = relative_poses(true[None], (0, 1))[0]
    gaps = [joint_gap(*evidence.fragments, right @ lifted(off), evidence.spacing) for off in (0, 0.03, 0.06)]
    assert gaps == sorted(gaps)
    assert gaps[0] < 0.6 * gaps[2]


def test_the_order_of_the_pieces_and_a_motion_of_the_whole_change_nothing():
    evidence, true = taken_apart(slices(2))
    a, b = evidence.fragments
    there = joint_gap(a, b, relative_poses(true[None], (0, 1))[0], evidence.spacing)
    back = joint_gap(b, a, relative_poses(true[None], (1, 0))[0], evidence.spacing)
    assert there == pytest.approx(back)
    whole = [
        Fragment(act(g[None], f.points)[0], f.normals @ g[:3, :3].T, f.break_probability)
        for g, f in zip(true, (a, b), strict=True)
    ]
    assert joint_gap(*whole, np.eye(4), evidence.spacing) == pytest.approx(there)
