"""Every metric: by hand, against a plain computation of its definition, and what it must not see."""

import itertools
import math

import numpy as np
import pytest
import torch
from reference import random_motions
from scipy.spatial.transform import Rotation
from support.shapes import lumpy_cloud

from eda import SE3, InputError
from eda.metrics import (
    aligned_on,
    chamfer,
    euler_rmse,
    information_rmse,
    is_solved,
    largest,
    matched_part_accuracy,
    overlapping,
    pair_errors,
    pairwise_errors,
    part_accuracy,
    precision_recall,
    roc_auc,
    shape_chamfer,
    translation_rmse,
)

SEEDS = range(4)


def poses(count: int, seed: int, spread: float = 1.0) -> SE3:
    return SE3.from_matrix(random_motions(count, seed, spread))


def euler(*angles: tuple[float, float, float]) -> SE3:
    """Turned about x, then the new y, then the newest z."""
    rotation = Rotation.from_euler("XYZ", angles, degrees=True).as_matrix()
    return SE3(torch.from_numpy(rotation), torch.zeros(len(angles), 3, dtype=torch.float64))


def shifted(motion: SE3, piece: int, *by: float) -> SE3:
    translation = motion.translation.clone()
    translation[piece] += torch.tensor(by, dtype=torch.float64)
    return SE3(motion.rotation, translation)


def still(count: int) -> SE3:
    return SE3.identity(count, dtype=torch.float64)


def blobs(count: int, size: int = 40) -> list[np.ndarray]:
    clouds = [lumpy_cloud(i, size + i)[0] for i in range(count)]
    return [cloud - cloud.mean(axis=0) for cloud in clouds]


# -- pairwise ----------------------------------------------------------------------------------------------


def test_random_rotations_are_126_degrees_apart():
    """Haar's mean angle is pi / 2 + 2 / pi, whatever the number of pieces."""
    angles = [pairwise_errors(poses(4, seed), poses(4, 1000 + seed))[0] for seed in range(400)]
    expected = math.degrees(math.pi / 2 + 2 / math.pi)
    assert expected == pytest.approx(126.476, abs=1e-3)
    assert np.mean(angles) == pytest.approx(expected, abs=4 * np.std(angles) / math.sqrt(len(angles)))


@pytest.mark.parametrize(
    ("degrees", "distance", "solved"),
    [(9.9, 0.099, True), (10.0, 0.0, False), (0.0, 0.1, False), (0.0, 0.0, True), (float("nan"), 0.0, False)],
)
def test_solved_is_below_10_degrees_and_5_percent(degrees, distance, solved):
    assert is_solved(degrees, distance, size=2.0) is solved


# -- Breaking Bad ------------------------------------------------------------------------------------------


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
    clouds, true = [0.1 * cloud for cloud in blobs(4, 20)], poses(4, seed, 0.1)
    predicted = shifted(true, seed, 0.2, 0, 0)
    ours, theirs = (
        [each[i].act(torch.from_numpy(cloud)).numpy() for i, cloud in enumerate(clouds)] for each in (predicted, true)
    )
    fits = [[chamfer(a, b) < 0.01 for b in theirs] for a in ours]
    best = max(sum(fits[i][j] for i, j in enumerate(order)) for order in itertools.permutations(range(4)))
    assert matched_part_accuracy(predicted, true, clouds) == best / 4 >= part_accuracy(predicted, true, clouds)


def test_the_anchor_has_most_points_then_the_largest_extent():
    small, wide = np.eye(3), 3 * np.eye(3)
    assert largest([wide, np.zeros((5, 3)), small]) == 1
    assert largest([small, wide, small]) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_alignment_puts_the_anchor_in_place_and_keeps_the_rest_together(seed):
    predicted, solution = poses(4, seed), poses(4, 50 + seed)
    aligned = aligned_on(predicted, solution, 2)
    torch.testing.assert_close(aligned[2].matrix(), solution[2].matrix())
    assert pairwise_errors(aligned, predicted) == pytest.approx((0, 0), abs=1e-5)


# -- registration ------------------------------------------------------------------------------------------


def test_a_shift_of_a_scan_by_hand():
    """All correspondences are off by the shift: 0.2 m is a success, more is none."""
    cloud = blobs(1)[0]
    for shift, success in [(0.199, True), (0.201, False)]:
        errors = pair_errors(shifted(still(1), 0, 0, 0, shift)[0], still(1)[0], cloud, cloud)
        assert errors.rmse == pytest.approx(shift)
        assert errors.distance == pytest.approx(shift)
        assert errors.degrees == pytest.approx(0, abs=1e-5)
        assert errors.succeeded is success


