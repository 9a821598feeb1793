"""The generator: pieces that fit exactly, labels that are true, and the same puzzle for the same number."""

import dataclasses
import json
import pickle

import numpy as np
import pytest
from scipy.spatial import cKDTree
from support.closed_meshes import both, box_mesh, inside_out, is_closed, num_bodies, windings

from eda.data import LOST, OUTER, Example
from eda.data.fracture.fracture_source import FractureSource
from eda.data.fracture.generator import Fracture, FractureConfig, fracture
from eda.data.fracture.labelled_points import PieceSurface, label_points
from eda.data.meshes import Mesh
from eda.errors import InputError

KINDS = ("rough", "cells", "shell")
SAMPLE = FractureSource(FractureConfig(), seed=7)
SMALL = FractureSource(FractureConfig(max_pieces=4, num_points=800), seed=1, shapes=("stone", "bowl", "key"))


SIDES = (1.0, 0.8, 0.6)


def box_broken(seed: int = 0, **settings: object) -> Fracture:
    return fracture(box_mesh(SIDES), np.random.default_rng(seed), FractureConfig(**settings))


def in_place(example: Example) -> np.ndarray:
    """(P, 3) the points of a broken box where its pieces are: an example is moved, but the box is known."""
    return example.points - example.points[example.contact == OUTER].max(axis=0).astype(np.float64) + SIDES


# -- the solids --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", range(12))
def test_pieces_are_closed_and_add_up_to_the_whole(item):
    name, broken = SAMPLE.fracture(item)
    volumes = np.array([piece.mesh.volume for piece in broken.pieces])
    assert 2 <= len(broken.pieces) <= 8, name
    for piece in broken.pieces:
        assert is_closed(piece.mesh)
        assert num_bodies(piece.mesh) == 1
    assert volumes.sum() == pytest.approx(broken.volume, rel=1e-6)
    assert volumes.min() >= broken.volume / 40 * (1 - 1e-9)


def largest_share(seed: int, **settings: object) -> float:
    """The volume of the largest of four pieces, as a share of the whole."""
    broken = box_broken(seed, min_pieces=4, max_pieces=4, min_volume=0.004, **settings)
    return max(piece.mesh.volume for piece in broken.pieces) / broken.volume


@pytest.mark.parametrize("kind", ["rough", "cells"])
def test_chips_come_off_a_body(kind):
    bodies, middles = (
        np.mean([largest_share(seed, kinds=(kind,), chips=chips) for seed in range(8)]) for chips in (1.0, 0.0)
    )
    assert bodies > 0.65 > 0.55 > middles


def test_a_chance_of_no_chips_changes_nothing():
    before, after = box_broken(3), box_broken(3, chips=0.0)
    for first, second in zip(before.pieces, after.pieces, strict=True):
        np.testing.assert_array_equal(first.mesh.vertices, second.mesh.vertices)


@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_of_a_cut_are_the_same_surface(kind):
    broken = box_broken(1, kinds=(kind,), min_pieces=6, max_pieces=6)
    corners = {side: [] for piece in broken.pieces for side in np.unique(piece.side) if side >= 0}
    vectors = {side: np.zeros(3) for side in corners}
    areas = dict.fromkeys(corners, 0.0)
    for piece in broken.pieces:
        for side in set(np.unique(piece.side)) & set(corners):
            of_side = piece.mesh.area_vectors[piece.side == side]
            vectors[side] += of_side.sum(axis=0)
            areas[side] += np.linalg.norm(of_side, axis=1).sum()
            corners[side].append(piece.mesh.corners[piece.side == side].reshape(-1, 3))
    assert len(corners) >= 10  # five cuts or more, two sides each
    for side in corners:
        assert np.allclose(vectors[side], -vectors[side ^ 1], atol=1e-9)
        assert areas[side] == pytest.approx(areas[side ^ 1], rel=1e-6)
        distance = cKDTree(np.concatenate(corners[side ^ 1])).query(np.concatenate(corners[side]))[0]
        assert np.median(distance) < 1e-9  # most vertices are shared: some triangles end at another cut


@pytest.mark.parametrize("kind", KINDS)
def test_the_faces_that_no_cut_made_are_the_objects_own(kind):
    broken = box_broken(2, kinds=(kind,))
    own = sum(np.linalg.norm(p.mesh.area_vectors[p.side < 0], axis=1).sum() for p in broken.pieces)
    assert own == pytest.approx(2 * (0.8 + 0.6 + 0.48), rel=1e-6)


def test_breaks_are_as_rough_as_asked_for():
    """Relative to its size, a cut through a box departs from its best plane by about the roughness."""

    def departure(roughness: float) -> float:
        found = []
        for seed in range(4):
            broken = box_broken(seed, max_pieces=2, roughness=roughness, kinds=("rough",))
            piece = broken.pieces[0]
            points = piece.mesh.corners[piece.side >= 0].mean(axis=1)
            square = np.column_stack([points, np.square(points), points * np.roll(points, 1, axis=1)])  # a bent sheet
            values = np.linalg.svd(square - square.mean(axis=0), compute_uv=False) / np.sqrt(len(points))
            found.append(values[-1] / broken.size)
        return float(np.median(found))

    assert departure(0.06) > 3 * departure(0.01)


