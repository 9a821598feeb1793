"""Sheets: what they look like, and that they split a solid exactly."""

import numpy as np
import pytest
from support.closed_meshes import BOX, BOX_FACES, both, box_mesh, inside_out, is_closed

from eda.data.fracture.cuts import Sheet, bend, facets, waves
from eda.data.fracture.solids import connected_parts, mesh_of, one_solid, origins_of, simplify, solid_of
from eda.data.meshes import Mesh
from eda.errors import InputError

GRID = np.linspace(-1, 1, 41)
TURN = np.array([[0.36, 0.48, -0.8], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]])  # a rotation, oblique to the box


def box():
    return solid_of(BOX, BOX_FACES)


def test_waves_have_the_deviation_asked_for():
    far = np.linspace(0, 400, 700)
    heights = waves(np.random.default_rng(0), longest=4.0, shortest=0.5, deviation=0.3)(far, far)
    assert heights.std() == pytest.approx(0.3, rel=0.05)
    assert abs(heights.mean()) < 0.02


def test_waves_are_smooth_at_the_shortest_length():
    heights = waves(np.random.default_rng(1), longest=1.0, shortest=0.25, deviation=0.1)(GRID, GRID)
    fine = waves(np.random.default_rng(1), longest=1.0, shortest=0.25, deviation=0.1)(GRID / 10, GRID / 10)
    assert np.abs(np.diff(fine, 2, axis=0)).max() < 0.05 * np.abs(np.diff(heights, 2, axis=0)).max()


def test_a_bend_is_a_quadratic():
    heights = bend(np.random.default_rng(0), 2.0)(GRID, GRID)
    assert heights[20, 20] == 0
    for axis in (0, 1):
        assert np.allclose(np.diff(heights, 3, axis=axis), 0, atol=1e-12)
    assert np.abs(heights).max() > 0.1


@pytest.mark.parametrize("seed", range(4))
def test_facets_are_planes_that_meet(seed):
    """Of at most nine bisecting planes: second differences vanish but where two of them meet."""
    heights = facets(np.random.default_rng(seed), reach=1.0)(GRID, GRID)
    slopes = np.diff(heights, axis=0)
    flat = np.abs(np.diff(slopes, axis=0)) < 1e-12
    assert flat.mean() > 0.7
    assert len(np.unique(slopes[:-1][flat].round(9))) <= 9


def test_facets_separate_the_cells_of_two_groups():
    """A point is above the wall if and only if its nearest seed is of the upper group."""
    rng = np.random.default_rng(5)
    wall = facets(rng, reach=1.0)
    rng = np.random.default_rng(5)
    seeds = [rng.uniform(-1, 1, size=(count, 3)) for count in rng.integers(1, 4, size=2)]
    for group, sign in zip(seeds, (-1, 1), strict=True):
        group[:, 2] = sign * rng.uniform(0.4, 1, size=len(group))
    points = np.random.default_rng(6).uniform(-1, 1, size=(500, 3))
    below, above = (np.linalg.norm(points[:, None] - group, axis=-1).min(axis=1) for group in seeds)
    is_above = [point[2] > wall(point[:1], point[1:2])[0, 0] for point in points]
    assert np.array_equal(is_above, above < below)


def plane(slope: float = 0.0):
    return lambda u, v: slope * u[:, None] + 0 * v


def test_a_flat_sheet_cuts_a_box_where_it_should():
    sheet = Sheet(np.eye(3), np.array([0.5, 0.5, 0.3]), plane(), 0.2)
    below, above, _ = sheet.split(box())
    assert below.volume() == pytest.approx(0.3, abs=1e-12)
    assert above.volume() == pytest.approx(0.7, abs=1e-12)
    assert mesh_of(below).vertices[:, 2].max() == pytest.approx(0.3, abs=1e-12)


def test_an_oblique_sheet_through_the_middle_halves_a_box():
    below, above, _ = Sheet(TURN, np.full(3, 0.5), plane(0.4), 0.1).split(box())
    assert below.volume() == pytest.approx(0.5, abs=1e-12)
    assert above.volume() == pytest.approx(0.5, abs=1e-12)


