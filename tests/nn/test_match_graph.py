"""Correspondences support each other where lengths and normals agree on both of their pieces (ours)."""

import itertools
import math
from dataclasses import fields, replace

import pytest
import torch
from support.closeness import assert_near, assert_near_and_nonzero
from support.oracles import haar_rotations
from support.rigid_motions import random_se3
from support.soft_matches import at_random, by_hand, drawn, of_both_kinds, unit
from support.synchronising_fields import graph_of
from torch import Tensor

from eda import SE3
from eda.graph import Across
from eda.nn import match_graph as module
from eda.nn.correspondences import MatchScores
from eda.nn.match_graph import MatchGraph

SIZES, COUNTS = [4, 6, 5, 7, 4], [3, 2]
CENTERS = drawn(5, 3, seed=8)


def puzzles(scores: MatchScores) -> list[list[tuple[int, int]]]:
    """Every place of every puzzle, with its piece."""
    owner = [piece for piece, size in enumerate(scores.sizes.tolist()) for _ in range(size)]
    ends = [0, *itertools.accumulate(scores.counts.tolist())]
    places = list(enumerate(owner))
    return [[(place, of) for place, of in places if a <= of < b] for a, b in itertools.pairwise(ends)]


def certainty(scores: MatchScores, b: int) -> dict[tuple[int, int], float]:
    """The logarithm of how surely two places of a puzzle correspond, one by one."""
    places = puzzles(scores)[b]
    score = {
        (x, y): float(scores.scores[b, i, j]) for i, (x, _) in enumerate(places) for j, (y, _) in enumerate(places)
    }

    def chosen(x: int, y: int, of_x: int) -> float:
        others = [math.exp(score[x, z]) for z, of_z in places if of_z != of_x]
        return score[x, y] - math.log(sum(others)) - math.log1p(math.exp(-float(scores.shared[x])))

    return {
        (x, y): chosen(x, y, of_x) + chosen(y, x, of_y) for (x, of_x), (y, of_y) in itertools.product(places, places)
        if of_x != of_y
    }  # fmt: skip


# -- places and candidates ---------------------------------------------------------------------------------


def which(scores: MatchScores, graph: MatchGraph, b: int) -> list[int]:
    """The places of a puzzle that are in its graph."""
    at = (scores.points[:, None] == graph.points[b][graph.present[b]]).all(-1)
    return at.int().argmax(0).tolist()


@pytest.mark.parametrize(("least", "each", "most"), [(6, 3, 8), (4, 2, 50), (100, 100, 100)])
def test_a_graph_has_the_places_that_most_surely_have_a_counterpart(monkeypatch, least, each, most):
    """So many of every puzzle, by the number of its pieces."""
    for name, value in (("PLACES", least), ("PLACES_PER_PIECE", each), ("MOST_PLACES", most)):
        monkeypatch.setattr(module, name, value)
    scores = at_random([*SIZES, 2, 2], [3, 2, 2], columns=19)
    graph = graph_of(scores, centers=drawn(7, 3, seed=8))
    first = [0, 0, 0, 3, 3, 5, 5]
    for b, places in enumerate(puzzles(scores)):
        sure, owner = certainty(scores, b), dict(places)
        best = sorted(owner, key=lambda x: -max(value for (y, _), value in sure.items() if y == x))
        found = which(scores, graph, b)
        assert found == sorted(best[: max(least, min(each * [3, 2, 2][b], most))])
        holds = graph.present[b]
        assert_near(graph.piece[b][holds], torch.tensor([owner[x] - first[owner[x]] for x in found]), 0)
        assert_near_and_nonzero(graph.normals[b][holds], scores.normals[found], 0)
        assert_near_and_nonzero(graph.shared[b][holds], torch.sigmoid(scores.shared[found]), 1e-12)
        assert not graph.shared[b][~holds].any()
        expected = torch.tensor([[max(sure.get((x, y), -99), module.LEAST_FIT) for y in found] for x in found])
        assert_near_and_nonzero(graph.fit[b][holds][:, holds], expected.double(), 1e-5)
        assert (graph.fit[b][~holds] == module.LEAST_FIT).all()


def test_a_graph_knows_its_pieces():
    graph = graph_of(at_random(SIZES, COUNTS))
    assert graph.has.tolist() == [[True, True, True], [True, True, False]]
    assert graph.rows[graph.has].tolist() == [0, 1, 2, 3, 4]
    assert torch.equal(graph.centers[graph.has], CENTERS)
    assert torch.equal(graph.of_places(graph.centers)[graph.present], CENTERS[graph.rows].gather(
        1, graph.piece[..., None].expand(-1, -1, 3))[graph.present])  # fmt: skip