def test_the_number_of_pieces_follows_its_weights():
    counts = [len(box_broken(seed, min_pieces=2, max_pieces=5, weights=(0, 1, 0, 2)).pieces) for seed in range(6)]
    assert set(counts) == {3, 5}


def test_many_pieces_are_reached():
    assert len(box_broken(0, min_pieces=20, max_pieces=20).pieces) == 20


def test_a_hollow_object_breaks_too():
    hollow = both(box_mesh(), inside_out(box_mesh((0.6, 0.6, 0.6), (0.2, 0.2, 0.2))))
    broken = fracture(hollow, np.random.default_rng(0), FractureConfig(min_pieces=5))
    assert sum(p.mesh.volume for p in broken.pieces) == pytest.approx(1 - 0.6**3, rel=1e-6)
    assert all(is_closed(piece.mesh) for piece in broken.pieces)


@pytest.mark.parametrize("kind", KINDS)
def test_units_do_not_matter(kind):
    """Of one cut: with the next, rounding decides which of its triangles comes first."""
    box, config = box_mesh(SIDES), FractureConfig(max_pieces=2, kinds=(kind,))
    large = Mesh(1000 * box.vertices, box.faces)
    small, huge = (fracture(mesh, np.random.default_rng(3), config) for mesh in (box, large))
    assert [p.mesh.volume for p in huge.pieces] == pytest.approx([1e9 * p.mesh.volume for p in small.pieces], rel=1e-6)


def test_what_cannot_be_broken_says_so():
    with pytest.raises(InputError, match=r"vase.stl: cannot be broken into 2 pieces that have 0.499 of its volume"):
        fracture(box_mesh(), np.random.default_rng(0), FractureConfig(min_volume=0.499, max_pieces=2), "vase.stl")


# -- the points --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def labelled() -> tuple[Fracture, Example, np.ndarray]:
    broken = box_broken(4, min_pieces=5, max_pieces=5, kinds=("rough",))
    example = broken.example(4000, np.random.default_rng(0), "x")
    return broken, example, in_place(example)


def test_as_many_points_as_asked_for_equally_dense_everywhere(labelled):
    broken, example, _ = labelled
    areas = np.array([piece.mesh.area for piece in broken.pieces])
    assert abs(len(example.points) - 4000) <= len(areas)
    assert np.allclose(example.sizes, 4000 * areas / areas.sum(), atol=1)


def test_normals_point_outwards(labelled):
    broken, example, points = labelled
    for mesh, cloud, normals in zip(
        (p.mesh for p in broken.pieces), example.clouds(points), example.clouds(example.normals), strict=True
    ):
        assert np.linalg.norm(normals, axis=1) == pytest.approx(1, abs=1e-6)
        assert np.abs(windings(mesh, cloud[::25] + 1e-4 * normals[::25])).max() < 0.01
        assert np.abs(windings(mesh, cloud[::25] - 1e-4 * normals[::25]) - 1).max() < 0.01


def test_contact_names_the_piece_on_the_other_side(labelled):
    broken, example, points = labelled
    rows = np.flatnonzero(example.contact >= 0)[::20]
    ahead = points[rows] + 1e-4 * example.normals[rows]
    found = np.stack([windings(piece.mesh, ahead) for piece in broken.pieces]).argmax(axis=0)
    assert (found == example.contact[rows]).mean() > 0.97  # where three meet, one may be taken for another
    own = np.repeat(np.arange(5), example.sizes)
    assert (example.contact != own).all()


def test_outer_points_lie_on_the_object(labelled):
    _, example, points = labelled
    outer = points[example.contact == OUTER]
    assert np.minimum(np.abs(outer), np.abs(outer - SIDES)).min(axis=1).max() < 1e-5
    assert not (example.contact == LOST).any()


def test_what_touched_a_missing_piece_is_lost():
    broken = box_broken(4, min_pieces=5, max_pieces=5)
    gone = dataclasses.replace(broken, missing=frozenset({1}))
    example = gone.example(3000, np.random.default_rng(0), "x")
    assert example.num_pieces == 4
    assert abs(len(example.points) - 3000) <= 5
    assert example.contact.max() <= 3
    lost = example.contact == LOST
    assert lost.any()
    ahead = in_place(example)[lost][::10] + 1e-4 * example.normals[lost][::10]
    assert windings(broken.pieces[1].mesh, ahead).mean() > 0.97


def test_breaks_too_small_for_any_point_leave_every_point_outside():
    mesh = box_mesh()
    pieces = [PieceSurface(mesh, np.full(len(mesh.faces), -1))] * 2
    example = label_points("two boxes", pieces, frozenset(), [], 100, 0.1, np.random.default_rng(0))
    assert (example.contact == OUTER).all()


