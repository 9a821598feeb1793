"""Pieces follow the arrangements that may be right, as weighed by a loop over all of them (ours)."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.arrangements import FAR, arrangements_of, leaving, moved_on, pairwise, planted
from support.closeness import assert_near_and_nonzero
from support.oracles import haar_rotations
from support.pose_fields import far_of, path_of, pieces_of, way_of
from support.rigid_motions import random_se3
from support.soft_matches import drawn, of_both_kinds
from torch import Tensor

from eda import SE3
from eda.nn.pose_field import PoseField, displacements
from eda.registration.arrangements import Arrangements, arrange
from eda.registration.pair_scorer import num_features

MIN_TIME_LEFT = 0.02  # that is always left
ALL_OTHERS = 3 * math.log(12 * 10)  # a motion fills (12 x 10)^-3 of what all others do

# -- the weights of arrangements, puzzle by puzzle ---------------------------------------------------------


def judged(path: PoseField, evidence: Tensor, far: tuple[float, float] = (0.0, 0.0)) -> float:
    return float(path.judge(torch.cat([evidence, torch.tensor(far, dtype=evidence.dtype)])))


def value_of(path: PoseField, arrangements: Arrangements, poses: SE3, pairs: list[int], h: int) -> float:
    """Of joints by what speaks for them and how far they are, of all other placed pairs by what speaks for them."""
    total = 0.0
    for q in pairs:
        evidence = arrangements.features[q, h]
        if arrangements.is_joint[q, h]:
            total += judged(path, evidence, far_of(arrangements, poses, q, h))
        elif arrangements.placed[arrangements.first[q], h] and arrangements.placed[arrangements.second[q], h]:
            total += judged(path, evidence) if path.beside is None else float(path.beside(evidence))
    return total


def mixed_by_loop(
    path: PoseField, arrangements: Arrangements, poses: SE3, tau: Tensor, rest: Tensor, boldness: float = 1.0
) -> Tensor:
    """Of the density to the power `boldness`; an arrangement of n pieces has n - 1 motions."""
    velocity = []
    for b, pieces in enumerate(pieces_of(arrangements)):
        pairs = [q for q, i in enumerate(arrangements.first.tolist()) if i in pieces]
        logs, going = [boldness * float(path.none)], [rest[pieces.start : pieces.stop].numpy()]
        for h in arrangements.valid[b].nonzero()[:, 0].tolist():
            value = value_of(path, arrangements, poses, pairs, h)
            logs.append(boldness * value + (boldness - 1) * (len(pieces) - 1) * ALL_OTHERS)
            way = way_of(arrangements, poses, pieces, h)
            placed = [q for q in pairs if int(arrangements.first[q]) in way and int(arrangements.second[q]) in way]
            far = [distance for q in placed for distance in far_of(arrangements, poses, q, h)]
            time = max(1 - float(tau[b]), MIN_TIME_LEFT, *far)
            going.append(np.stack([way[i] / time if i in way else rest[i].numpy() for i in pieces]))
        odds = np.exp(np.array(logs) - max(logs))
        velocity.append(np.einsum("h,hnd->nd", odds / odds.sum(), np.stack(going)))
    return torch.from_numpy(np.concatenate(velocity))


def several(complementary: bool) -> tuple[Arrangements, SE3, Tensor, Tensor]:
    """Puzzles of 3, 1, 2, 4 and 2 pieces; one is late, so that the least time counts, one is far off; some arrangements
    do not hold, and of the last puzzle none does.
    """
    arrangements = arrangements_of([3, 1, 2, 4, 2], 3, complementary=complementary)
    holds = torch.tensor([[True, False, True], [False] * 3, [False, False, True], [True] * 3, [False] * 3])
    spread = torch.tensor([0.5, 0.5, 30, 1, 0.5, 0.5, 1, 1, 0.2, 0.3, 1, 1]).double()[:, None]
    poses = SE3(haar_rotations(12), spread * drawn(12, 3))
    tau = torch.tensor([0.3, 0.6, 0.995, 0.2, 0.5]).double()
    return replace(arrangements, valid=holds), poses, tau, drawn(12, 6, seed=3)


@of_both_kinds
@pytest.mark.parametrize("left", [(), ((1, 0), (7, 0), (7, 1), (9, 1), (6, 2))])
@torch.no_grad()
def test_a_velocity_is_the_mean_by_a_loop_over_all_arrangements_and_the_rest(complementary, left):
    """Where all pieces are placed, and where some are not."""
    path, (arrangements, poses, tau, rest) = path_of(complementary=complementary), several(complementary)
    arrangements = leaving(arrangements, *left)
    for boldness in (1.0, 0.9, 1.5, 16.0, 1e6):
        found = path(arrangements, poses, tau, rest, boldness)
        assert_near_and_nonzero(found, mixed_by_loop(path, arrangements, poses, tau, rest, boldness), 1e-8)
        assert_near_and_nonzero(found[[3, 10, 11]], rest[[3, 10, 11]], 1e-12)  # a piece alone; and no arrangement holds
        assert (found - rest)[[0, 2, 4, 5, 8]].abs().amax(1).min() > 1e-3
    assert torch.equal(path(arrangements, poses, tau, rest), path(arrangements, poses, tau, rest, 1.0))


@of_both_kinds
@torch.no_grad()
def test_a_puzzle_does_not_see_its_batch_companions(complementary):
    """Of 2, 5, 1 and 3 pieces in 5, 2, 1 and 3 arrangements, some of which leave pieces."""
    path, counts = path_of(complementary=complementary), [2, 5, 1, 3]
    each = [
        arrangements_of([n], h, complementary=complementary, seed=n) for n, h in zip(counts, (5, 2, 1, 3), strict=True)
    ]
    each[1] = leaving(each[1], (3, 0))
    each[2] = replace(leaving(each[2], (0, 0)), valid=torch.tensor([[False]]))
    poses, tau, rest = random_se3(11, 3, spread=0.7), torch.tensor([0.1, 0.5, 0.3, 0.99]).double(), drawn(11, 6, seed=3)
    for boldness in (1.0, 3.0):
        together = path(Arrangements.cat(each), poses, tau, rest, boldness)
        parts = zip(each, [slice(0, 2), slice(2, 7), slice(7, 8), slice(8, 11)], tau.split(1), strict=True)
        alone = [path(one, poses[rows], at, rest[rows], boldness) for one, rows, at in parts]
        assert_near_and_nonzero(together, torch.cat(alone), 1e-12)


@of_both_kinds
def test_what_does_not_hold_has_no_weight_at_all(complementary):
    """Neither where it is all that a puzzle has, nor does it teach anything."""
    path, (arrangements, poses, tau, rest) = path_of(complementary=complementary), several(complementary)
    other = arrangements_of([3, 1, 2, 4, 2], 3, complementary=complementary, seed=9)
    puzzle = torch.tensor([0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 4])
    of_pieces, of_pairs = arrangements.valid[puzzle], arrangements.valid[puzzle[arrangements.first]]
    changed = replace(
        arrangements,
        poses=arrangements.poses.where(of_pieces, SE3(other.poses.rotation, 1e3 * other.poses.translation)),
        features=torch.where(of_pairs[..., None], arrangements.features, 1e3 * other.features),
        is_joint=torch.where(of_pairs, arrangements.is_joint, ~arrangements.is_joint),
        placed=torch.where(of_pieces, arrangements.placed, drawn(12, 3) > 0),
    )
    for boldness in (1.0, 1.01):
        found, expected = (path(one, poses, tau, rest, boldness) for one in (changed, arrangements))
        assert_near_and_nonzero(found, expected, 1e-12)
        slopes = [
            torch.autograd.grad((v * drawn(12, 6, seed=1)).sum(), tuple(path.parameters())) for v in (found, expected)
        ]
        for one, expected_one in zip(*slopes, strict=True):
            assert_near_and_nonzero(one, expected_one, 1e-11)


@of_both_kinds
@torch.no_grad()
def test_pieces_that_are_not_placed_go_with_the_rest_and_where_they_would_be_does_not_matter(complementary):
    path, poses, tau, rest = (
        path_of(complementary=complementary),
        random_se3(7, spread=0.7),
        torch.tensor([0.3, 0.6]).double(),
        drawn(7, 6),
    )
    arrangements = leaving(arrangements_of([4, 3], 2, complementary=complementary), (1, 0), (1, 1), (6, 1))
    expected = path(arrangements, poses, tau, rest)
    assert_near_and_nonzero(expected[1], rest[1], 1e-12)
    assert (expected - rest)[[0, 2, 3, 4, 5, 6]].abs().amax(1).min() > 1e-3
    anywhere = random_se3(14, 8, spread=50.0).reshape(7, 2)
    together = arrangements.both_placed[..., None]
    moved = replace(
        arrangements,
        poses=arrangements.poses.where(arrangements.placed, anywhere),
        features=torch.where(together, arrangements.features, 30.0),
    )
    assert_near_and_nonzero(path(moved, poses, tau, rest), expected, 1e-12)


@of_both_kinds
@torch.no_grad()
def test_two_pieces_go_as_they_did_when_there_were_only_pairs(complementary):
    """Half of the way each; the weight of a motion is that of what speaks for it and of how far it is."""
    puzzle, path = planted(2, 6), path_of(complementary=complementary)
    evidence = drawn(1, 6, num_features(complementary))
    holds = torch.tensor([[True, True, False, True, True, False]])
    motions = replace(puzzle.motions, features=evidence, valid=holds)
    arrangements = arrange(motions, puzzle.centers, path.pair_scores)
    for seed, tau, boldness in ((0, 0.2, 1.0), (1, 0.7, 1.0), (2, 0.99, 2.5), (3, 0.0, 0.8)):
        poses, rest = random_se3(2, 20 + seed, spread=3.0), drawn(2, 6, seed=seed)
        here, there = poses.matrix().numpy()
        logs, going = [boldness * float(path.none)], [rest.numpy()]
        for k in holds[0].nonzero()[:, 0].tolist():
            motion = motions.T_second_first[0, k].matrix().numpy()
            turn, move, *far = pairwise(motion, here, there, puzzle.centers.numpy())
            logs.append(boldness * judged(path, evidence[0, k], tuple(far)) + (boldness - 1) * ALL_OTHERS)
            way = np.concatenate([turn, move]) / max(1 - tau, MIN_TIME_LEFT, *far)
            going.append(np.stack([way, -way]))
        odds = np.exp(np.array(logs) - max(logs))
        expected = np.einsum("k,knd->nd", odds / odds.sum(), np.stack(going))
        found = path(arrangements, poses, torch.tensor([tau], dtype=torch.float64), rest, boldness)
        assert_near_and_nonzero(found, torch.from_numpy(expected), 1e-9)


@of_both_kinds
@torch.no_grad()
def test_pieces_are_judged_as_if_they_were_where_they_are_wanted(complementary):
    """And those beside each other by a judge of their own, where places fit; else by the same one."""
    path, evidence = path_of(complementary=complementary), drawn(5, 2, num_features(complementary))
    for q, h in itertools.product(range(5), range(2)):
        joined = judged(path, evidence[q, h])
        beside = float(path.beside(evidence[q, h])) if complementary else joined
        assert float(path.pair_scores.joint(evidence)[q, h]) == pytest.approx(joined)
        assert float(path.pair_scores.neighbor(evidence)[q, h]) == pytest.approx(beside)
    assert (path.beside is not None) == complementary


@of_both_kinds
def test_the_velocity_teaches_all_that_weighs_but_not_through_what_was_proposed(complementary):
    path, (arrangements, poses, tau, rest) = path_of(complementary=complementary), several(complementary)
    rest = rest.requires_grad_()
    wanted = arrangements.poses.translation.requires_grad_()
    out = path(arrangements, poses, tau, rest)
    slopes = torch.autograd.grad((out * drawn(12, 6)).sum(), [*path.parameters(), rest], retain_graph=True)
    assert all(slope.abs().max() > 1e-8 for slope in slopes)
    (through,) = torch.autograd.grad(out.sum(), wanted, allow_unused=True)
    assert through is None


# -- how fast ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 4])
@torch.no_grad()
def test_a_field_of_one_arrangement_leads_to_it(count):
    """In 200 steps of Euler, from noise as it comes; what is left is what the least time leaves."""
    path, arrangements, poses = path_of(-50.0), arrangements_of([count], 1), random_se3(count, 4, spread=0.7)
    rest, steps = drawn(count, 6), 200
    for step in range(steps):
        velocity = path(arrangements, poses, torch.tensor([step / steps]).double(), rest)
        poses = moved_on(poses, velocity, arrangements.centers, 1 / steps)
    found = (poses[1:] @ arrangements.poses[1:, 0].inverse()).matrix()
    expected = (poses[:1] @ arrangements.poses[:1, 0].inverse()).matrix().expand_as(found)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.03)


@pytest.mark.parametrize("tau", [0.0, 0.99, 1.0])
@pytest.mark.parametrize("spread", [1.0, 1e3, 1e7])
@torch.no_grad()
def test_no_two_pieces_are_asked_to_be_faster_than_half_a_turn_and_the_far(tau, spread):
    """50 puzzles of two pieces, each of which goes half of the way."""
    path, arrangements = path_of(-50.0), arrangements_of([2] * 50, 1)
    poses, rest = random_se3(100, 3, spread=spread), torch.zeros(100, 6).double()
    w, u = path(arrangements, poses, torch.full((50,), tau, dtype=torch.float64), rest).split(3, dim=1)
    assert float(w.norm(dim=1).max()) <= math.pi / 2 + 1e-9
    assert float(u.norm(dim=1).max()) <= FAR + 1e-9
    if spread > 1:
        assert float(u.norm(dim=1).min()) == pytest.approx(FAR, rel=1e-6)


@pytest.mark.parametrize("tau", [0.0, 1.0])
@pytest.mark.parametrize("spread", [1.0, 1e7])
@torch.no_grad()
def test_pieces_that_are_far_off_are_not_asked_to_be_much_faster_where_there_are_more(tau, spread):
    """Two of them come nearer by 2 `FAR` at most, so none leaves the middle of all by more than that."""
    path, arrangements = path_of(-50.0), arrangements_of([5] * 20, 1)
    poses, rest = random_se3(100, 3, spread=spread), torch.zeros(100, 6).double()
    w, u = path(arrangements, poses, torch.full((20,), tau, dtype=torch.float64), rest).split(3, dim=1)
    assert float(u.norm(dim=1).max()) <= 2 * FAR
    assert float(w.norm(dim=1).max()) <= 1.5 * math.pi


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(("tau", "left"), [(0.4, 0.6), (0.99, MIN_TIME_LEFT), (1.0, MIN_TIME_LEFT)])
@torch.no_grad()
def test_pieces_that_nearly_fit_take_the_time_that_is_left(count, tau, left):
    path, arrangements = path_of(-50.0), arrangements_of([count], 1)
    poses = arrangements.poses[:, 0] @ SE3.exp(0.003 * drawn(count, 6))
    found = path(arrangements, poses, torch.tensor([tau], dtype=torch.float64), torch.zeros(count, 6).double())
    assert_near_and_nonzero(found, displacements(arrangements, poses)[:, 0] / left, 1e-12)