def test_what_is_less_likely_than_anything_that_counts_is_as_likely_as_that():
    scores = at_random([4, 4])
    table = scores.scores.clone()
    table[0, 0, 4] = table[0, 4, 0] = -50.0
    fit = graph_of(replace(scores, scores=table), centers=CENTERS[:2]).fit[0]
    assert fit[0, 4] == fit[4, 0] == fit.min() == module.LEAST_FIT
    assert torch.equal(fit, fit.T)


def test_candidates_are_the_places_of_other_pieces_that_fit_best_the_best_first():
    graph = graph_of(at_random([9, 12, 10, 13, 11], COUNTS))
    assert graph.mates.shape[2] > 3
    for b, s in graph.present.nonzero().tolist():
        others = (graph.present[b] & (graph.piece[b] != graph.piece[b, s])).nonzero()[:, 0].tolist()
        best = sorted(others, key=lambda t: -float(graph.fit[b, s, t]))
        assert graph.mates[b, s].tolist() == best[: graph.mates.shape[2]]


# -- votes -------------------------------------------------------------------------------------------------


def lies(graph: MatchGraph, b: int, s: int, t: int) -> tuple[float, ...]:
    """How two places of a piece lie: how far apart, the cosine of their normals, and by how much each rises above the
    tangent plane of the other, per length and half the reach.
    """
    x, y = graph.points[b, s], graph.points[b, t]
    length = float((y - x).norm())
    if graph.normals is None:
        return (length,)
    n, m = graph.normals[b, s], graph.normals[b, t]
    unit = length + graph.reach / 2
    return length, float(n.dot(m)), float(n.dot(y - x)) / unit, float(m.dot(x - y)) / unit


def agreement(graph: MatchGraph, b: int, candidate: tuple[int, int], voter: tuple[int, int], dents: bool) -> float:
    """Of two correspondences: how far apart they are, if they join the same pieces and are alike on both."""
    (s, x), (t, y) = candidate, voter
    if graph.piece[b, s] != graph.piece[b, t] or graph.piece[b, x] != graph.piece[b, y]:
        return 0.0
    here, there = lies(graph, b, s, t), lies(graph, b, x, y)
    off = [(here[0] - there[0]) / (module.LENGTH_TOLERANCE * graph.reach)]
    for number, (mine, theirs) in enumerate(zip(here[1:], there[1:], strict=True)):
        if dents:  # a bump of one is a dent of the other
            off.append((theirs - mine if number == 0 else theirs + mine) / module.NORMAL_TOLERANCE)
        else:
            off.append((theirs**2 - mine**2) / module.NORMAL_TOLERANCE)
    apart = here[0] ** 2 / (here[0] ** 2 + graph.reach**2)
    return apart * math.exp(-sum(value**2 for value in off) / 2)


def votes_of(graph: MatchGraph, b: int, dents: bool) -> Tensor:
    """Of the places of a puzzle that are present, candidate by candidate, round by round."""
    places = graph.present[b].nonzero()[:, 0].tolist()
    mates = {s: graph.mates[b, s].tolist() for s in places}
    fit = {(s, x): float(graph.fit[b, s, x]) for s in places for x in mates[s]}
    voters = [(t, y) for t in places for y in mates[t][: module.NUM_VOTERS]]
    agree = {one: [agreement(graph, b, one, voter, dents) for voter in voters] for one in fit}
    weight, rounds = {one: math.exp(value) for one, value in fit.items()}, []
    for _ in range(module.VOTE_ROUNDS):
        votes = {
            one: sum(a * weight[voter] for a, voter in zip(of, voters, strict=True)) + module.LEAST_VOTE
            for one, of in agree.items()
        }
        rounds.append([[math.log(votes[s, x]) for x in mates[s]] for s in places])
        odds = {one: math.exp(fit[one]) * votes[one] for one in fit}
        weight = {(s, x): odds[s, x] / sum(odds[s, y] for y in mates[s]) * float(graph.shared[b, s]) for s, x in odds}
    return torch.tensor(rounds, dtype=torch.float64).permute(1, 2, 0)


@pytest.mark.parametrize("normals", [True, False])
@of_both_kinds
def test_votes_are_those_of_the_correspondences_that_agree_one_by_one(monkeypatch, complementary, normals):
    """In a wide table, of which much is padding; every place has enough others to choose from."""
    monkeypatch.setattr(module, "NUM_CANDIDATES", 4)
    scores = at_random([4, 5, 3, 4, 5], COUNTS, columns=14)
    graph = graph_of(scores if normals else replace(scores, normals=None), complementary)
    for b in range(2):
        expected = votes_of(graph, b, complementary)
        assert expected.std() > 0.1
        assert_near_and_nonzero(graph.votes[b][graph.present[b]], expected, 1e-5)