def test_missing_pieces_are_left_out_but_two_stay():
    config = FractureConfig(min_pieces=6, missing=0.5)
    broken = box_broken(0, min_pieces=6)
    counts = [len(broken.with_missing_and_foreign(np.random.default_rng(seed), config).present) for seed in range(200)]
    assert min(counts) == 2
    assert np.mean(counts) == pytest.approx(len(broken.pieces) / 2, abs=0.4)
    assert len(broken.with_missing_and_foreign(np.random.default_rng(0), FractureConfig(missing=1.0)).present) == 2


def test_foreign_pieces_are_marked_and_touch_nothing():
    first, other = box_broken(0, min_pieces=4, max_pieces=4), box_broken(1, min_pieces=4, max_pieces=4)
    bigger = dataclasses.replace(other, size=2 * other.size)
    mixed = first.with_missing_and_foreign(np.random.default_rng(2), FractureConfig(foreign=1.0), bigger)
    example = mixed.example(2000, np.random.default_rng(0), "mixed")
    assert example.foreign.tolist() == [False] * 4 + [True] * 4
    contact = example.clouds(example.contact)
    assert {*np.unique(np.concatenate(contact[4:])).tolist()} == {OUTER, LOST}
    assert np.concatenate(contact[:4]).max() < 4
    scaled = sorted(piece.mesh.volume for piece in mixed.foreign)
    assert scaled == pytest.approx(sorted(piece.mesh.volume / 8 for piece in other.pieces))


def test_erosion_takes_material_away_along_the_breaks():
    broken = box_broken(0, min_pieces=4, max_pieces=4, erosion=0.05, kinds=("rough",))
    volume = sum(piece.mesh.volume for piece in broken.pieces)
    assert 0.7 * broken.volume < volume < 0.99 * broken.volume
    example = broken.example(4000, np.random.default_rng(0), "x")
    assert 0.1 < (example.contact[example.on_break] == LOST).mean() < 0.95
    assert all(is_closed(piece.mesh) for piece in broken.pieces)


# -- the stream --------------------------------------------------------------------------------------------


def same(a: Example, b: Example) -> bool:
    return a.name == b.name and all(
        np.array_equal(getattr(a, what), getattr(b, what)) for what in ("points", "sizes", "normals", "contact")
    )


def test_a_number_gives_the_same_puzzle_in_any_order_and_process():
    there = [SMALL[item] for item in (0, 1, 2)]
    again = [pickle.loads(pickle.dumps(SMALL))[item] for item in (2, 0)]
    assert same(there[2], again[0])
    assert same(there[0], again[1])
    assert not same(there[0], there[1])
    assert not same(there[0], dataclasses.replace(SMALL, seed=2)[0])


def test_points_and_meshes_are_of_the_same_puzzle():
    name, broken = SMALL.fracture(5)
    example = SMALL[5]
    assert example.name == name
    assert example.num_pieces == len(broken.pieces)
    for cloud, piece in zip(example.clouds(), broken.pieces, strict=True):
        assert np.ptp(cloud, axis=0) == pytest.approx(np.ptp(piece.mesh.vertices, axis=0), abs=0.05)


def test_only_the_shapes_asked_for():
    assert {SMALL.fracture(item)[0].split("-")[1] for item in range(4)} <= {"stone", "bowl", "key"}


def test_a_description_is_json_and_tells_sources_apart():
    other = dataclasses.replace(SMALL, config=FractureConfig(roughness=0.03))
    assert json.loads(json.dumps(SMALL.description())) == json.loads(
        json.dumps(dataclasses.replace(SMALL).description())
    )
    assert SMALL.description() != other.description()


REFUSED = {
    "one piece": ({"min_pieces": 1}, "min_pieces must be a whole number from 2 to 20"),
    "a reversed range": ({"min_pieces": 5, "max_pieces": 4}, "max_pieces must be a whole number from 5"),
    "too many pieces": ({"max_pieces": 21}, "max_pieces must be a whole number from 2 to 20"),
    "no roughness": ({"roughness": 0.0}, "roughness must be a positive number"),
    "NaN": ({"roughness": float("nan")}, "roughness must be a positive number"),
    "more chips than objects": ({"chips": 1.5}, "chips must be a number from 0 to 1"),
    "no volume": ({"min_volume": -0.1}, "min_volume must be a positive number"),
    "too much volume": ({"min_volume": 0.5}, "2 pieces cannot each have 0.5 of the volume"),
    "a chance above one": ({"missing": 1.5}, "missing must be a number from 0 to 1"),
    "a negative chance": ({"foreign": -0.1}, "foreign must be a number from 0 to 1"),
    "all eroded": ({"erosion": 0.5}, "erosion must be a number from 0 to 0.2"),
    "an unknown kind": ({"kinds": ("rough", "laser")}, "kinds must be some of rough, cells, shell"),
    "no kind": ({"kinds": ()}, "kinds must be some of"),
    "too few weights": ({"weights": (1.0, 2.0)}, "weights must be 7 numbers"),
    "no weight": ({"weights": (0.0,) * 7}, "weights must be 7 numbers"),
    "few points": ({"num_points": 10}, "num_points must be a whole number from 100"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_make_no_sense_are_refused(name):
    settings, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        FractureConfig(**settings)
