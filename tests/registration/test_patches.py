"""Patches: their points correspond to the closest in place and normal, and pull by how well both agree."""

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from eda.registration.patches import NORMAL_WEIGHT, Patch, closeness, find_correspondences


def test_the_closest_of_a_patch_is_that_of_a_tree():
    rng = np.random.default_rng(0)
    patch = Patch.of(*rng.normal(size=(2, 300, 3)), np.ones(300), side=-1)
    points, normals = rng.uniform(0, 2, size=(5, 40, 3)), rng.normal(size=(5, 40, 3))
    tree = cKDTree(np.hstack([patch.points, -NORMAL_WEIGHT * patch.normals]))
    wanted, _ = tree.query(np.concatenate([points, NORMAL_WEIGHT * normals], axis=2))
    offset = points - patch.points[patch.closest(points, normals)]
    turned = normals + patch.normals[patch.closest(points, normals)]
    found = np.sqrt(np.square(offset).sum(axis=2) + NORMAL_WEIGHT**2 * np.square(turned).sum(axis=2))
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def plane(side: int, sign: float = 1.0) -> Patch:
    """A grid of unit squares in z = 0, with normals along z."""
    points = np.stack([*np.meshgrid(np.arange(4.0), np.arange(4.0)), np.zeros((4, 4))], axis=-1).reshape(-1, 3)
    return Patch.of(points, np.tile([0.0, 0.0, sign], (16, 1)), np.linspace(0.2, 1, 16), side=side)


def lifted(height: float, turn: float = 0.0) -> np.ndarray:
    """(1, 4, 4) a shift along z, after a turn about x by so many degrees."""
    pose = np.eye(4)[None].copy()
    pose[0, :3, :3], pose[0, 2, 3] = Rotation.from_euler("x", turn, degrees=True).as_matrix(), height
    return pose


@pytest.mark.parametrize(("side", "sign"), [(1, 1.0), (-1, -1.0), (0, 1.0), (0, -1.0)])
def test_weights_are_tukeys_times_the_agreement_of_normals_times_those_of_both_points(side, sign):
    """Two equal grids at a height of half the radius, of which a turn by 60 degrees halves the agreement."""
    still = np.eye(4)[None]
    found = find_correspondences(plane(side), plane(side, sign), lifted(0.1), still, 0.2, 16)
    weights = np.linspace(0.2, 1, 16) ** 2
    np.testing.assert_allclose(found.weights[0], 0.75**2 * weights, atol=1e-12)
    np.testing.assert_allclose(found.points[0] - found.targets[0], np.tile([0, 0, 0.1], (16, 1)), atol=1e-12)
    np.testing.assert_allclose(np.abs(found.normals[0]), np.tile([0, 0, 1.0], (16, 1)), atol=1e-12)
    tilted = find_correspondences(plane(side), plane(side, sign), lifted(0.0, 60), still, 0.2, 1)
    np.testing.assert_allclose(tilted.weights, [[0.5 * 0.2**2]], atol=1e-12)  # the first point lies on the axis
    np.testing.assert_allclose(np.abs(tilted.normals[0, 0]), [0, 0.5, np.sqrt(0.75)], atol=1e-12)


def test_opposed_normals_do_not_pull_on_a_surface_that_goes_on():
    found = find_correspondences(plane(1), plane(1, -1.0), lifted(0.1), np.eye(4)[None], 0.2, 16)
    assert not found.weights.any()


def test_closeness_falls_with_the_distance_to_none():
    """Weighted means of 1 - distance / radius, times the weight of the other point."""
    poses = np.concatenate([lifted(height) for height in (0.0, 0.05, 0.1, 0.2, 0.3)])
    found = closeness([plane(-1)], [plane(-1, -1.0)], poses, 16, 0.2)
    weights = np.linspace(0.2, 1, 16)
    np.testing.assert_allclose(found, np.array([1, 0.75, 0.5, 0, 0]) * (weights**2).sum() / weights.sum(), atol=1e-12)