def test_a_rough_cut_leaves_two_closed_surfaces_that_share_the_break():
    rough = waves(np.random.default_rng(0), 0.5, 0.1, 0.03)
    below, above, marks = Sheet(TURN, np.full(3, 0.5), rough, 0.05).split(box())
    shared = []
    for solid, is_back in ((below, False), (above, True)):
        mesh, (origin, back) = mesh_of(solid), origins_of(solid)
        broken = np.isin(origin, marks)
        assert is_closed(mesh)
        assert broken.any()
        assert (back[broken] == is_back).all()
        assert not back[~broken].any()
        shared.append(mesh.area_vectors[broken].sum(axis=0))
        corners = mesh.corners[~broken].reshape(-1, 3)
        assert np.minimum(np.abs(corners), np.abs(corners - 1)).min(axis=1).max() < 1e-9  # on the faces of the box
    assert np.allclose(shared[0], -shared[1], atol=1e-9)
    assert below.volume() + above.volume() == pytest.approx(1, abs=1e-9)


def test_a_gap_is_lost():
    sheet = Sheet(np.eye(3), np.array([0.5, 0.5, 0.4]), plane(), 0.2, gap=lambda u, v: 0.1 + 0 * np.add.outer(u, v))
    below, above, _ = sheet.split(box())
    assert below.volume() == pytest.approx(0.35, abs=1e-12)
    assert above.volume() == pytest.approx(0.55, abs=1e-12)


# -- solids ------------------------------------------------------------------------------------------------


def test_a_hollow_solid_stays_one_part():
    hollow = both(box_mesh(), inside_out(box_mesh((0.4, 0.4, 0.4), (0.3, 0.3, 0.3))))
    (part,) = connected_parts(solid_of(hollow.vertices, hollow.faces))
    assert part.volume() == pytest.approx(1 - 0.4**3)


def test_parts_come_largest_first():
    pair = both(box_mesh((1, 1, 1)), box_mesh((2, 1, 1), (3, 0, 0)))
    assert [part.volume() for part in connected_parts(solid_of(pair.vertices, pair.faces))] == pytest.approx([2, 1])


def test_overlapping_parts_are_joined():
    pair = both(box_mesh(), box_mesh((1, 1, 1), (0.5, 0.25, 0.25)))
    assert one_solid(solid_of(pair.vertices, pair.faces), "x").volume() == pytest.approx(2 - 0.5 * 0.75 * 0.75)


def test_a_crumb_beside_the_solid_is_dropped():
    pair = both(box_mesh(), box_mesh((0.1, 0.1, 0.1), (3, 0, 0)))
    assert one_solid(solid_of(pair.vertices, pair.faces), "x").volume() == pytest.approx(1)


def test_separate_solids_are_refused():
    pair = both(box_mesh(), box_mesh((1, 1, 1), (3, 0, 0)))
    with pytest.raises(InputError, match=r"two\.stl: 2 separate solids, the largest with 50% of the volume"):
        one_solid(solid_of(pair.vertices, pair.faces), "two.stl")


SPOILED = BOX.copy()
SPOILED[3, 1] = np.nan
REFUSED = {
    "NaN": (Mesh(SPOILED, BOX_FACES), "x.ply: 1 vertices with NaN"),
    "no triangles": (Mesh(BOX, BOX_FACES[:0]), "x.ply: no triangles"),
    "a hole": (Mesh(BOX, BOX_FACES[1:]), r"x.ply: not a closed surface \(NotManifold\)"),
    "inside out": (inside_out(box_mesh()), "x.ply: it encloses no volume, or is inside out"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_solid_is_refused(name):
    mesh, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        solid_of(mesh.vertices, mesh.faces, "x.ply")


def test_large_meshes_are_simplified():
    from manifold3d import Manifold

    ball = Manifold.sphere(1.0, 120)
    simple = simplify(ball, 2000)
    assert ball.num_tri() > 6000
    assert simple.num_tri() <= 2000
    assert simple.volume() == pytest.approx(ball.volume(), rel=0.02)
    assert simplify(simple, 2000) is simple
