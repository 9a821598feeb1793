"""A synchronising field learns how pieces lie to each other, which places belong together and whom to trust (ours)."""

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from support.closeness import assert_near, assert_near_and_nonzero
from support.rigid_motions import random_se3
from support.soft_matches import at_random, drawn
from support.synchronising_fields import field_of, graph_of
from torch import Tensor

from eda import SE3
from eda.nn import synchronisation_loss as total_loss
from eda.nn.synchronisation_loss import (
    CORRECT_ANGLE,
    EVIDENCE_WEIGHT,
    NOBODY,
    arrangement_loss,
    attention_loss,
    trust_loss,
)
from eda.nn.synchronising_field import Arrangement, Attention
from eda.registration.soft_correspondences import SAME_PLACE

COUNTS, SIZES = [4, 2, 1], [3, 2, 4, 3, 2, 3, 2]
SCORES, CENTERS, SOLUTION = at_random(SIZES, COUNTS), drawn(7, 3, seed=8), random_se3(7, 4, spread=0.7)
GRAPH = graph_of(SCORES, centers=CENTERS)
PUZZLE = torch.tensor([0, 0, 0, 0, 1, 1, 2])
TIMES = torch.tensor([0.3, 0.8, 0.5]).double()
NOBODYS = torch.zeros(7, dtype=torch.bool)
LOSSES = (arrangement_loss, trust_loss, total_loss)
OWN = {
    "all": ~NOBODYS,
    "some": torch.tensor([True, False, True, True, True, True, True]),
    "one of a puzzle": torch.tensor([True, True, True, True, False, True, True]),
    "none of a puzzle": torch.tensor([True, True, True, False, False, False, True]),
    "none": NOBODYS,
}
in_all_cases = pytest.mark.parametrize("own", OWN.values(), ids=OWN)


def near(size: float) -> SE3:
    return SE3.exp(size * drawn(7, 6, seed=5)) @ SOLUTION


@cache
@torch.no_grad()
def found() -> Arrangement:
    """Where some field wants the pieces, from poses near the solution."""
    return field_of()(GRAPH, near(0.2), TIMES, drawn(7, 6, seed=3))[0]


def arrangement_of(poses: SE3, padding: float = 7.0) -> Arrangement:
    """Where poses (N,) put the pieces, with whatever stands at the padding, and what a field says near the solution."""
    has = GRAPH.has[..., None]
    rotation = torch.where(has[..., None], poses.rotation[GRAPH.rows], padding)
    center = torch.where(has, poses.act(CENTERS)[GRAPH.rows], padding)
    return replace(found(), rotation=rotation, center=center)


# -- the arrangement ---------------------------------------------------------------------------------------


def expected_arrangement(poses: SE3, own: Tensor) -> float:
    """The mean over puzzles of that over their pairs of pieces, in any order, a piece and itself being right."""
    matrix, true, losses = poses.matrix().numpy(), SOLUTION.matrix().numpy(), []
    centers = [of.act(CENTERS).numpy() for of in (poses, SOLUTION)]
    for pieces in torch.arange(7).split(COUNTS):
        pairs = list(itertools.product([i for i in pieces.tolist() if own[i]], repeat=2))
        total = 0.0
        for i, j in pairs:
            found, right = (of[i, :3, :3].T @ of[j, :3, :3] for of in (matrix, true))
            at = [of[i, :3, :3].T @ (c[j] - c[i]) for of, c in zip((matrix, true), centers, strict=True)]
            total += np.square(found - right).sum() + np.square(at[0] - at[1]).sum()
        losses.append(total / max(len(pairs), 1))
    return float(np.mean(losses))


@in_all_cases
def test_the_loss_of_an_arrangement_is_a_mean_over_pairs_and_then_over_puzzles(own):
    for size, padding in ((0.02, 7.0), (0.3, -1e3)):
        loss = float(arrangement_loss(GRAPH, arrangement_of(near(size), padding), SOLUTION, own))
        assert loss == pytest.approx(expected_arrangement(near(size), own), rel=1e-10)
        assert (loss > 1e-4) == own.any()


def test_the_loss_of_an_arrangement_is_zero_at_the_solution_and_nowhere_else():
    zero = torch.tensor(0.0).double()
    for motion in (random_se3(3, 1, 5.0)[PUZZLE], random_se3(3, 2)[PUZZLE]):
        assert_near(arrangement_loss(GRAPH, arrangement_of(motion @ SOLUTION), SOLUTION), zero, 1e-20)
    one = torch.tensor([False, False, True, False, False, False, False])[:, None]
    shifted = SE3(SOLUTION.rotation, SOLUTION.translation + 0.1 * one)
    for other in (shifted, SE3.exp(0.1 * one * drawn(7, 6)) @ SOLUTION):
        assert arrangement_loss(GRAPH, arrangement_of(other), SOLUTION) > 1e-3


