"""Which way a cloud without normals faces, and whether its surface is closed."""

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation
from support.shapes import lumpy_cloud
from support.stones import stone

from eda.assembly import Clouds, choose_model, outward_normals
from eda.assembly.surface import rim_share
from eda.cloud import farthest_points


def directions(seed: int, count: int) -> np.ndarray:
    points = np.random.default_rng(seed).normal(size=(count, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def ellipsoid(count: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    axes = np.array([3.0, 1.0, 0.6])
    unit = directions(0, count)
    normals = unit / axes
    return unit * axes, normals / np.linalg.norm(normals, axis=1, keepdims=True)


def box(count: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Six flat faces that meet at right angles, one side much shorter than the others."""
    size, rng = np.array([2.0, 1.5, 0.25]), np.random.default_rng(1)
    areas = np.repeat(size.prod() / size, 2)
    face = rng.choice(6, count, p=areas / areas.sum())
    points, normals = rng.random((count, 3)) * size, np.zeros((count, 3))
    rows, axis, far = np.arange(count), face // 2, face % 2
    points[rows, axis], normals[rows, axis] = far * size[axis], 2.0 * far - 1
    return points, normals


def torus(count: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    around, across = np.random.default_rng(2).uniform(0, 2 * np.pi, (2, count))
    ring = np.stack([np.cos(around), np.sin(around), np.zeros(count)], axis=1)
    normals = ring * np.cos(across)[:, None] + np.array([0, 0, 1]) * np.sin(across)[:, None]
    return ring + 0.4 * normals, normals


def bowl(count: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    """A half shell with walls of 0.15: most of its inside faces the middle. The rim between its walls is left out."""
    unit = directions(3, count)
    unit[:, 2] = -np.abs(unit[:, 2])
    inner = np.arange(count) % 2 == 1
    return unit * np.where(inner, 0.85, 1)[:, None], np.where(inner[:, None], -unit, unit)


CLOSED = {"ellipsoid": ellipsoid, "box": box, "torus": torus, "bowl": bowl, "lump": lambda: lumpy_cloud(5, 2000)}
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


def test_only_open_surfaces_have_a_rim():
    for make in (ellipsoid, box, torus):
        assert rim_share(*make()) < 0.1
    # What one view of a ball shows, above a circle of radius 0.95: a good part of the points that have room on it.
    view = directions(4, 24_000)
    view = view[view[:, 2] > 0.3][:3000]
    thinned = view[farthest_points(view, 1000)]
    spacing = np.median(cKDTree(thinned).query(thinned, 2)[0][:, 1])
    room = 2 * np.pi * 0.95 / spacing
    assert 0.5 * room < 1000 * rim_share(view, view) < room


def walls(seed: int, count: int = 4000) -> np.ndarray:
    """Patches of walls, as a scanner in a room sees them: flat, each with its own rim."""
    rng = np.random.default_rng(seed)
    corners, sides = rng.normal(size=(6, 3)) * 3, rng.normal(size=(6, 2, 3))
    patch = np.arange(count) % 6
    return corners[patch] + np.einsum("nk,nki->ni", rng.random((count, 2)), sides[patch])


def test_the_model_follows_from_the_pieces():
    solids, normals = zip(ellipsoid(), torus(), strict=True)
    rooms = [walls(0), walls(1)]
    with_normals, without = choose_model(Clouds.of(solids, normals)), choose_model(Clouds.of(solids))
    assert with_normals.model == without.model == "fracture-small"
    assert "outward normals" in with_normals.why
    assert "found from the points" in without.why
    scans = choose_model(Clouds.of(rooms))
    assert scans.model == "scan-small"
    assert "open surfaces" in scans.why
    assert "if these are sherds" in scans.why
