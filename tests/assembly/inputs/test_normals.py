"""Which way a cloud without normals faces."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.broken_stone import stone
from support.lumpy_shapes import lumpy_cloud
from support.surfaces import box, directions, ellipsoid, torus

from eda.assembly import outward_normals


def bowl(count: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    """A half shell with walls of 0.15: most of its inside faces the middle. The rim between its walls is left out."""
    unit = directions(3, count)
    unit[:, 2] = -np.abs(unit[:, 2])
    inner = np.arange(count) % 2 == 1
    return unit * np.where(inner, 0.85, 1)[:, None], np.where(inner[:, None], -unit, unit)


def plate(count: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    """Walls as thick as two spacings of the points."""
    return box(count, (2.0, 1.5, 0.08))


CLOSED = {
    "ellipsoid": ellipsoid,
    "box": box,
    "torus": torus,
    "bowl": bowl,
    "plate": plate,
    "lump": lambda: lumpy_cloud(5, 2000),
}
closed_surfaces = pytest.mark.parametrize("make", CLOSED.values(), ids=CLOSED.keys())


@closed_surfaces
def test_normals_of_closed_clouds_point_outward(make):
    points, normals = make()
    found = outward_normals(100 + 30 * points)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)
    assert ((found * normals).sum(axis=1) > 0).mean() > 0.97


def test_normals_of_broken_pieces_point_outward():
    example = stone(3, 6000)
    for points, normals in zip(example.clouds(), example.clouds(example.normals), strict=True):
        assert ((outward_normals(points.astype(float)) * normals).sum(axis=1) > 0).mean() > 0.95


@closed_surfaces
def test_normals_turn_with_the_cloud(make):
    points = make()[0]
    turn = Rotation.random(random_state=7).as_matrix()
    np.testing.assert_allclose(outward_normals(points @ turn.T), outward_normals(points) @ turn.T, atol=1e-6)


def test_two_bodies_in_one_cloud_both_face_outward():
    points, normals = ellipsoid()
    both = np.concatenate([points, points + np.array([20, 0, 0])])
    assert ((outward_normals(both) * np.tile(normals, (2, 1))).sum(axis=1) > 0).mean() > 0.97


def test_points_that_coincide_are_no_trouble():
    points = np.repeat(ellipsoid(500)[0], 3, axis=0)
    assert np.isfinite(outward_normals(points)).all()


def test_noise_on_thin_walls_leaves_most_signs_right():
    points, normals = plate()
    noisy = points + 0.005 * np.random.default_rng(9).normal(size=points.shape)
    assert ((outward_normals(noisy) * normals).sum(axis=1) > 0).mean() > 0.95


def test_points_in_a_row_or_on_a_plane_have_normals():
    row = np.outer(np.linspace(0, 1, 50), [1.0, 2.0, 3.0])
    plane = np.random.default_rng(0).random((400, 3)) * [1, 1, 0]
    for flat in (row, plane, plane[:4]):
        np.testing.assert_allclose(np.linalg.norm(outward_normals(flat), axis=1), 1)
