"""The soft rigid fit of two pieces is that of their weighted correspondences, whichever they begin at (ours)."""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from support.closeness import assert_near, assert_near_and_nonzero
from support.oracles import kabsch
from support.pair_fits import Edges, edges_of, moved_by
from support.rigid_motions import random_se3
from support.soft_matches import drawn

from eda.registration import synchronize as module
from eda.registration.synchronize import PairFits, PairSums

EYE = torch.eye(3, dtype=torch.float64)


@pytest.fixture
def loose(monkeypatch):
    """Fits that no stiffness holds back."""
    monkeypatch.setattr(module, "STIFFNESS", 0.0)
    monkeypatch.setattr(module, "SHORT", 1e-15)


# -- sums --------------------------------------------------------------------------------------------------


def test_the_sums_of_a_pair_are_those_of_its_correspondences_whichever_piece_they_begin_at():
    edges = edges_of(2, 4, 3)
    found = PairSums.of(*edges.sums)
    for b, i, j in itertools.product(range(2), range(4), range(4)):
        weight, here, there = edges.between(b, i, j)
        each = list(zip(weight, here, there, strict=True))
        assert len(each) == (0 if i == j else 6)
        expected = {
            "weight": sum(w for w, _, _ in each),
            "here": sum(w * x for w, x, _ in each),
            "there": sum(w * y for w, _, y in each),
            "here_squared": sum(w * x.dot(x) for w, x, _ in each),
            "there_squared": sum(w * y.dot(y) for w, _, y in each),
            "outer": sum(w * torch.outer(y, x) for w, x, y in each),
        }
        for name, value in expected.items():
            torch.testing.assert_close(
                getattr(found, name)[b, i, j], torch.zeros_like(getattr(found, name)[b, i, j]) + value
            )


def test_the_sums_of_a_pair_and_of_the_pair_the_other_way_round_are_the_same():
    """And it does not matter which way round every single correspondence was written."""
    edges = edges_of(2, 3, 2)
    sums = PairSums.of(*edges.sums)
    for one, other in (("weight", "weight"), ("here", "there"), ("here_squared", "there_squared")):
        assert_near_and_nonzero(getattr(sums, one), getattr(sums, other).transpose(1, 2), 1e-12)
    assert_near_and_nonzero(sums.outer, sums.outer.transpose(1, 2).mT, 1e-12)
    back = replace(edges, here=edges.there, there=edges.here, ends=[(b, j, i) for b, i, j in edges.ends])
    for of in fields(sums):
        assert_near_and_nonzero(getattr(PairSums.of(*back.sums), of.name), getattr(sums, of.name), 1e-12)


# -- fits --------------------------------------------------------------------------------------------------


def pairs_in(edges: Edges) -> list[tuple[tuple[int, int, int], list[np.ndarray]]]:
    """Every ordered pair of every puzzle, with its correspondences."""
    batch, count = edges.shape
    ends = [(b, i, j) for b in range(batch) for i, j in itertools.permutations(range(count), 2)]
    return [(end, [of.numpy() for of in edges.between(*end)]) for end in ends]


@pytest.mark.usefixtures("loose")
def test_the_fit_of_a_pair_is_the_best_rigid_motion_and_what_it_leaves():
    edges = edges_of(2, 4, 5)
    fits = PairFits.of(PairSums.of(*edges.sums))
    for at, (w, x, y) in pairs_in(edges):
        rotation, shift, _ = kabsch(w, x, y)
        means, part = (w @ x / w.sum(), w @ y / w.sum()), w / w.sum()
        assert_near_and_nonzero(fits.rotation[at], torch.from_numpy(rotation), 1e-10)
        assert_near_and_nonzero(fits.here[at], torch.from_numpy(means[0]), 1e-12)
        assert_near_and_nonzero(fits.there[at], torch.from_numpy(means[1]), 1e-12)
        left = np.square(x @ rotation.T + shift - y).sum(1)
        spread = np.square(x - means[0]).sum(1) + np.square(y - means[1]).sum(1)
        found = [float(of[at]) for of in (fits.weight, fits.residual, fits.spread)]
        assert found == pytest.approx([w.sum(), part @ left, part @ spread], rel=1e-9)


@pytest.mark.usefixtures("loose")
def test_the_fit_of_places_that_were_moved_is_the_motion_and_leaves_nothing():
    motion = random_se3(1, 3)[0]
    fits = PairFits.of(PairSums.of(*moved_by(edges_of(2, 3, 4), motion).sums))
    for b, (i, j) in itertools.product(range(2), itertools.permutations(range(3), 2)):
        wanted = motion if i < j else motion.inverse()
        assert_near_and_nonzero(fits.rotation[b, i, j], wanted.rotation, 1e-9)
        assert_near_and_nonzero(fits.there[b, i, j], wanted.act(fits.here[b, i, j]), 1e-9)
        assert float(fits.residual[b, i, j]) == pytest.approx(0, abs=1e-12)
        assert fits.spread[b, i, j] > 0.1


def test_stiffness_hardly_changes_the_fit_of_places_that_spread_in_all_directions():
    edges = moved_by(edges_of(1, 3, 6), random_se3(1, 3)[0])
    fits = PairFits.of(PairSums.of(*edges.sums))
    for at, (w, x, y) in pairs_in(edges):
        assert_near(fits.rotation[at], torch.from_numpy(kabsch(w, x, y)[0]), 0.03)
        assert fits.residual[at] < 1e-3 * fits.spread[at]


def test_a_fit_does_not_turn_about_what_its_places_leave_open():
    """One correspondence turns nothing, places on a line only the line, and where there are none all is finite."""
    ends = [(0, 0, 1)] + 4 * [(0, 0, 2)]
    line, aim = drawn(2, 3, seed=5)
    at = torch.tensor([0.3, -1.0, -0.2, 0.6, 1.1]).double()[:, None]
    edges = Edges(torch.ones(5).double(), 2 + at * line, at * aim * line.norm() / aim.norm(), ends, (1, 4))
    fits = PairFits.of(PairSums.of(*edges.sums))
    shortest = Rotation.from_rotvec(rotvec_between(line.numpy(), aim.numpy())).as_matrix()
    for at, expected in (((0, 1), EYE), ((0, 2), torch.from_numpy(shortest)), ((0, 3), EYE), ((1, 3), EYE)):
        assert_near(fits.rotation[0][at], expected, 0.02)
    assert all(getattr(fits, of.name).isfinite().all() for of in fields(fits))


def rotvec_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The shortest turn of one direction onto the other."""
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    axis = np.cross(a, b)
    return axis / np.linalg.norm(axis) * np.arctan2(np.linalg.norm(axis), a @ b)