def test_one_piece_that_is_far_away_does_not_outweigh_all_others():
    losses = []
    for far in (1e2, 1e6):
        away = near(0.3)
        away.translation[1] += far
        losses.append(float(arrangement_loss(GRAPH, arrangement_of(away), SOLUTION)))
    assert losses[0] == pytest.approx(losses[1])
    assert losses[1] < 20


def test_the_loss_of_an_arrangement_leads_downhill():
    """As finite differences say; and nowhere where all is right."""

    def loss(rotation: Tensor, center: Tensor) -> Tensor:
        moved = replace(found(), rotation=rotation, center=center)
        return arrangement_loss(GRAPH, moved, SOLUTION, OWN["some"])

    for size in (0.3, 0.0):
        start = arrangement_of(near(size))
        inputs = [of.clone().requires_grad_() for of in (start.rotation, start.center)]
        steepest = max(float(slope.abs().max()) for slope in torch.autograd.grad(loss(*inputs), inputs))
        assert steepest > 1e-2 if size else steepest < 1e-9
        assert not size or torch.autograd.gradcheck(loss, inputs)


# -- which places belong together --------------------------------------------------------------------------


def expected_attention(attention: Attention, solution: SE3, own: Tensor) -> float:
    """Place by place: how likely it lies where it does, by a normal density about each place that it follows."""
    losses, width = [], SAME_PLACE * GRAPH.reach / 2
    for b, s in GRAPH.present.nonzero().tolist():
        where = {}
        for t in {s, *attention.to[b, s].tolist()}:
            piece = int(GRAPH.rows[b, GRAPH.piece[b, t]])
            where[t] = (solution[piece].act(GRAPH.points[b, t]), bool(own[piece]))
        weight = attention.weight[b, s].tolist()
        likely = NOBODY * (1 - sum(weight))
        for t, follows in zip(attention.to[b, s].tolist(), weight, strict=True):
            if where[t][1] and where[s][1]:
                likely += follows * math.exp(-float((where[t][0] - where[s][0]).square().sum()) / (2 * width**2))
        losses.append(-math.log(likely))
    return sum(losses) / len(losses)


def gathered(size: float) -> SE3:
    """A solution in which pieces lie over each other."""
    return SE3(SOLUTION.rotation, size * drawn(7, 3, seed=6))


@in_all_cases
def test_a_place_ought_to_follow_those_that_it_meets_in_the_solution(own):
    attention = found().attention
    for solution in (SOLUTION, gathered(0.2)):
        loss = float(attention_loss(GRAPH, attention, solution, own))
        assert loss == pytest.approx(expected_attention(attention, solution, own), rel=1e-9)
    everything = expected_attention(attention, solution, OWN["all"])
    assert float(attention_loss(GRAPH, attention, solution)) == pytest.approx(everything, rel=1e-9)
    assert everything != pytest.approx(expected_attention(attention, solution, NOBODYS), rel=1e-3)


def test_it_is_best_to_follow_the_right_places_then_nobody_and_worst_to_follow_wrong_ones():
    """At a solution in which the first two pieces are one and the same."""
    points, sizes = torch.cat([drawn(3, 3), drawn(3, 3), 5 + drawn(3, 3)]), [3, 3, 3]
    graph = graph_of(replace(at_random(sizes), points=points))
    solution = SE3.identity(3, dtype=torch.float64)
    to = torch.tensor([3, 4, 5, 0, 1, 2, 0, 1, 2])[None, :, None]
    right = torch.tensor([1.0, 1, 1, 1, 1, 1, 0, 0, 0]).double()[None, :, None]
    wrong = torch.roll(to, 1, dims=1)
    losses = [
        float(attention_loss(graph, Attention(*of), solution))
        for of in ((to, right), (to, 0 * right), (wrong, 0.9 * right), (to, 1 - 0 * right))
    ]
    assert losses[0] < losses[1] < losses[2]
    assert losses[0] < losses[3]
    assert math.isfinite(losses[3])


def test_places_of_pieces_that_do_not_belong_are_taught_to_follow_nobody():
    attention = found().attention
    weight = attention.weight.clone().requires_grad_()
    loss = attention_loss(GRAPH, replace(attention, weight=weight), gathered(0.1), NOBODYS)
    (slope,) = torch.autograd.grad(loss, weight)
    assert (slope[GRAPH.present] > 0).all()


