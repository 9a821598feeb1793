"""The errors of Breaking Bad: by hand, against a plain computation of their definition, and what they must not see."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from support.piece_motions import blobs, shifted, still
from support.rigid_motions import random_se3

from eda import SE3
from eda.metrics import (
    align_on,
    chamfer,
    euler_rmse,
    largest_piece,
    matched_part_accuracy,
    pairwise_errors,
    part_accuracy,
    pieces_in_place,
    shape_chamfer,
    translation_rmse,
)

SEEDS = range(4)
ALL_THREE = np.ones(3, dtype=bool)


def euler(*angles: tuple[float, float, float]) -> SE3:
    """Turned about x, then the new y, then the newest z."""
    rotation = Rotation.from_euler("XYZ", angles, degrees=True).as_matrix()
    return SE3(torch.from_numpy(rotation), torch.zeros(len(angles), 3, dtype=torch.float64))


def test_euler_rmse_by_hand():
    """Off by 30 degrees in one of three angles; and 179 is 2 away from -179."""
    error = euler_rmse(euler((10, 20, 60), (0, 0, 179)), euler((10, 20, 30), (0, 0, -179)))
    assert error == pytest.approx([30 / math.sqrt(3), 2 / math.sqrt(3)])


def test_euler_angles_are_those_of_jigsaw():
    """R = Rx Ry Rz, written out; the other order would give other angles."""

    def turn(axis: int, angle: float) -> np.ndarray:
        i, j = [k for k in range(3) if k != axis]
        matrix = np.eye(3)
        c, s = math.cos(angle), math.sin(angle) * (-1 if axis == 1 else 1)
        matrix[i, i], matrix[i, j], matrix[j, i], matrix[j, j] = c, -s, s, c
        return matrix

    a, b, c = np.radians([25, -40, 70])
    product = torch.from_numpy(turn(0, a) @ turn(1, b) @ turn(2, c))[None]
    error = euler_rmse(SE3(product, torch.zeros(1, 3, dtype=torch.float64)), still(1))
    assert error == pytest.approx([math.sqrt((25**2 + 40**2 + 70**2) / 3)])


def test_translation_rmse_by_hand():
    error = translation_rmse(shifted(still(2), 1, 1.0, 2.0, 2.0), still(2))
    assert error == pytest.approx([0, math.sqrt(9 / 3)])


@pytest.mark.parametrize("seed", SEEDS)
def test_chamfer_against_all_pairs(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(30, 3)), rng.normal(size=(50, 3))
    squared = np.square(first[:, None] - second).sum(axis=2)
    assert chamfer(first, second) == pytest.approx(squared.min(axis=1).mean() + squared.min(axis=0).mean())


def test_chamfer_by_hand():
    """Squared distances, and the sum of both directions: 4 + (4 + 9) / 2."""
    assert chamfer(np.zeros((1, 3)), np.array([[2.0, 0, 0], [0, 3.0, 0]])) == pytest.approx(4 + 6.5)


def test_part_accuracy_by_hand():
    """Single points moved by d have a Chamfer distance of 2 d^2: 0.07 is in place, 0.0708 is not."""
    clouds = [np.zeros((1, 3))] * 4
    moved = shifted(shifted(shifted(still(4), 0, 0.07, 0, 0), 1, 0.0708, 0, 0), 2, 0, 0, 5.0)
    assert part_accuracy(moved, still(4), clouds) == 0.5


def test_equal_parts_may_stand_in_for_each_other():
    clouds = [*[blobs(1)[0]] * 2, blobs(2)[1]]
    true = shifted(shifted(still(3), 0, 5.0, 0, 0), 1, -5.0, 0, 0)
    swapped = true[torch.tensor([1, 0, 2])]
    assert part_accuracy(swapped, true, clouds) == pytest.approx(1 / 3)
    assert matched_part_accuracy(swapped, true, clouds) == 1
    assert shape_chamfer(swapped, true, clouds) == pytest.approx(0, abs=1e-20)
    lost = shifted(swapped, 2, 0, 0, 3.0)
    assert matched_part_accuracy(lost, true, clouds) == pytest.approx(2 / 3)
    assert shape_chamfer(lost, true, clouds) > 0.1


def test_parts_that_differ_may_not():
    clouds = blobs(2)
    true = shifted(still(2), 0, 5.0, 0, 0)
    assert matched_part_accuracy(true[torch.tensor([1, 0])], true, clouds) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_matching_never_takes_a_part_away(seed):
    """By trying all matchings of small pieces, some of which happen to lie near enough to each other's places."""
    clouds, true = [0.1 * cloud for cloud in blobs(4, 20)], random_se3(4, seed, 0.1)
    predicted = shifted(true, seed, 0.2, 0, 0)
    ours, theirs = (
        [each[i].act(torch.from_numpy(cloud)).numpy() for i, cloud in enumerate(clouds)] for each in (predicted, true)
    )
    fits = [[chamfer(a, b) < 0.01 for b in theirs] for a in ours]
    best = max(sum(fits[i][j] for i, j in enumerate(order)) for order in itertools.permutations(range(4)))
    assert matched_part_accuracy(predicted, true, clouds) == best / 4 >= part_accuracy(predicted, true, clouds)