def met(sign: float | Tensor, seed: int = 0) -> MatchScores:
    """A piece that fits another at all of its places, in another frame; nobody knows which fits which.

    The normals of the other are those of the first, times the sign.
    """
    places, facing, turn = 0.6 * drawn(7, 3, seed=seed), unit(drawn(7, 3, seed=seed + 1)), haar_rotations(1, seed)[0]
    other = SE3(turn, drawn(3, seed=seed + 2)).act(places)
    return by_hand([places, other], [torch.zeros(7, 7).double()], normals=[facing, sign * facing @ turn.T])


@pytest.mark.parametrize("seed", range(4))
@of_both_kinds
def test_correspondences_that_agree_have_more_votes_than_those_that_do_not(monkeypatch, complementary, seed):
    """Normals of complementary places are opposed, others alike up to their signs. A later round tells more."""
    monkeypatch.setattr(module, "NUM_CANDIDATES", 7)
    monkeypatch.setattr(module, "NUM_VOTERS", 7)
    sign = -1.0 if complementary else torch.tensor([1.0, -1, 1, 1, -1, -1, 1]).double()[:, None]
    graph = graph_of(met(sign, seed), complementary, CENTERS[:2])
    votes = torch.zeros(7, 7, module.VOTE_ROUNDS).double()
    votes = votes.scatter(1, (graph.mates[0, :7] - 7)[..., None].expand(-1, -1, module.VOTE_ROUNDS), graph.votes[0, :7])
    right = torch.eye(7, dtype=torch.bool)
    ahead = votes[right].mean(0) - votes[~right].mean(0)
    assert (votes[right].amin(0) > votes[~right].mean(0)).all()
    assert ahead.diff().min() > 0.1
    assert ahead[0] > 0.3


def test_a_bump_does_not_fit_a_bump():
    """Pieces that show the same have fewer votes where they ought to be complementary."""
    right, wrong = (graph_of(met(sign), True, CENTERS[:2]).votes.amax((1, 2)) for sign in (-1.0, 1.0))
    assert (right > wrong + 0.1).all()


@of_both_kinds
def test_nothing_depends_on_the_frames_of_pieces(complementary):
    scores, frames = at_random(SIZES, COUNTS), random_se3(5, 3, spread=3.0)
    each = frames[torch.arange(5).repeat_interleave(torch.tensor(SIZES))]
    normals = (each.rotation @ scores.normals[..., None]).squeeze(-1)
    moved = replace(scores, points=each.act(scores.points), normals=normals)
    found, expected = graph_of(moved, complementary), graph_of(scores, complementary)
    for name in ("fit", "mates", "piece", "present", "shared"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert_near_and_nonzero(found.votes, expected.votes, 1e-6)


@of_both_kinds
def test_votes_teach_how_surely_places_correspond(complementary):
    scores = at_random(SIZES, COUNTS)
    table = scores.scores.requires_grad_()
    (slope,) = torch.autograd.grad(graph_of(replace(scores, scores=table), complementary).votes.sum(), table)
    assert slope.isfinite().all()
    assert slope.abs().max() > 1e-3


# -- several graphs ----------------------------------------------------------------------------------------


def together(a: MatchScores, b: MatchScores) -> MatchScores:
    """One batch of two of the same width."""
    rows = torch.cat([a.across.rows, b.across.rows + len(a.points)])
    across = Across(rows, *(torch.cat([getattr(of.across, name) for of in (a, b)]) for name in ("present", "foreign")))
    names = ("points", "normals", "sizes", "counts", "shared", "scores")
    return replace(a, across=across, **{name: torch.cat([getattr(a, name), getattr(b, name)]) for name in names})


def test_several_graphs_as_one_are_that_of_all_of_their_puzzles():
    one, other = (at_random(SIZES, COUNTS, seed=seed) for seed in (0, 500))
    found = MatchGraph.cat([graph_of(one), graph_of(other, centers=2 * CENTERS)])
    expected = graph_of(together(one, other), centers=torch.cat([CENTERS, 2 * CENTERS]))
    for of in fields(found):
        assert_near(torch.as_tensor(getattr(found, of.name)), torch.as_tensor(getattr(expected, of.name)), 1e-10)
    bare = [replace(graph_of(of), normals=None) for of in (one, other)]
    assert MatchGraph.cat(bare).normals is None
