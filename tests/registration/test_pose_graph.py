"""The pose graph against known poses: with noise, with wrong edges, and with scans whose place is known."""

import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation
from support.pose_graphs import between, random_poses, relative, shaken

from eda.registration.pose_graph import Edges, optimize

EVERY = np.ones(6, dtype=bool)


def full_graph(poses: np.ndarray, rng: np.random.Generator, noise: float) -> list[tuple[int, int, np.ndarray, float]]:
    count = len(poses)
    return [(i, j, shaken(relative(poses, i, j), rng, noise), 0.9) for i in range(count) for j in range(count) if i < j]


def test_exact_edges_give_the_poses_back():
    rng = np.random.default_rng(0)
    true = random_poses(6, rng)
    start = np.stack([shaken(pose, rng, 0.3) for pose in true])
    found = optimize(start, Edges.of(full_graph(true, rng, 0.0), 1.0), 0.2, EVERY, 20)
    assert between(found, true) < 1e-6


def test_wrong_edges_hardly_count():
    rng = np.random.default_rng(1)
    true = random_poses(6, rng)
    edges = full_graph(true, rng, 0.01)
    edges += [(0, 3, random_poses(1, rng)[0], 0.9), (2, 5, random_poses(1, rng)[0], 0.9)]
    start = np.stack([shaken(pose, rng, 0.1) for pose in true])
    assert between(optimize(start, Edges.of(edges, 1.0), 0.1, EVERY, 20), true) < 0.05


def test_the_residual_is_what_an_edge_does_to_the_points_of_a_ball():
    """Against points drawn on a sphere of the radius, whose spread is that of the six points."""
    rng = np.random.default_rng(2)
    poses = random_poses(2, rng)
    edge = shaken(relative(poses, 0, 1), rng, 0.2)
    found = Edges.of([(0, 1, edge, 1.0)], 2.0).residuals(poses)[0]
    ball = rng.standard_normal((200_000, 3))
    ball *= 2.0 / np.linalg.norm(ball, axis=1, keepdims=True)
    squares = []
    for motion, wanted in ((relative(poses, 0, 1), edge), (relative(poses, 1, 0), np.linalg.inv(edge))):
        apart = ball @ (motion - wanted)[:3, :3].T + (motion - wanted)[:3, 3]
        squares.append(np.square(apart).sum(axis=1).mean())
    assert found == pytest.approx(np.sqrt(np.mean(squares)), rel=0.01)


def test_the_minimum_is_that_of_scipy():
    """Noisy edges without outliers and a wide tolerance: then the loss is that of plain least squares."""
    rng = np.random.default_rng(3)
    true = random_poses(4, rng)
    edges = Edges.of(full_graph(true, rng, 0.05), 1.0)
    free = np.array([False, True, True, True])
    found = optimize(true, edges, 1e4, free, 20)

    def residuals(twists: np.ndarray) -> np.ndarray:
        poses = true.copy()
        for k, twist in enumerate(twists.reshape(3, 6), start=1):
            poses[k, :3, :3] = Rotation.from_rotvec(twist[:3]).as_matrix() @ true[k, :3, :3]
            poses[k, :3, 3] += twist[3:]
        points, targets = edges.correspondences(poses)
        return ((points - targets) * np.sqrt(edges.probability)[:, None, None]).ravel()

    best = least_squares(residuals, np.zeros(18), xtol=1e-14, ftol=1e-14, gtol=1e-14)
    points, targets = edges.correspondences(found)
    cost = (edges.probability[:, None, None] * np.square(points - targets)).sum() / 2
    assert cost == pytest.approx(best.cost, rel=1e-5)


def test_what_is_held_does_not_move():
    rng = np.random.default_rng(4)
    true = random_poses(6, rng)
    start = np.stack([shaken(pose, rng, 0.1) for pose in true])
    start[[1, 4]] = true[[1, 4]]
    free = ~np.isin(np.arange(6), [1, 4])
    found = optimize(start, Edges.of(full_graph(true, rng, 0.0), 1.0), 0.2, free, 20)
    np.testing.assert_array_equal(found[[1, 4]], true[[1, 4]])
    np.testing.assert_allclose(found, true, atol=1e-5)
