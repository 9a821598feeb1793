"""What is measured where two pieces touch: a gap that is known, planes that slide, reliefs that hold, and copies."""

import numpy as np
import pytest
from support.sliced_block import slices, taken_apart

from eda.assembly import Fragment
from eda.assembly.confidence.joint_contact import LOOSEST, NO_CONTACT, measure_contact
from eda.registration.rigid import act, relative_poses

SPACING = 0.05


def sheet(relief: float, facing: int, broken: float = 1.0) -> Fragment:
    """A square sheet on a grid, flat or with waves in both directions, and its normals up (1) or down (-1)."""
    x, y = (axis.ravel() for axis in np.meshgrid(*[np.arange(-0.5, 0.5, SPACING)] * 2))
    points = np.stack([x, y, relief * (np.sin(7 * x) + np.cos(9 * y + 3 * x))], axis=1)
    slope_x, slope_y = 7 * np.cos(7 * x) - 3 * np.sin(9 * y + 3 * x), -9 * np.sin(9 * y + 3 * x)
    normals = np.stack([-relief * slope_x, -relief * slope_y, np.ones_like(x)], axis=1)
    normals *= facing / np.linalg.norm(normals, axis=1, keepdims=True)
    return Fragment(points, normals, np.full(len(points), broken))


def lifted(height: float) -> np.ndarray:
    pose = np.eye(4)
    pose[2, 3] = height
    return pose


@pytest.mark.parametrize("gap", [0.0, 0.2, 0.7])
def test_the_gap_is_that_between_the_surfaces_in_spacings(gap):
    found = measure_contact(sheet(0, 1), sheet(0, -1), lifted(gap * SPACING), SPACING)
    assert found[0] == pytest.approx(gap, abs=1e-9)


def test_a_plane_can_slide_and_a_relief_cannot():
    flat, rough = (measure_contact(sheet(relief, 1), sheet(relief, -1), np.eye(4), SPACING)[2] for relief in (0, 0.05))
    assert flat == pytest.approx(np.log(LOOSEST))
    assert rough > np.log(1e-3)


def test_likeness_is_the_mean_evidence_for_a_break_of_both():
    for broken, likeness in ((1.0, 1.0), (0.0, 0.0)):
        found = measure_contact(sheet(0.05, 1), sheet(0.05, -1, broken), np.eye(4), SPACING)
        assert found[1] == pytest.approx(likeness)


def test_surfaces_that_look_the_same_way_coincide_and_do_not_touch():
    found = measure_contact(sheet(0.05, 1), sheet(0.05, 1), np.eye(4), SPACING)
    np.testing.assert_array_equal(found[:3], NO_CONTACT[:3])
    assert found[3] == 1
    assert measure_contact(sheet(0.05, 1), sheet(0.05, -1), np.eye(4), SPACING)[3] == 0


def test_far_away_there_is_no_contact():
    np.testing.assert_array_equal(measure_contact(sheet(0, 1), sheet(0, -1), lifted(9), SPACING), NO_CONTACT)


def test_the_order_of_the_pieces_and_a_motion_of_the_whole_change_nothing():
    evidence, true = taken_apart(slices(2))
    a, b = evidence.fragments
    there = measure_contact(a, b, relative_poses(true[None], (0, 1))[0], evidence.spacing)
    back = measure_contact(b, a, relative_poses(true[None], (1, 0))[0], evidence.spacing)
    np.testing.assert_allclose(there[[0, 1, 3]], back[[0, 1, 3]], atol=1e-9)
    whole = [Fragment(act(g[None], f.points)[0], f.normals @ g[:3, :3].T, f.break_probability)
             for g, f in zip(true, (a, b), strict=True)]  # fmt: skip
    np.testing.assert_allclose(measure_contact(*whole, np.eye(4), evidence.spacing), there, atol=1e-6)
