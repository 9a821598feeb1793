"""Our own shapes: closed, in one piece, not crossing themselves, and no two alike."""

import numpy as np
import pytest
from scipy.spatial import cKDTree
from support.closed_meshes import is_closed, num_bodies, windings

from eda.data.fracture.shapes import HELD_OUT_KINDS, SHAPES, TRAIN_KINDS, random_shape
from eda.data.fracture.solids import mesh_of
from eda.data.meshes import Mesh
from eda.errors import InputError


def shape_of(kind: str, seed: int = 0) -> Mesh:
    return mesh_of(random_shape(np.random.default_rng(seed), [kind]))


def surface_points(mesh: Mesh, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Centres of triangles, by area, and their unit normals."""
    areas = np.linalg.norm(mesh.area_vectors, axis=1)
    faces = np.random.default_rng(seed).choice(len(areas), size=count, p=areas / areas.sum())
    return mesh.corners[faces].mean(axis=1), mesh.area_vectors[faces] / areas[faces, None]


@pytest.mark.parametrize("kind", SHAPES)
def test_a_shape_is_one_closed_surface_of_moderate_size(kind):
    mesh = shape_of(kind)
    assert is_closed(mesh)
    assert num_bodies(mesh) == 1
    assert mesh.volume > 0
    assert 100 < len(mesh.faces) < 6000
    assert 0.5 < np.ptp(mesh.vertices, axis=0).max() < 3


@pytest.mark.parametrize("kind", SHAPES)
def test_a_shape_does_not_cross_itself(kind):
    mesh = shape_of(kind, seed=1)
    points, normals = surface_points(mesh, 25)
    assert np.abs(windings(mesh, points + 1e-6 * normals)).max() < 0.01
    assert np.abs(windings(mesh, points - 1e-6 * normals) - 1).max() < 0.01


def test_the_generator_alone_decides():
    first, again, other = (mesh_of(random_shape(np.random.default_rng(seed))) for seed in (3, 3, 4))
    assert np.array_equal(first.vertices, again.vertices)
    assert np.array_equal(first.faces, again.faces)
    assert first.vertices.shape != other.vertices.shape or not np.allclose(first.vertices, other.vertices)


@pytest.mark.parametrize("kind", ["vase", "plate", "goblet", "column", "gear", "stone", "ring"])
def test_no_turn_maps_a_shape_to_itself(kind):
    """Otherwise the place of a piece would not be determined: turned things are the ones to be feared."""
    points, _ = surface_points(shape_of(kind, seed=2), 3000)
    points -= points.mean(axis=0)
    spacing = np.median(cKDTree(points).query(points, k=2)[0][:, 1])
    for angle in np.linspace(0, 2 * np.pi, 24, endpoint=False)[1:]:
        turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
        distance = cKDTree(points).query(points @ turn.T)[0]
        assert np.quantile(distance, 0.9) > 2 * spacing


def test_held_out_kinds_are_kept_apart():
    assert set(TRAIN_KINDS).isdisjoint(HELD_OUT_KINDS)
    assert sorted([*TRAIN_KINDS, *HELD_OUT_KINDS]) == sorted(SHAPES)


@pytest.mark.parametrize(
    ("kinds", "message"), [(["vase", "tank"], "no shapes tank; there are vase"), ([], "no shapes")]
)
def test_kinds_that_are_not_there(kinds, message):
    with pytest.raises(InputError, match=message):
        random_shape(np.random.default_rng(0), kinds)
