"""The pairwise error of Sec. 6.1: by hand, against scipy, blind to motions of the whole, puzzle by puzzle."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from support.lumpy_shapes import lumpy_pieces
from support.rigid_motions import random_se3

from eda.lie import SE3
from eda.metrics import pairwise_geodesic
from eda.pieces import Pieces
from eda.segment import ranges

COUNTS = (2, 3, 5)
TOTAL = sum(COUNTS)
SEEDS = range(4)


def batch(*counts: int) -> Pieces:
    return Pieces.collate([lumpy_pieces(n, 6, seed=n, normals=False) for n in counts])


def about_z(degrees: float) -> torch.Tensor:
    return torch.from_numpy(Rotation.from_euler("z", degrees, degrees=True).as_matrix())


def at(*places: tuple[float, float, float]) -> SE3:
    """Unturned pieces in these places."""
    translation = torch.tensor(places, dtype=torch.float64)
    return SE3(torch.eye(3, dtype=torch.float64).repeat(len(places), 1, 1), translation)


def changed(poses: SE3, piece: int, rotation: torch.Tensor | None = None, shift: float = 0.0) -> SE3:
    """One piece turned about its own origin and shifted along y."""
    rotations, translations = poses.rotation.clone(), poses.translation.clone()
    rotations[piece] = rotations[piece] if rotation is None else rotation @ rotations[piece]
    translations[piece, 1] += shift
    return SE3(rotations, translations)


def paper_error(predicted: np.ndarray, solution: np.ndarray) -> tuple[float, float]:
    """The formula as printed, pair by pair, on the 4 x 4 matrices of one puzzle."""
    angles, distances = [], []
    for i in range(len(predicted)):
        for j in range(len(predicted)):
            if i != j:
                implied = solution[j] @ np.linalg.inv(predicted[j]) @ predicted[i]
                angles.append((Rotation.from_matrix(solution[i, :3, :3] @ implied[:3, :3].T)).magnitude())
                distances.append(np.linalg.norm(implied[:3, 3] - solution[i, :3, 3]))
    return math.degrees(np.mean(angles)), float(np.mean(distances))


@pytest.mark.parametrize("seed", SEEDS)
def test_agrees_with_the_formula_of_the_paper(seed):
    predicted, solution = random_se3(TOTAL, seed), random_se3(TOTAL, seed + 50)
    degrees, distance = pairwise_geodesic(predicted, solution, batch(*COUNTS))
    assert degrees.shape == distance.shape == (len(COUNTS),)
    rows = torch.split(torch.arange(TOTAL), COUNTS)
    wanted = [paper_error(predicted[r].matrix().numpy(), solution[r].matrix().numpy()) for r in rows]
    np.testing.assert_allclose(torch.stack([degrees, distance], dim=1).numpy(), wanted, rtol=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-5), (torch.float32, 1e-3)])
def test_a_motion_of_the_whole_is_no_error(seed, dtype, limit):
    """A motion of its own for every puzzle. The arc cosine of a trace would show 0.02 degrees in float32."""
    solution = random_se3(TOTAL, seed)
    predicted = random_se3(len(COUNTS), seed + 50)[ranges(torch.tensor(COUNTS))] @ solution
    degrees, distance = pairwise_geodesic(predicted.to(dtype), solution.to(dtype), batch(*COUNTS))
    assert degrees.max() < limit
    assert distance.max() < limit / 100


@pytest.mark.parametrize("seed", SEEDS)
def test_a_motion_of_the_prediction_changes_no_error(seed):
    predicted, solution, pieces = random_se3(TOTAL, seed), random_se3(TOTAL, seed + 50), batch(*COUNTS)
    moved = random_se3(len(COUNTS), seed + 70)[pieces.puzzle_of_piece] @ predicted
    torch.testing.assert_close(
        pairwise_geodesic(moved, solution, pieces), pairwise_geodesic(predicted, solution, pieces)
    )


def test_two_pieces_by_hand():
    """Pieces at -1 and 1, the second turned in place by 90 degrees.

    With the first in its place the second is only turned: distance 0. With the second in its place
    the first comes to (1, 2, 0) instead of (-1, 0, 0): distance 2 sqrt 2.
    """
    solution = at((-1.0, 0.0, 0.0), (1.0, 0.0, 0.0))
    degrees, distance = pairwise_geodesic(changed(solution, 1, about_z(90)), solution, batch(2))
    assert float(degrees) == pytest.approx(90)
    assert float(distance) == pytest.approx(math.sqrt(2))


def test_three_pieces_by_hand():
    """The third is off by 0.6: it is in four of the six ordered pairs."""
    solution = at((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 2.0))
    degrees, distance = pairwise_geodesic(changed(solution, 2, shift=0.6), solution, batch(3))
    assert float(degrees) == pytest.approx(0)
    assert float(distance) == pytest.approx(4 / 6 * 0.6)


def test_three_turned_pieces_by_hand():
    """All at the origin, turned by 0, 30 and 90 degrees: differences 30, 60 and 90."""
    solution = at(*[(0.0, 0.0, 0.0)] * 3)
    predicted = changed(changed(solution, 1, about_z(30)), 2, about_z(90))
    degrees, distance = pairwise_geodesic(predicted, solution, batch(3))
    assert float(degrees) == pytest.approx(60)
    assert float(distance) == pytest.approx(0)


def test_the_worst_angle_is_180_degrees():
    solution = at((0.0, 0.0, 0.0), (1.0, 0.0, 0.0))
    degrees, _ = pairwise_geodesic(changed(solution, 0, about_z(180)), solution, batch(2))
    assert float(degrees) == pytest.approx(180)


@pytest.mark.parametrize("puzzle", range(len(COUNTS)))
def test_a_puzzle_does_not_feel_its_companions(puzzle):
    predicted, solution = random_se3(TOTAL, 1), random_se3(TOTAL, 2)
    together = pairwise_geodesic(predicted, solution, batch(*COUNTS))
    rows = torch.split(torch.arange(TOTAL), COUNTS)[puzzle]
    alone = pairwise_geodesic(predicted[rows], solution[rows], batch(COUNTS[puzzle]))
    for ours, theirs in zip(together, alone, strict=True):
        torch.testing.assert_close(ours[puzzle], theirs[0], rtol=1e-13, atol=0)


def test_an_error_stays_in_its_puzzle():
    solution = random_se3(TOTAL, 0)
    degrees, distance = pairwise_geodesic(changed(solution, 3, about_z(40), shift=1.0), solution, batch(*COUNTS))
    assert degrees[1] > 10
    assert distance[1] > 0.1
    assert degrees[[0, 2]].max() < 1e-5
    assert distance[[0, 2]].max() < 1e-12


def test_the_order_of_the_pieces_does_not_matter():
    predicted, solution, pieces = random_se3(TOTAL, 1), random_se3(TOTAL, 2), batch(*COUNTS)
    order = torch.tensor([1, 0, 3, 4, 2, 9, 5, 7, 6, 8])
    torch.testing.assert_close(
        pairwise_geodesic(predicted[order], solution[order], pieces.permute(order)),
        pairwise_geodesic(predicted, solution, pieces),
    )
