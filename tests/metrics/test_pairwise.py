"""The paper's error: its mean for random answers, when a puzzle is solved, and every pair of it."""

import math

import numpy as np
import pytest
import torch
from support.rigid_motions import random_se3

from eda.metrics import is_solved, pairwise_errors, relative_errors


def test_random_rotations_are_126_degrees_apart():
    """Haar's mean angle is pi / 2 + 2 / pi, whatever the number of pieces."""
    angles = [pairwise_errors(random_se3(4, seed), random_se3(4, 1000 + seed))[0] for seed in range(400)]
    expected = math.degrees(math.pi / 2 + 2 / math.pi)
    assert expected == pytest.approx(126.476, abs=1e-3)
    assert np.mean(angles) == pytest.approx(expected, abs=4 * np.std(angles) / math.sqrt(len(angles)))


@pytest.mark.parametrize(
    ("degrees", "distance", "solved"),
    [(9.9, 0.099, True), (10.0, 0.0, False), (0.0, 0.1, False), (0.0, 0.0, True), (float("nan"), 0.0, False)],
)
def test_solved_is_below_10_degrees_and_5_percent(degrees, distance, solved):
    assert is_solved(degrees, distance, size=2.0) is solved


def test_relative_errors_by_one_pair_at_a_time():
    """Entry [i, j]: the pose that j has when the whole is moved so that i lies where it should."""
    predicted, solution = random_se3(3, 1), random_se3(3, 2)
    degrees, distance = relative_errors(predicted, solution)
    for i in range(3):
        onto = solution[i].matrix() @ torch.linalg.inv(predicted[i].matrix())
        for j in range(3):
            moved, true = onto @ predicted[j].matrix(), solution[j].matrix()
            cosine = (torch.trace(moved[:3, :3] @ true[:3, :3].T) - 1) / 2
            assert float(degrees[i, j]) == pytest.approx(math.degrees(math.acos(float(cosine.clamp(-1, 1)))), abs=1e-4)
            assert float(distance[i, j]) == pytest.approx(float((moved - true)[:3, 3].norm()), abs=1e-9)
    mean = float(degrees.sum()) / 6  # the diagonal is zero
    assert mean == pytest.approx(pairwise_errors(predicted, solution)[0])
