"""Pieces go where the fits of trusted pairs agree that they belong, and else to their goals (ours)."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation
from support.closeness import assert_near_and_nonzero
from support.pair_fits import (
    Poses,
    any_fits,
    any_trust,
    edges_of,
    fits_to,
    near,
    poses_of,
    relative,
    reordered_fits,
    turned_fits,
)
from support.rigid_motions import random_se3
from support.soft_matches import drawn
from torch import Tensor

from eda.lie import so3
from eda.registration import synchronize as module
from eda.registration.synchronize import PairFits, PairSums, follow_pairs, synchronize

HOLD = torch.tensor(0.3, dtype=torch.float64)
of_both_ways = pytest.mark.parametrize("solve", [synchronize, follow_pairs])


@pytest.fixture
def exact(monkeypatch):
    """Fits that no stiffness holds back, and gradients without damping."""
    monkeypatch.setattr(module, "STIFFNESS", 0.0)
    monkeypatch.setattr(module, "SHORT", 1e-15)
    undamped = so3.nearest
    monkeypatch.setattr(so3, "nearest", lambda matrix, damping=0.0: undamped(matrix))


# -- where all pieces go -----------------------------------------------------------------------------------

GRAPHS = {
    "tree": [(0, 1), (1, 2), (1, 3), (3, 4)],
    "cycle": [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)],
    "complete": list(itertools.combinations(range(5), 2)),
}


@pytest.mark.parametrize("graph", GRAPHS)
def test_pairs_that_agree_bring_pieces_from_nearby_to_where_they_want_them(graph):
    """Two puzzles, each up to a motion of the whole; a few times, each from where the last one ended."""
    truth, trust = poses_of(2, 5), torch.zeros(2, 5, 5, dtype=torch.float64)
    for i, j in GRAPHS[graph]:
        trust[:, i, j] = trust[:, j, i] = 1.0
    poses = near(truth, 4, 0.3)
    begun = [(one - other).abs().max() for one, other in zip(relative(poses), relative(truth), strict=True)]
    assert min(begun) > 0.3
    for _ in range(25):
        poses = synchronize(fits_to(truth, poses), trust, *poses, poses, 1e-3 * HOLD)
    for found, expected in zip(relative(poses), relative(truth), strict=True):
        assert_near_and_nonzero(found, expected, 1e-6)


def test_two_pieces_meet_half_way():
    truth, poses = poses_of(3, 2), poses_of(3, 2, seed=4)
    trust = torch.ones(3, 2, 2).double() - torch.eye(2).double()
    rotation, center = synchronize(fits_to(truth, poses), trust, *poses, poses, 1e-9 * HOLD)
    for found, expected in zip(relative((rotation, center)), relative(truth), strict=True):
        assert_near_and_nonzero(found, expected, 1e-6)
    turns = Rotation.from_matrix((rotation @ poses[0].mT).reshape(6, 3, 3).numpy()).as_rotvec().reshape(3, 2, 3)
    np.testing.assert_allclose(turns[:, 0], -turns[:, 1], atol=1e-6)
    assert np.abs(turns).max() > 0.1
    assert_near_and_nonzero(center.mean(1), poses[1].mean(1), 1e-6)


def agreement(fits: PairFits, trust: Tensor, now: Tensor, goal: Tensor, rotation: np.ndarray) -> float:
    """What the rotations of one puzzle ought to make large, pair by pair."""
    value, count = 0.0, len(rotation)
    motion = rotation @ now.mT.numpy()
    for i, j in itertools.combinations(range(count), 2):
        value += float(trust[i, j]) * np.trace(motion[i].T @ motion[j] @ fits.rotation[0, i, j].numpy())
    return value + float(HOLD) * sum(np.trace(rotation[i].T @ goal[i].numpy()) for i in range(count))


def test_with_time_the_rotations_agree_as_well_with_pairs_that_contradict_each_other_as_any_nearby(monkeypatch):
    """A descent by scipy, from where the power method ends, finds nothing better."""
    monkeypatch.setattr(module, "POWER_STEPS", 400)
    fits, trust, poses, goal = any_fits(1, 4), any_trust(1, 4), poses_of(1, 4), poses_of(1, 4, seed=9)
    found = synchronize(fits, trust, *poses, goal, HOLD)[0][0].numpy()

    def loss(w: np.ndarray) -> float:
        moved = Rotation.from_rotvec(w.reshape(4, 3)).as_matrix() @ found
        return -agreement(fits, trust[0], poses[0][0], goal[0][0], moved)

    end = minimize(loss, 0.05 * drawn(12).numpy(), method="BFGS", options={"gtol": 1e-7})
    assert loss(np.zeros(12)) == pytest.approx(end.fun, abs=1e-6)
    np.testing.assert_allclose(Rotation.from_rotvec(end.x.reshape(4, 3)).magnitude(), 0, atol=1e-3)
    assert loss(np.zeros(12)) < -agreement(fits, trust[0], poses[0][0], goal[0][0], poses[0][0].numpy()) - 0.1


def test_the_places_are_those_at_which_the_means_of_pairs_lie_nearest_to_each_other():
    """Least squares by numpy, at the rotations that were found."""
    fits, trust, poses, goal = any_fits(1, 4), any_trust(1, 4), poses_of(1, 4), poses_of(1, 4, seed=9)
    rotation, center = (of[0] for of in synchronize(fits, trust, *poses, goal, HOLD))
    motion, eye, rows, wanted = rotation @ poses[0][0].mT, torch.eye(4).double(), [], []
    for i, j in itertools.combinations(range(4), 2):
        ends = [motion[k] @ (of[0, i, j] - poses[1][0, k]) for k, of in ((i, fits.here), (j, fits.there))]
        rows.append(trust[0, i, j].sqrt() * (eye[i] - eye[j]))
        wanted.append(trust[0, i, j].sqrt() * (ends[1] - ends[0]))
    rows, wanted = torch.cat([torch.stack(rows), HOLD.sqrt() * eye]), [*wanted, *(HOLD.sqrt() * goal[1][0])]
    expected = np.linalg.lstsq(rows.numpy(), torch.stack(wanted).numpy(), rcond=None)[0]
    assert_near_and_nonzero(center, torch.from_numpy(expected), 1e-10)


@of_both_ways
def test_poses_turn_with_the_whole(solve):
    fits, trust, poses, goal = any_fits(2, 4), any_trust(2, 4), poses_of(2, 4), poses_of(2, 4, seed=9)
    whole = random_se3(1, 6)[0]

    def turned(poses: Poses) -> Poses:
        return whole.rotation @ poses[0], whole.act(poses[1])

    expected = turned(solve(fits, trust, *poses, goal, HOLD))
    found = solve(turned_fits(fits, whole), trust, *turned(poses), turned(goal), HOLD)
    for one, other in zip(found, expected, strict=True):
        assert_near_and_nonzero(one, other, 1e-10)


@of_both_ways
def test_poses_follow_the_order_of_the_pieces(solve):
    fits, trust, poses, goal = any_fits(2, 4), any_trust(2, 4), poses_of(2, 4), poses_of(2, 4, seed=9)
    order = torch.tensor([2, 0, 3, 1])
    found = solve(
        reordered_fits(fits, order),
        trust[:, order][:, :, order],
        *(of[:, order] for of in poses),
        tuple(of[:, order] for of in goal),
        HOLD,
    )
    for one, other in zip(found, solve(fits, trust, *poses, goal, HOLD), strict=True):
        assert_near_and_nonzero(one, other[:, order], 1e-10)


@of_both_ways
def test_a_piece_that_no_trusted_pair_moves_goes_to_its_goal_and_changes_nothing_for_the_others(solve):
    """So padding does not matter, whatever stands there."""
    fits, trust, poses, goal = any_fits(2, 4), any_trust(2, 4), poses_of(2, 4), poses_of(2, 4, seed=9)
    trust[:, 2] = trust[:, :, 2] = 0
    found, rest = solve(fits, trust, *poses, goal, HOLD), torch.tensor([0, 1, 3])
    for one, other in zip(found, goal, strict=True):
        assert_near_and_nonzero(one[:, 2], other[:, 2], 1e-12)
        assert (one - other)[:, rest].abs().amax(-1).min() > 1e-3
    alone = solve(
        reordered_fits(fits, rest),
        trust[:, rest][:, :, rest],
        *(of[:, rest] for of in poses),
        tuple(of[:, rest] for of in goal),
        HOLD,
    )
    for one, other in zip(found, alone, strict=True):
        assert_near_and_nonzero(one[:, rest], other, 1e-11)


def test_to_follow_pairs_is_to_go_to_the_mean_of_where_each_of_them_wants_a_piece():
    fits, trust, poses, goal = any_fits(2, 4), any_trust(2, 4), poses_of(2, 4), poses_of(2, 4, seed=9)
    rotation, center = follow_pairs(fits, trust, *poses, goal, HOLD)
    for b, i in itertools.product(range(2), range(4)):
        others = [j for j in range(4) if j != i]
        wanted = [(float(trust[b, i, j]), fits.rotation[b, i, j] @ poses[0][b, i]) for j in others]
        wanted.append((float(HOLD), goal[0][b, i]))
        mean = Rotation.from_matrix(torch.stack([of for _, of in wanted]).numpy()).mean([w for w, _ in wanted])
        assert_near_and_nonzero(rotation[b, i], torch.from_numpy(mean.as_matrix()), 1e-10)
        turn = rotation[b, i] @ poses[0][b, i].T
        places = [fits.there[b, i, j] - turn @ (fits.here[b, i, j] - poses[1][b, i]) for j in others]
        places = [w * at for (w, _), at in zip(wanted, [*places, goal[1][b, i]], strict=True)]
        assert_near_and_nonzero(center[b, i], sum(places) / sum(w for w, _ in wanted), 1e-10)


# -- gradients ---------------------------------------------------------------------------------------------


@of_both_ways
@pytest.mark.usefixtures("exact")
def test_gradients_are_those_of_finite_differences(solve):
    """Of the poses, through the fits, by correspondences and trust."""
    edges, trust, poses, goal = edges_of(1, 3, 3), any_trust(1, 3), poses_of(1, 3), poses_of(1, 3, seed=9)
    inputs = (edges.weight, edges.here, edges.there, trust, *poses, *goal, HOLD.clone())

    def found(weight, here, there, trust, rotation, center, turned, moved, hold):
        fits = PairFits.of(PairSums.of(weight, here, there, edges.slot, edges.shape))
        return solve(fits, trust, rotation, center, (turned, moved), hold)

    assert torch.autograd.gradcheck(found, [of.requires_grad_() for of in inputs], atol=1e-6, fast_mode=True)


@of_both_ways
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("logarithm", [-30.0, -14.0, -12.0, -5.0, 0.0])
def test_gradients_are_bounded_where_correspondences_decide_little_or_nothing(solve, count, logarithm):
    """One place with one other, a line, or whatever hardly counts, as long as it is hardly trusted either."""
    poses, goal, weight = poses_of(1, 3), poses_of(1, 3, seed=9), torch.full((count,), logarithm).double()
    inputs = [of.requires_grad_() for of in (weight, drawn(count, 3), drawn(count, 3, seed=1))]
    fits = PairFits.of(PairSums.of(weight.exp(), *inputs[1:], torch.ones(count, dtype=torch.int64), (1, 3)))
    rotation, center = solve(fits, any_trust(1, 3) * fits.weight / (fits.weight + 1), *poses, goal, HOLD)
    slopes = torch.autograd.grad((rotation * drawn(1, 3, 3, 3)).sum() + center.sum(), inputs)
    assert max(float(slope.abs().max()) for slope in slopes) < 20


@of_both_ways
def test_damping_hardly_changes_gradients_where_all_is_decided(solve, monkeypatch):
    """Of fits that contradict each other, as far as the pairs are trusted."""
    found = []
    for nearest in (so3.nearest, lambda matrix, damping=0.0, undamped=so3.nearest: undamped(matrix)):
        monkeypatch.setattr(so3, "nearest", nearest)
        edges, trust, poses = edges_of(1, 3, 6), any_trust(1, 3), poses_of(1, 3)
        places = [of.requires_grad_() for of in (edges.here, edges.there)]
        fits = PairFits.of(PairSums.of(edges.weight, *places, edges.slot, edges.shape))
        rotation, _ = solve(fits, trust, *poses, poses_of(1, 3, seed=9), HOLD)
        found.append(torch.cat(torch.autograd.grad((rotation * drawn(1, 3, 3, 3)).sum(), places)))
    assert torch.nn.functional.cosine_similarity(*(of.flatten() for of in found), dim=0) > 0.95
