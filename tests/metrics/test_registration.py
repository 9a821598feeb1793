"""Registration of two scans: by hand, and by plain means over points."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from support.piece_motions import blobs, shifted, still
from support.rigid_motions import random_se3

from eda import SE3
from eda.metrics import information_rmse, overlap_mask, pair_errors

SEEDS = range(4)


def test_a_shift_of_a_scan_by_hand():
    """All correspondences are off by the shift: 0.2 m is a success, more is none."""
    cloud = blobs(1)[0]
    for shift, success in [(0.199, True), (0.201, False)]:
        errors = pair_errors(shifted(still(1), 0, 0, 0, shift)[0], still(1)[0], cloud, cloud)
        assert errors.rmse == pytest.approx(shift)
        assert errors.distance == pytest.approx(shift)
        assert errors.degrees == pytest.approx(0, abs=1e-5)
        assert errors.succeeded is success


@pytest.mark.parametrize("seed", SEEDS)
def test_only_what_both_scans_saw_counts(seed):
    """A target that saw a part of the source; the rotation error leaves that part nearly in place."""
    solution, source = random_se3(1, seed)[0], blobs(1, 200)[0]
    seen = source[:, 0] > 0.3
    target = solution.act(torch.from_numpy(source[seen])).numpy()
    predicted = solution @ random_se3(1, seed + 9, 0.1)[0]
    errors = pair_errors(predicted, solution, source, target)
    places = [motion.act(torch.from_numpy(source)).numpy() for motion in (predicted, solution)]
    within = [any(np.linalg.norm(place - t) <= 0.05 for t in target) for place in places[1]]
    assert seen.sum() <= sum(within) < len(source)
    squared = np.square(places[0] - places[1]).sum(axis=1)[within]
    assert errors.rmse == pytest.approx(math.sqrt(squared.mean()))
    relative = Rotation.from_matrix((predicted.rotation @ solution.rotation.mT).numpy())
    assert errors.degrees == pytest.approx(math.degrees(relative.magnitude()))


def test_scans_that_do_not_overlap_are_judged_by_all_points():
    source, away = blobs(2)[0], blobs(2)[1] + 100
    assert not overlap_mask(source, away).any()
    errors = pair_errors(shifted(still(1), 0, 0.1, 0, 0)[0], still(1)[0], source, away)
    assert errors.rmse == pytest.approx(0.1)


def information_of(points: np.ndarray) -> np.ndarray:
    """The matrix (6, 6) that `gt.info` holds for correspondences at these points: the sum of J^T J, with J (t, q) the
    move t + 2 q x p of a point p."""
    total = np.zeros((6, 6))
    for p in points:
        J = np.concatenate([np.eye(3), 2 * np.stack([np.cross(e, p) for e in np.eye(3)], axis=1)], axis=1)
        total += J.T @ J
    return total


@pytest.mark.parametrize("seed", SEEDS)
def test_the_information_matrix_tells_the_rmse_of_small_motions(seed):
    points = np.random.default_rng(seed).normal((1, 2, 3), size=(100, 3))
    twist = 1e-4 * torch.randn(6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    residual = SE3.exp(twist)
    moved = residual.act(torch.from_numpy(points)).numpy()
    rmse = math.sqrt(np.square(moved - points).sum(axis=1).mean())
    assert information_rmse(residual, information_of(points)) == pytest.approx(rmse, rel=1e-3)
    solution = random_se3(1, seed)[0]
    errors = pair_errors(solution @ residual, solution, points, points, information_of(points))
    assert errors.rmse == pytest.approx(rmse, rel=1e-3)


def test_the_information_matrix_by_hand():
    """One correspondence at (1, 0, 0): x = (t, q) moves it by t + 2 q x p = t + (0, 2 q_z, -2 q_y)."""
    expected = np.zeros((6, 6))
    expected[:3, :3] = np.eye(3)
    expected[5, 5] = expected[4, 4] = 4
    expected[1, 5] = expected[5, 1] = 2
    expected[2, 4] = expected[4, 2] = -2
    np.testing.assert_allclose(information_of(np.array([[1.0, 0, 0]])), expected)


@pytest.mark.parametrize(("degrees", "sign"), [(170, 1), (190, -1)])
def test_the_quaternion_has_a_positive_real_part(degrees, sign):
    """As the benchmark takes it: beyond half a turn, a point at (1, 0, 0) seems to move the other way."""
    turn = torch.from_numpy(Rotation.from_euler("z", degrees, degrees=True).as_matrix())
    residual = SE3(turn, torch.tensor([0, 1.0, 0], dtype=torch.float64))
    expected = abs(1 + sign * 2 * math.sin(math.radians(85)))
    assert information_rmse(residual, information_of(np.array([[1.0, 0, 0]]))) == pytest.approx(expected)
