"""A piece as a surface: distances to meshes and clouds are those of geometry."""

import numpy as np
import pytest
import trimesh
from support.results import FACES, VERTICES, input_pieces
from support.rigid_motions import random_motion_in_box, transform_points

from eda.output.piece_surface import PieceSurface
from eda.render.input_piece import InputPiece

REACH = 0.4


def box_surface(tmp_path, shift: float = 0.0, count: int = 500) -> PieceSurface:
    trimesh.Trimesh(VERTICES + shift, FACES, process=False).export(tmp_path / "box.off", digits=12)
    return PieceSurface.of(input_pieces(tmp_path / "box.off")[0], count, 10_000)


def distance_to_box(points: np.ndarray) -> np.ndarray:
    """(n,) from points to the surface of the unit cube at the origin, by the formula of its signed distance."""
    beyond = np.abs(points - 0.5) - 0.5
    return np.abs(np.linalg.norm(np.maximum(beyond, 0), axis=1) + np.minimum(beyond.max(axis=1), 0))


@pytest.mark.parametrize("shift", [0.0, 4e6])
def test_distances_to_a_mesh_are_exact(tmp_path, shift):
    """However few triangles it has, inside and outside, and far from the origin.

    Only where another triangle is nearly as near, that one may be taken.
    """
    surface = box_surface(tmp_path, shift)
    points = np.random.default_rng(0).uniform(-0.6, 1.6, (2000, 3))
    nearest = surface.nearest(points + shift - surface.origin, REACH)
    expected, near = distance_to_box(points), np.isfinite(nearest.distance)
    assert not near[expected > REACH].any()
    more = nearest.distance[near] - expected[near]
    assert near.sum() > 0.99 * (expected <= REACH).sum()
    assert (np.abs(more) < (2e-9 if shift else 1e-12)).mean() > 0.99
    assert -2e-9 < more.min() < more.max() < surface.spacing
    np.testing.assert_allclose(np.linalg.norm(nearest.offset[near], axis=1), nearest.distance[near])
    landed = points[near] + nearest.offset[near]
    np.testing.assert_allclose(distance_to_box(landed), 0, atol=2e-9)
    np.testing.assert_allclose(np.linalg.norm(nearest.normal[near], axis=1), 1)


def test_points_to_measure_from_are_even_over_the_surface(tmp_path):
    surface = box_surface(tmp_path, count=6000)
    places = surface.points + surface.origin
    np.testing.assert_allclose(distance_to_box(places), 0, atol=1e-9)
    assert surface.area * len(surface.points) == pytest.approx(6)
    on_top = (places[:, 2] > 1 - 1e-9).sum()
    assert on_top == pytest.approx(1000, abs=150)
    assert surface.oriented
    np.testing.assert_allclose((surface.normals * np.sign(surface.points)).max(axis=1), 1)


def test_what_lies_between_the_points_of_a_cloud_is_surface():
    """A plane of points a hundredth apart: heights over it are found, and what is beside it is beside it."""
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 101)] * 2), axis=-1).reshape(-1, 2)
    cloud = np.column_stack([grid, np.zeros(len(grid))])
    surface = PieceSurface.of(InputPiece("plane", cloud, np.tile([0, 0, 1.0], (len(cloud), 1))), 2000, 10**6)
    assert surface.spacing == pytest.approx(0.01, rel=0.4)
    assert surface.area * len(surface.points) == pytest.approx(1, rel=0.3)
    rng = np.random.default_rng(0)
    above = np.column_stack([rng.uniform(0.1, 0.9, (500, 2)), rng.uniform(-0.1, 0.1, 500)])
    np.testing.assert_allclose(surface.nearest(above - surface.origin, 0.2).distance, np.abs(above[:, 2]), atol=1e-9)
    beside = np.array([[1.1, 0.5, 0.0]])
    assert surface.nearest(beside - surface.origin, 0.2).distance[0] == pytest.approx(0.1, abs=0.011)


def test_a_motion_between_two_surfaces_is_that_of_their_poses(tmp_path):
    rng = np.random.default_rng(0)
    first, second = box_surface(tmp_path), box_surface(tmp_path, 3.0)
    poses = [random_motion_in_box(rng), random_motion_in_box(rng)]
    motion = first.motion_to(second, *poses)
    there = transform_points(poses[1], transform_points(motion, first.points) + second.origin)
    np.testing.assert_allclose(there, transform_points(poses[0], first.points + first.origin), atol=1e-12)