def test_the_anchor_has_most_points_then_the_largest_extent():
    small, wide = np.eye(3), 3 * np.eye(3)
    assert largest_piece([wide, np.zeros((5, 3)), small]) == 1
    assert largest_piece([small, wide, small]) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_alignment_puts_the_anchor_in_place_and_keeps_the_rest_together(seed):
    predicted, solution = random_se3(4, seed), random_se3(4, 50 + seed)
    aligned = align_on(predicted, solution, 2)
    torch.testing.assert_close(aligned[2].matrix(), solution[2].matrix())
    assert pairwise_errors(aligned, predicted) == pytest.approx((0, 0), abs=1e-5)


def test_an_unplaced_part_is_not_in_place():
    """Not even where it happens to lie right."""
    clouds, true, unplaced = blobs(3), random_se3(3, 0), np.array([True, False, True])
    assert part_accuracy(true, true, clouds, unplaced) == pytest.approx(2 / 3)
    assert matched_part_accuracy(true, true, clouds, unplaced) == pytest.approx(2 / 3)
    assert pieces_in_place(true, true, clouds, unplaced, 1.0).tolist() == [True, False, True]


def test_pieces_are_in_place_on_the_anchor_for_which_they_are_most():
    """Two agree with each other and the third does not: the two are right, in whatever frame they lie."""
    clouds, true = blobs(3), random_se3(3, 0)
    whole = random_se3(1, 7)[0]
    moved = whole @ shifted(true, 1, 5.0, 0, 0)
    assert pieces_in_place(moved, true, clouds, ALL_THREE, 1.0).tolist() == [True, False, True]
    assert pieces_in_place(true, true, clouds, np.zeros(3, dtype=bool), 1.0).tolist() == [False] * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_pieces_in_place_against_the_definition(seed):
    """For every anchor, the Chamfer distances of all pieces in units of the size; then the anchor with most."""
    rng, size = np.random.default_rng(seed), 3.0
    clouds, true = blobs(3), random_se3(3, seed)
    off = shifted(shifted(true, 0, *rng.normal(size=3) * 0.2), 1, *rng.normal(size=3) * 0.2)
    counts = []
    for anchor in range(3):
        laid = align_on(off, true, anchor)
        ours, goal = (
            [(c @ r.numpy().T + t.numpy()) / size for c, r, t in zip(clouds, p.rotation, p.translation, strict=True)]
            for p in (laid, true)
        )
        counts.append(sum(chamfer(a, b) < 0.01 for a, b in zip(ours, goal, strict=True)))
    assert pieces_in_place(off, true, clouds, ALL_THREE, size).sum() == max(counts)
