"""An example: its points in farthest-point order, thinned evenly, with labels that follow their points."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from support.lumpy_shapes import lumpy_cloud
from support.oracles import haar_rotations
from support.small_datasets import lumpy_example

from eda import InputError
from eda.data import LOST, OUTER, Example
from eda.data.augment import with_foreign_piece

MIN_POINTS = 4  # fewer leave the rotation of a piece undetermined


def numbered(*sizes: int, seed: int = 0) -> Example:
    """Pieces whose labels name the point that they belong to: its row is its contact and its normal's x."""
    example = Example.from_clouds("numbered", [lumpy_cloud(seed + i, n)[0] + 3.0 * i for i, n in enumerate(sizes)])
    rows = np.arange(len(example.points))
    normals = np.stack([rows, np.ones_like(rows), np.zeros_like(rows)], axis=1).astype(np.float32)
    return replace(example, contact=rows.astype(np.int16), normals=normals)


# -- what an example is ------------------------------------------------------------------------------------


def test_the_whole_is_moved_to_the_origin_and_keeps_its_digits():
    """Georeferenced coordinates: float32 alone would round them to decimetres."""
    clouds = [lumpy_cloud(i, 30)[0] for i in range(2)]
    near, far = (Example.from_clouds("e", [cloud + place for cloud in clouds]) for place in (0.0, [4e6, 5e6, 300.0]))
    assert near.points.dtype == np.float32
    np.testing.assert_allclose(near.points.astype(np.float64).mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(far.points, near.points, atol=1e-6)
    apart = np.concatenate(clouds)
    np.testing.assert_allclose(near.points - near.points[0], apart - apart[0], atol=1e-6)


def test_values_split_into_pieces():
    example = numbered(5, 7, 4)
    assert [len(cloud) for cloud in example.clouds()] == [5, 7, 4]
    assert [rows.tolist() for rows in example.clouds(example.contact)] == [
        list(range(5)), list(range(5, 12)), list(range(12, 16))
    ]  # fmt: skip


def test_what_is_not_the_outer_surface_is_a_break():
    example = replace(numbered(4, 4), contact=np.array([OUTER, 1, LOST, OUTER, 0, OUTER, LOST, 0], np.int16))
    assert example.on_break.tolist() == [False, True, True, False, True, False, True, True]
    assert replace(example, contact=None).on_break is None


def test_every_piece_belongs_unless_it_is_foreign():
    example = numbered(4, 4, 4)
    assert example.own.tolist() == [True, True, True]
    assert replace(example, foreign=np.array([False, True, False])).own.tolist() == [True, False, True]


WRONG = {
    "points": dict(points=np.zeros((8, 2), np.float32)),
    "normals": dict(normals=np.zeros((7, 3), np.float32)),
    "contact": dict(contact=np.zeros(9, np.int16)),
    "foreign": dict(foreign=np.zeros(3, bool)),
    "gaps": dict(gaps=np.zeros((8, 1), np.float32)),
    "9 points but there are 8": dict(sizes=np.array([4, 5])),
    "NaN": dict(points=np.full((8, 3), np.nan, np.float32)),
}


@pytest.mark.parametrize("what", WRONG)
def test_arrays_that_do_not_belong_together_are_an_input_error(what):
    with pytest.raises(InputError, match=f"numbered: .*{what}"):
        replace(numbered(4, 4), **WRONG[what])


def test_no_pieces_are_an_input_error():
    with pytest.raises(InputError, match="pot: no pieces"):
        Example.from_clouds("pot", [])


def test_a_piece_without_points_is_an_input_error():
    with pytest.raises(InputError):
        Example.from_clouds("e", [lumpy_cloud(0, 10)[0], np.zeros((0, 3)), lumpy_cloud(1, 10)[0]]).sort_farthest_first()


# -- farthest-point order ----------------------------------------------------------------------------------


def test_ordered_points_come_with_their_distance_to_those_before():
    ordered = numbered(30, 17, 4).sort_farthest_first()
    for cloud, gaps in zip(ordered.clouds(), ordered.clouds(ordered.gaps), strict=True):
        distance = cdist(cloud.astype(np.float64), cloud.astype(np.float64))
        assert np.isinf(gaps[0])
        for i in range(1, len(cloud)):
            to_those_before = distance[:, :i].min(axis=1)
            assert gaps[i] == pytest.approx(to_those_before[i], rel=1e-6)
            assert to_those_before[i] == pytest.approx(to_those_before.max(), rel=1e-6), "there was a farther one"


def assert_labels_follow(changed: Example, before: Example) -> None:
    rows = changed.contact
    assert np.array_equal(changed.points, before.points[rows])
    assert np.array_equal(changed.normals, before.normals[rows])
    owner = np.repeat(np.arange(before.num_pieces), before.sizes)
    assert np.array_equal(owner[rows], np.repeat(np.arange(changed.num_pieces), changed.sizes))
    assert len(set(rows.tolist())) == len(rows)


def test_labels_follow_their_points():
    example = numbered(30, 17, 4)
    assert_labels_follow(example.sort_farthest_first(), example)
    assert sorted(example.sort_farthest_first().contact) == list(range(51))
    assert_labels_follow(example.downsample(25), example)


# -- thinning ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [30, 100, 250])
@pytest.mark.parametrize("seed", [0, 1])
def test_thinning_keeps_the_budget(budget, seed):
    """Pieces all large enough keep exactly that many; ties apart, of which there are none here."""
    assert len(numbered(200, 80, 120, seed=seed).downsample(budget).points) == budget


@pytest.mark.parametrize("budget", [1, 5, 20])
def test_every_piece_keeps_a_few_points(budget):
    example = numbered(400, 30, 6, 4)
    sizes = example.downsample(budget).sizes
    assert (sizes >= MIN_POINTS).all()
    assert sizes.sum() <= budget + example.num_pieces * MIN_POINTS


def test_thinned_pieces_are_covered_at_the_same_distance():
    """On all pieces: no two points that are kept lie nearer to each other than one that is left out to them."""
    example = Example.from_clouds("e", [lumpy_cloud(0, 900)[0], 0.4 * lumpy_cloud(1, 500)[0] + 4.0])
    thinned = example.downsample(150)
    spacing, reach = [], []
    for whole, kept in zip(example.clouds(), thinned.clouds(), strict=True):
        spacing.append((cdist(kept, kept) + np.diag(np.full(len(kept), np.inf))).min())
        reach.append(cdist(whole, kept).min(axis=1).max())
    assert 0 < max(reach) <= min(spacing) * (1 + 1e-6)
    assert thinned.sizes[0] > 3 * thinned.sizes[1], "the large piece has most of the surface"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_thinning_does_not_depend_on_the_orientation_of_the_whole(seed):
    example, R = numbered(150, 90, 60, seed=10 * seed), haar_rotations(1, seed)[0].numpy()
    turned = replace(example, points=(example.points @ R.T).astype(np.float32))
    assert np.array_equal(example.downsample(70).contact, turned.downsample(70).contact)


def test_a_budget_for_all_keeps_all():
    example = numbered(20, 10)
    assert sorted(example.downsample(30).contact) == sorted(example.downsample(1000).contact) == list(range(30))


def test_thinning_twice_is_thinning_once():
    example = numbered(100, 60)
    assert np.array_equal(example.downsample(90).downsample(40).contact, example.downsample(40).contact)


def test_thinning_keeps_the_budget_on_a_lattice():
    lattice = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), axis=-1).reshape(-1, 3)
    assert len(Example.from_clouds("lattice", [lattice, lattice + 10]).downsample(200).points) <= 250