@pytest.mark.parametrize("seed", SEEDS)
def test_only_what_both_scans_saw_counts(seed):
    """A target that saw a part of the source; the rotation error leaves that part nearly in place."""
    solution, source = poses(1, seed)[0], blobs(1, 200)[0]
    seen = source[:, 0] > 0.3
    target = solution.act(torch.from_numpy(source[seen])).numpy()
    predicted = solution @ poses(1, seed + 9, 0.1)[0]
    errors = pair_errors(predicted, solution, source, target)
    places = [motion.act(torch.from_numpy(source)).numpy() for motion in (predicted, solution)]
    within = [any(np.linalg.norm(place - t) <= 0.05 for t in target) for place in places[1]]
    assert seen.sum() <= sum(within) < len(source)
    squared = np.square(places[0] - places[1]).sum(axis=1)[within]
    assert errors.rmse == pytest.approx(math.sqrt(squared.mean()))
    relative = Rotation.from_matrix((predicted.rotation @ solution.rotation.mT).numpy())
    assert errors.degrees == pytest.approx(math.degrees(relative.magnitude()))


def test_scans_that_do_not_overlap_are_judged_by_all_points():
    source, away = blobs(2)[0], blobs(2)[1] + 100
    assert not overlapping(source, away).any()
    errors = pair_errors(shifted(still(1), 0, 0.1, 0, 0)[0], still(1)[0], source, away)
    assert errors.rmse == pytest.approx(0.1)


def information_of(points: np.ndarray) -> np.ndarray:
    """The matrix (6, 6) that `gt.info` holds for correspondences at these points: the sum of J^T J, with J (t, q) the
    move t + 2 q x p of a point p."""
    total = np.zeros((6, 6))
    for p in points:
        J = np.concatenate([np.eye(3), 2 * np.stack([np.cross(e, p) for e in np.eye(3)], axis=1)], axis=1)
        total += J.T @ J
    return total


@pytest.mark.parametrize("seed", SEEDS)
def test_the_information_matrix_tells_the_rmse_of_small_motions(seed):
    points = np.random.default_rng(seed).normal((1, 2, 3), size=(100, 3))
    twist = 1e-4 * torch.randn(6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    residual = SE3.exp(twist)
    moved = residual.act(torch.from_numpy(points)).numpy()
    rmse = math.sqrt(np.square(moved - points).sum(axis=1).mean())
    assert information_rmse(residual, information_of(points)) == pytest.approx(rmse, rel=1e-3)
    solution = poses(1, seed)[0]
    errors = pair_errors(solution @ residual, solution, points, points, information_of(points))
    assert errors.rmse == pytest.approx(rmse, rel=1e-3)


def test_the_information_matrix_by_hand():
    """One correspondence at (1, 0, 0): x = (t, q) moves it by t + 2 q x p = t + (0, 2 q_z, -2 q_y)."""
    expected = np.zeros((6, 6))
    expected[:3, :3] = np.eye(3)
    expected[5, 5] = expected[4, 4] = 4
    expected[1, 5] = expected[5, 1] = 2
    expected[2, 4] = expected[4, 2] = -2
    np.testing.assert_allclose(information_of(np.array([[1.0, 0, 0]])), expected)


@pytest.mark.parametrize(("degrees", "sign"), [(170, 1), (190, -1)])
def test_the_quaternion_has_a_positive_real_part(degrees, sign):
    """As the benchmark takes it: beyond half a turn, a point at (1, 0, 0) seems to move the other way."""
    turn = torch.from_numpy(Rotation.from_euler("z", degrees, degrees=True).as_matrix())
    residual = SE3(turn, torch.tensor([0, 1.0, 0], dtype=torch.float64))
    expected = abs(1 + sign * 2 * math.sin(math.radians(85)))
    assert information_rmse(residual, information_of(np.array([[1.0, 0, 0]]))) == pytest.approx(expected)


# -- breaks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [3, 1000])
@pytest.mark.parametrize("seed", SEEDS)
def test_auc_counts_pairs(seed, levels):
    rng = np.random.default_rng(seed)
    labels, scores = rng.random(60) < 0.3, rng.integers(levels, size=60) / 7
    pairs = itertools.product(scores[labels], scores[~labels])
    assert roc_auc(labels, scores) == pytest.approx(np.mean([(a > b) + (a == b) / 2 for a, b in pairs]))


@pytest.mark.parametrize(("scores", "auc"), [([1, 2, 3, 4], 1), ([4, 3, 2, 1], 0), ([5, 5, 5, 5], 0.5)])
def test_auc_by_hand(scores, auc):
    assert roc_auc(np.array([False, False, True, True]), np.array(scores)) == auc


def test_auc_of_one_kind_is_not_defined():
    assert math.isnan(roc_auc(np.ones(3, bool), np.arange(3)))


def test_precision_and_recall_by_hand():
    labels = np.array([1, 1, 1, 0, 0, 0, 0], bool)
    chosen = np.array([1, 1, 0, 1, 1, 1, 0], bool)
    assert precision_recall(labels, chosen) == (2 / 5, 2 / 3)
    precision, recall = precision_recall(labels, np.zeros(7, bool))
    assert math.isnan(precision)
    assert recall == 0


@pytest.mark.parametrize("scores", [np.zeros(2), np.array([0, np.nan, 1]), np.zeros((3, 1))])
def test_scores_that_do_not_fit_are_refused(scores):
    with pytest.raises(InputError, match="scores"):
        roc_auc(np.array([True, False, True]), scores)
