"""Weighted Procrustes is the fit of scipy, also where a mirror image fitted better."""

import itertools

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from support.closeness import assert_near_and_nonzero
from support.lumpy_shapes import seeded
from support.oracles import kabsch
from support.rigid_motions import random_se3
from support.soft_matches import drawn

from eda.registration.procrustes import weighted_procrustes


def test_a_fit_is_the_one_of_scipy_and_its_spread_that_of_numpy():
    """Of points that do not fit: also where a mirror image fitted better."""
    here, there = drawn(2, 9, 3), drawn(2, 9, 3, seed=1) + 4
    weight = torch.rand(2, 7, 9, generator=seeded(), dtype=torch.float64)
    found, spread = weighted_procrustes(weight, here, there)
    mirrors = 0
    for q, k in itertools.product(range(2), range(7)):
        w, x, y = weight[q, k].numpy(), here[q].numpy(), there[q].numpy()
        middle, goal = (np.average(points, axis=0, weights=w) for points in (x, y))
        rotation = Rotation.align_vectors(y - goal, x - middle, w)[0].as_matrix()
        mirrors += np.linalg.det((w[:, None] * (y - goal)).T @ (x - middle)) < 0
        assert_near_and_nonzero(found[q, k].rotation, torch.from_numpy(rotation), 1e-6)
        assert_near_and_nonzero(found[q, k].translation, torch.from_numpy(goal - rotation @ middle), 1e-6)
        assert float(spread[q, k]) == pytest.approx(kabsch(w, x, y)[2], abs=1e-12)
    assert 0 < mirrors < 14


def test_the_spread_of_points_is_that_of_their_second_direction_squared():
    sides = drawn(1, 200, 3) * torch.tensor([5.0, 0.3, 0.01]).double()
    sides = sides - sides.mean(1, keepdim=True)
    exact = torch.linalg.svdvals(sides[0])[1] ** 2 / 200
    found = weighted_procrustes(torch.ones(1, 1, 200).double(), sides, random_se3(1, 3, spread=0.7).act(sides))[1]
    assert float(found) == pytest.approx(float(exact), rel=1e-9)
    line = sides * torch.tensor([1.0, 0.0, 0.0]).double()
    assert float(weighted_procrustes(torch.ones(1, 1, 200).double(), line, line)[1]) < 1e-12
