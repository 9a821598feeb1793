"""Rigid motions are those of scipy and of numpy's inverse; what is not rigid is known for it."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.rigid_motions import random_motion_of_size

from eda.registration.rigid import (
    act,
    inverse,
    is_rigid,
    largest_displacement,
    move_about,
    relative_poses,
)


def test_motions_are_those_of_scipy():
    rng = np.random.default_rng(1)
    g = random_motion_of_size(rng, 50, 2)
    turn = Rotation.from_rotvec([0.1, -0.2, 0.3])
    center, shift = rng.normal(size=(2, 3))
    moved = move_about(g, center, np.concatenate([turn.as_rotvec(), shift]))
    x = rng.normal(size=(5, 3))
    np.testing.assert_allclose(act(moved, x), turn.apply(act(g, x) - center) + center + shift, atol=1e-12)
    np.testing.assert_allclose(inverse(g), np.linalg.inv(g), atol=1e-12)


def test_a_relative_pose_takes_points_of_one_piece_to_the_frame_of_the_other():
    rng = np.random.default_rng(2)
    poses = np.stack([[random_motion_of_size(rng, 40, 1) for _ in range(3)] for _ in range(2)])
    x = rng.normal(size=(5, 3))
    found = act(relative_poses(poses, (0, 2)), x)
    for k in range(2):
        np.testing.assert_allclose(act(poses[k, 2], found[k]), act(poses[k, 0], x), atol=1e-12)


def test_no_point_of_a_box_moves_further_than_its_farthest_corner():
    rng = np.random.default_rng(3)
    corners = np.stack(np.meshgrid(*[[0.0, 1.0]] * 3, indexing="ij"), axis=-1).reshape(8, 3)
    pose, other = (np.stack([random_motion_of_size(rng, 70, 0.5) for _ in range(6)]) for _ in range(2))
    points = rng.random((4000, 3))
    inside = np.linalg.norm(act(pose, points) - act(other, points), axis=-1).max(axis=1)
    found = largest_displacement(corners, pose, other)
    assert (inside <= found).all()
    assert (inside > 0.8 * found).all()


BROKEN = {
    "scaled": np.diag([1.01, 1.01, 1.01, 1.0]),
    "sheared": np.array([[1, 0.01, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]]),
    "mirrored": np.diag([1.0, 1.0, -1.0, 1.0]),
    "not a number": np.where(np.arange(16).reshape(4, 4) == 3, np.nan, np.eye(4)),
    "infinite": np.where(np.arange(16).reshape(4, 4) == 7, np.inf, np.eye(4)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_scales_shears_mirrors_or_is_no_number_is_not_rigid(name):
    assert not is_rigid(BROKEN[name], 1e-3)
    assert not is_rigid(np.stack([np.eye(4), BROKEN[name]]), 1e-3)


@pytest.mark.parametrize("digits", [3, 4, 6])
def test_rounded_motions_are_rigid_to_within_their_rounding(digits):
    given = np.round(random_motion_of_size(np.random.default_rng(4), 33, 5.0), digits)
    assert is_rigid(given, 4 * 10.0**-digits)
    assert is_rigid(given[:3], 4 * 10.0**-digits)
    assert not is_rigid(given, 1e-3 * 10.0**-digits)


def test_no_motions_are_all_rigid():
    assert is_rigid(np.zeros((0, 4, 4)), 1e-3)