# -- whom to trust -----------------------------------------------------------------------------------------


def expected_trust(arrangement: Arrangement, own: Tensor) -> float:
    """The means over the pairs of all puzzles whose fit is right, and over those where it is wrong."""
    losses = {True: [], False: []}
    for b, i, j in itertools.product(range(3), range(4), range(4)):
        if i == j or not (GRAPH.has[b, i] and GRAPH.has[b, j]):
            continue
        here, there = (int(GRAPH.rows[b, k]) for k in (i, j))
        true = SOLUTION.rotation[there].T @ SOLUTION.rotation[here]
        cosine = (float((arrangement.relative[b, i, j] * true).sum()) - 1) / 2
        right = math.acos(max(-1.0, min(1.0, cosine))) < CORRECT_ANGLE and bool(own[here] and own[there])
        trust = float(arrangement.trust[b, i, j])
        losses[right].append(-math.log(trust if right else 1 - trust))
    return sum(sum(of) / max(len(of), 1) for of in losses.values()) / 2


def halfway() -> Arrangement:
    """Some fits are right, nearly or quite, and others off by more or less."""
    off = torch.tensor([0.0, 0.5, 0.95, 1.05, 2.0]).double()[torch.arange(48).reshape(3, 4, 4) % 5]
    axis = drawn(3, 4, 4, 3, seed=7)
    turn = SE3.exp(torch.cat([CORRECT_ANGLE * off[..., None] * axis / axis.norm(dim=-1, keepdim=True), 0 * axis], -1))
    true = SOLUTION.rotation[GRAPH.rows]
    return replace(found(), relative=turn.rotation @ true.mT[:, None] @ true[:, :, None])


@in_all_cases
def test_pairs_are_trusted_where_their_fit_is_right_and_not_where_it_is_wrong(own):
    arrangement = halfway()
    assert float(trust_loss(GRAPH, arrangement, SOLUTION, own)) == pytest.approx(
        expected_trust(arrangement, own), rel=1e-9
    )
    trust = arrangement.trust.clone().requires_grad_()
    (slope,) = torch.autograd.grad(trust_loss(GRAPH, replace(arrangement, trust=trust), SOLUTION, own), trust)
    pairs = GRAPH.has[:, :, None] & GRAPH.has[:, None, :] & ~torch.eye(4, dtype=torch.bool)
    assert slope[pairs].abs().min() > 1e-4
    assert not slope[~pairs].any()
    assert (slope[pairs] > 0).any()
    assert (slope[pairs] < 0).any() == own.any()


# -- all of it ---------------------------------------------------------------------------------------------


@in_all_cases
def test_the_loss_is_the_sum_of_its_parts(own):
    arrangement = halfway()
    evidence = attention_loss(GRAPH, arrangement.attention, SOLUTION, own) + trust_loss(
        GRAPH, arrangement, SOLUTION, own
    )
    expected = arrangement_loss(GRAPH, arrangement, SOLUTION, own) + EVIDENCE_WEIGHT * evidence
    assert_near_and_nonzero(total_loss(GRAPH, arrangement, SOLUTION, own), expected, 1e-12)


def test_no_loss_depends_on_where_the_whole_or_the_solution_lies():
    for loss in LOSSES:
        arrangement, whole = found(), random_se3(3, 1, 5.0)
        expected = loss(GRAPH, arrangement, SOLUTION)
        rotation = whole.rotation[:, None] @ arrangement.rotation
        moved = replace(arrangement, rotation=rotation, center=whole.reshape(3, 1).act(arrangement.center))
        assert_near_and_nonzero(loss(GRAPH, moved, SOLUTION), expected, 1e-9)
        assert_near_and_nonzero(loss(GRAPH, arrangement, random_se3(3, 2, 5.0)[PUZZLE] @ SOLUTION), expected, 1e-9)


def test_where_pieces_of_other_puzzles_would_belong_does_not_count():
    own = OWN["some"]
    other = SOLUTION.where(own, random_se3(7, 10))
    for loss in LOSSES:
        expected = loss(GRAPH, arrangement_of(near(0.3)), SOLUTION, own)
        elsewhere = arrangement_of(near(0.3).where(own, random_se3(7, 9)))
        # The middle of all pieces, from which places are seen, moves with them.
        assert_near_and_nonzero(loss(GRAPH, elsewhere, SOLUTION, own), expected, 1e-9)
        assert_near_and_nonzero(loss(GRAPH, arrangement_of(near(0.3)), other, own), expected, 1e-9)