# -- as a puzzle -------------------------------------------------------------------------------------------


def test_the_solution_of_a_puzzle_puts_every_piece_back():
    example = lumpy_example(0, 4)
    puzzle = example.puzzle()
    motions = puzzle.pieces.to_user(puzzle.solution)
    torch.testing.assert_close(motions.rotation, torch.eye(3, dtype=torch.float64).expand(4, 3, 3))
    torch.testing.assert_close(motions.translation, motions.translation[:1].expand(4, 3), rtol=0, atol=1e-6)
    np.testing.assert_allclose(puzzle.pieces.normals.numpy(), example.normals, atol=1e-6)


def test_the_place_of_a_foreign_piece_does_not_move_the_solution_of_the_others():
    example = with_foreign_piece(lumpy_example(0, 2), lumpy_example(1, 2), np.random.default_rng(0))
    theirs = np.repeat(~example.own, example.sizes)
    farther = replace(example, points=example.points + np.where(theirs, 5, 0).astype(np.float32)[:, None])
    near, far = (e.puzzle().solution.translation[:2] for e in (example, farther))
    torch.testing.assert_close(near, far, rtol=0, atol=1e-5)


def test_normals_that_are_missing_are_estimated_piece_by_piece():
    """On two parallel planes that are nearer than their points: only the other piece could bend a normal."""
    plane = np.column_stack([np.random.default_rng(0).uniform(0, 1, (200, 2)), np.zeros(200)])
    bare = Example.from_clouds("planes", [plane, plane + np.array([0, 0, 0.01])])
    np.testing.assert_allclose(np.abs(bare.with_normals().normals), np.tile([0, 0, 1], (400, 1)), atol=1e-6)
    assert bare.with_normals(0).normals is None


def test_normals_that_are_known_stay():
    example = lumpy_example(0, 2, 40)
    assert example.with_normals() is example
