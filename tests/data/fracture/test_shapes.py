"""Our own shapes: closed, in one piece, not crossing themselves, and no two alike."""

import numpy as np
import pytest
from scipy.spatial import cKDTree
from support.closed_meshes import is_closed, num_bodies, windings

from eda.data.fracture.shapes import (
    HELD_OUT_KINDS,
    SHAPES,
    THICK_KINDS,
    THIN_KINDS,
    TRAIN_KINDS,
    kinds_of,
    random_shape,
)
from eda.data.fracture.solids import mesh_of
from eda.data.meshes import Mesh
from eda.errors import InputError

# The volume of the shape of seed 0 of every kind that there was before the thin ones, in their order.
VOLUMES = dict(
    vase=0.11137801, bottle=0.03415759, beaker=0.04004182, mug=0.06745615, jug=0.04617171, amphora=0.08703440,
    teapot=0.25956565, goblet=0.03551923, flowerpot=0.04794275, bell=0.25244814, bowl=0.04039490, plate=0.03114746,
    lid=0.03081351, lamp=0.02458423, figurine=0.09308147, animal=0.05412369, bird=0.09176258, fish=0.03203696,
    bust=0.09957441, mask=0.06484974, chessman=0.08351365, hammer=0.02259580, axe=0.02085745, spoon=0.01110564,
    brush=0.00670996, mirror=0.02352217, key=0.01664555, wheel=0.07756335, gear=0.07716115, horseshoe=0.06814188,
    box=0.11858557, tile=0.03106716, stone=0.29687869, bone=0.02420416, ring=0.15007288, horn=0.03827050,
    column=0.13929084, chair=0.03282417, table=0.04937571, arch=0.08870013, cutout=0.11438277, clump=0.08567966,
)  # fmt: skip


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


@pytest.mark.parametrize("kind", THIN_KINDS)
def test_a_thin_kind_is_sound_and_thin_for_every_seed(kind):
    """Twice the volume by the area is the thickness of a sheet, and the radius of a bar."""
    made = [mesh_of(SHAPES[kind](np.random.default_rng(seed))) for seed in range(10, 22)]
    assert all(num_bodies(mesh) == 1 for mesh in made)  # no part hangs in the air: it would be left out
    shapes = [shape_of(kind, seed) for seed in range(10, 22)]
    assert all(is_closed(mesh) and num_bodies(mesh) == 1 for mesh in shapes)
    assert all(100 < len(mesh.faces) < 6000 for mesh in shapes)
    sizes = [np.linalg.norm(np.ptp(mesh.vertices, axis=0)) for mesh in shapes]
    thickness = np.array([2 * mesh.volume / mesh.area / size for mesh, size in zip(shapes, sizes, strict=True)])
    assert 0.005 < thickness.min() < (0.036 if kind in ("cookie", "puppet", "stag") else 0.016)
    assert kind == "pill_bottle" or thickness.max() < 0.08  # some pill bottles are solid


@pytest.mark.parametrize("kind", ["looking_glass", "tablet", "fork", "wineglass", "band"])
def test_the_faces_of_a_thin_wall_do_not_cross_when_it_is_dented(kind):
    for seed in range(2, 8):
        mesh = shape_of(kind, seed)
        points, normals = surface_points(mesh, 25, seed)
        assert np.abs(windings(mesh, points - 1e-6 * normals) - 1).max() < 0.01


@pytest.mark.parametrize("kind", VOLUMES)
def test_a_seed_gives_the_shape_that_it_always_gave(kind):
    assert shape_of(kind).volume == pytest.approx(VOLUMES[kind], abs=2e-8)


def test_the_generator_alone_decides():
    first, again, other = (mesh_of(random_shape(np.random.default_rng(seed))) for seed in (3, 3, 4))
    assert np.array_equal(first.vertices, again.vertices)
    assert np.array_equal(first.faces, again.faces)
    assert first.vertices.shape != other.vertices.shape or not np.allclose(first.vertices, other.vertices)


@pytest.mark.parametrize(
    "kind", ["vase", "plate", "goblet", "column", "gear", "stone", "ring", "wineglass", "cookie", "band"]
)
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
    assert set(THIN_KINDS).isdisjoint(HELD_OUT_KINDS)


def test_thick_kinds_are_what_a_seed_chose_from_before_there_were_thin_ones():
    """Their order counts: a seed draws the number of a kind."""
    assert kinds_of(["thick"]) == tuple(kind for kind in VOLUMES if kind not in HELD_OUT_KINDS)
    assert kinds_of(["thick", "thin"]) == (*THICK_KINDS, *THIN_KINDS) == TRAIN_KINDS


@pytest.mark.parametrize(
    ("kinds", "message"), [(["vase", "tank"], "no shapes tank; there are vase"), ([], "no shapes")]
)
def test_kinds_that_are_not_there(kinds, message):
    with pytest.raises(InputError, match=message):
        random_shape(np.random.default_rng(0), kinds)
