"""Scans are judged by how their surfaces agree: what is trusted, in any frames."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.rigid_motions import random_motion, transform_points
from support.room_scans import two_views

from eda.assembly import Evidence, Fragment, ScanContact, score_assemblies
from eda.assembly.contact.scan_contact import joint_probability
from eda.cloud import estimate_normals
from eda.registration.rigid import inverse

UNIT = 2.0  # metres: assemblies are judged in units of their size


def scan(cloud: np.ndarray) -> Fragment:
    return Fragment(cloud / UNIT, estimate_normals(cloud), np.zeros(len(cloud))).order_points()


@pytest.fixture(scope="module")
def scans() -> list[Fragment]:
    return [scan(view) for view in two_views()]


@pytest.fixture(scope="module")
def spacing(scans) -> float:
    return Evidence.of(scans, ScanContact()).spacing


def shifted(x: float, y: float = 0.0, z: float = 0.0, *, turn: float = 0.0) -> np.ndarray:
    """Turned about the vertical through the middle of the room, in radians, and shifted."""
    middle, pose = np.array([2, 1.5, 0]) / UNIT, np.eye(4)
    pose[:3, :3] = Rotation.from_euler("z", turn).as_matrix()
    pose[:3, 3] = middle - pose[:3, :3] @ middle + [x, y, z]
    return pose


def test_what_lies_rightly_is_trusted_and_what_lies_on_too_much_is_not(scans, spacing):
    right = shifted(0)
    onto = shifted(-0.6)  # more of the floor and the wall behind it overlaps
    half_turn = shifted(0, turn=np.pi)
    found = joint_probability(*scans, np.stack([right, onto, half_turn]), spacing)
    assert found[0] > 0.8
    assert (found[1:] < 0.5).all()


def test_trust_is_the_same_from_either_side_and_in_any_frames(scans, spacing):
    poses = np.stack([shifted(0), shifted(0.02, turn=0.05), shifted(-0.6)])
    wanted = joint_probability(*scans, poses, spacing)
    np.testing.assert_allclose(joint_probability(*scans[::-1], inverse(poses), spacing), wanted, atol=1e-9)
    here, there = random_motion(1, 3.0), random_motion(2, 3.0)
    turned = [
        Fragment(transform_points(at, one.points), one.normals @ at[:3, :3].T, one.break_probability)
        for one, at in zip(scans, (here, there), strict=True)
    ]
    np.testing.assert_allclose(joint_probability(*turned, there @ poses @ inverse(here), spacing), wanted, atol=1e-6)


def test_scans_that_do_not_touch_are_not_trusted_in_any_frame(scans, spacing):
    """Also not where the spheres around them meet."""
    floors = [scan(np.c_[view[:, :2], 0 * view[:, 2]]) for view in two_views()]
    poses = np.stack([shifted(30), *(shifted(0, 0, gap * spacing) for gap in (7, 10, 15))])
    for seed in range(3):
        turn = random_motion(seed, 3.0)
        turned = Fragment(
            transform_points(turn, floors[0].points), floors[0].normals @ turn[:3, :3].T, floors[0].break_probability
        )
        assert not joint_probability(turned, floors[1], poses @ inverse(turn), spacing).any()


def test_no_motion_is_judged_to_nothing(scans, spacing):
    assert joint_probability(*scans, np.zeros((0, 4, 4)), spacing).shape == (0,)


def test_a_joint_gains_what_it_is_trusted_however_large_the_scans(scans):
    small = Fragment(*(values[:200] for values in (scans[1].points, scans[1].normals, scans[1].break_probability)))
    evidence = Evidence.of([scans[0], small], ScanContact())
    assert len(evidence.fragments[0].points) != len(evidence.fragments[1].points)
    poses = np.stack([np.eye(4), shifted(0.01)])[None]
    likely = joint_probability(*evidence.fragments, inverse(poses[:, 1]) @ poses[:, 0], evidence.spacing)
    found = score_assemblies(evidence, poses)
    np.testing.assert_allclose(found.score, likely)
    np.testing.assert_allclose(found.pieces, np.tile(likely[:, None], (1, 2)))
