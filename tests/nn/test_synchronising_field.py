"""Correspondences say where pieces are to go, however the whole lies and whatever their frames are (ours)."""

import math
from dataclasses import replace

import pytest
import torch
from scipy.spatial.transform import Rotation
from support.arrangements import moved_on
from support.closeness import assert_near, assert_near_and_nonzero
from support.pair_fits import Poses, relative
from support.rigid_motions import random_se3
from support.soft_matches import at_random, by_hand, drawn, of_both_kinds, unit
from support.synchronising_fields import field_of, graph_of
from torch import nn

from eda import SE3
from eda.lie import so3
from eda.nn import synchronising_field as module
from eda.nn.correspondences import MatchScores
from eda.nn.match_graph import LEAST_FIT
from eda.nn.synchronising_field import Arrangement, padded_poses, velocity_to

COUNTS = [3, 2]
CENTERS, POSES, VELOCITY = drawn(5, 3, seed=8), random_se3(5, 2, spread=0.7), drawn(5, 6, seed=3)
TIMES = torch.tensor([0.3, 0.8]).double()
HAS = torch.tensor([[True, True, True], [True, True, False]])


def scores_of(seed: int = 0) -> MatchScores:
    return at_random([9, 12, 10, 13, 11], COUNTS, seed=seed)


def poses_in(arrangement: Arrangement) -> Poses:
    return arrangement.rotation, arrangement.center


# -- symmetries --------------------------------------------------------------------------------------------


@of_both_kinds
@pytest.mark.parametrize("together", [True, False])
@torch.no_grad()
def test_arrangements_turn_with_the_whole_and_do_not_see_where_it_is(complementary, together):
    field, graph, whole = field_of(complementary), graph_of(scores_of(), complementary), random_se3(1, 5, spread=4.0)
    expected = field(graph, POSES, TIMES, VELOCITY, together=together)
    moved = SE3(whole.rotation.expand(5, 3, 3), whole.translation.expand(5, 3)) @ POSES
    turned = (VELOCITY.unflatten(1, (2, 3)) @ whole.rotation[0].T).flatten(1)
    found = field(graph, moved, TIMES, turned, together=together)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert_near_and_nonzero(one.rotation[HAS], whole.rotation @ other.rotation[HAS], 1e-8)
        assert_near_and_nonzero(one.center[HAS], other.center[HAS] @ whole.rotation[0].T, 1e-8)


@of_both_kinds
@torch.no_grad()
def test_arrangements_do_not_see_the_frames_of_pieces(complementary):
    field, scores, frames = field_of(complementary), scores_of(), random_se3(5, 6, spread=3.0)
    each = frames[torch.arange(5).repeat_interleave(scores.sizes)]
    normals = (each.rotation @ scores.normals[..., None]).squeeze(-1)
    moved = graph_of(
        replace(scores, points=each.act(scores.points), normals=normals), complementary, frames.act(CENTERS)
    )
    found = field(moved, POSES @ frames.inverse(), TIMES, VELOCITY)
    expected = field(graph_of(scores, complementary), POSES, TIMES, VELOCITY)
    back = frames.rotation.mT[moved.rows][HAS]
    for one, other in zip(found, expected, strict=True):
        assert_near_and_nonzero(one.rotation[HAS], other.rotation[HAS] @ back, 1e-7)
        assert_near_and_nonzero(one.center[HAS], other.center[HAS], 1e-7)


@pytest.mark.parametrize("oriented", [True, False])
@torch.no_grad()
def test_the_signs_of_normals_mean_something_only_where_they_are_known(oriented):
    field, scores = field_of(oriented), scores_of()
    flipped = replace(scores, normals=scores.normals * drawn(len(scores.points), 1, seed=9).sign())
    found, expected, bare = (
        field(graph_of(of, complementary=False), POSES, TIMES, VELOCITY)[-1].center[HAS]
        for of in (flipped, scores, replace(scores, normals=None))
    )
    assert ((found - expected).abs().max() < 1e-10) != oriented
    assert (bare - expected).abs().max() > 1e-4


@torch.no_grad()
def test_every_round_begins_where_the_last_one_ended_and_alone_there_is_one():
    field, graph = field_of(), graph_of(scores_of())
    rounds, (one,) = (field(graph, POSES, TIMES, VELOCITY, together=together) for together in (True, False))
    assert len(rounds) == module.ROUNDS
    for before, after in zip(rounds, [*rounds[1:], one], strict=True):
        assert (before.center - after.center)[HAS].abs().max() > 1e-3


@of_both_kinds
@pytest.mark.parametrize("sizes", [[9, 12, 10, 13, 11], [2, 3, 1, 2, 2]])
@torch.no_grad()
def test_a_round_says_what_it_goes_by(complementary, sizes):
    """Places follow those of other pieces, at most one in all; trust is mutual and for pieces that are there."""
    graph = graph_of(at_random(sizes, COUNTS), complementary)
    both = HAS[:, :, None] & HAS[:, None, :] & ~torch.eye(3, dtype=torch.bool)
    for arrangement in field_of(complementary)(graph, POSES, TIMES, VELOCITY):
        to, weight, trust = arrangement.attention.to, arrangement.attention.weight, arrangement.trust
        of, there = (each[torch.arange(2)[:, None, None], to] for each in (graph.piece, graph.present))
        assert not weight[(of == graph.piece[..., None]) | ~there | ~graph.present[..., None]].any()
        assert (weight >= 0).all()
        assert (weight.sum(-1) < 1).all()
        assert weight.sum() > 0.1
        assert_near_and_nonzero(trust, trust.mT, 1e-12)
        assert torch.equal(trust > 0, both)
        assert trust.max() < 1
        back = arrangement.relative.transpose(1, 2).mT
        assert_near_and_nonzero(arrangement.relative[both], back[both], 1e-9)


# -- what is trusted ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [True, False])
@torch.no_grad()
def test_where_no_pair_is_trusted_pieces_go_where_the_rest_of_the_network_brings_them(together):
    """In the time that is left, each about its own centre."""
    field, graph = field_of(), graph_of(scores_of())
    nn.init.constant_(field.pair[-1].bias, -1e4)
    left = (1 - TIMES)[torch.tensor([0, 0, 0, 1, 1])][:, None]
    goal = moved_on(POSES, left * VELOCITY, CENTERS, 1.0)
    places, begun = goal.act(CENTERS), POSES.act(CENTERS)
    middle = torch.stack([of.mean(0) for of in begun.split(COUNTS)])[torch.tensor([0, 0, 0, 1, 1])]
    for arrangement in field(graph, POSES, TIMES, VELOCITY, together=together):
        assert_near_and_nonzero(arrangement.rotation[HAS], goal.rotation, 1e-9)
        assert_near_and_nonzero(arrangement.center[HAS], places - middle, 1e-9)


def sure(count: int, seed: int = 0) -> tuple[MatchScores, SE3]:
    """Pieces of nine places, each of which has one true counterpart, and where all of them come together."""
    solution, middle = random_se3(count, seed, spread=0.7), drawn(9, 3, seed=seed + 1)
    places = [solution[i].inverse().act(middle) for i in range(count)]
    scores = [40 * torch.eye(9).double() for i in range(count) for _ in range(i)]
    facing = [unit(drawn(9, 3, seed=seed + 2)) @ solution.rotation[i] for i in range(count)]
    return by_hand(places, scores, normals=facing), solution


@pytest.mark.parametrize("count", [2, 4])
@torch.no_grad()
def test_sure_correspondences_bring_pieces_from_anywhere_to_where_they_belong(count):
    """Of networks that go by the matching alone, trust every pair, and hold on to no goal."""
    (scores, solution), field, poses = sure(count), field_of(), random_se3(count, 7, spread=2.0)
    for part, bias in ((field.edge, 0.0), (field.nobody, -50.0), (field.pair, 50.0)):
        nn.init.zeros_(part[-1].weight)
        nn.init.constant_(part[-1].bias, bias)
    nn.init.constant_(field.hold, -12.0)
    centers = torch.stack([of.mean(0) for of in scores.points.split(9)])
    graph = graph_of(scores, False, centers)
    rounds = field(graph, poses, TIMES[:1], torch.zeros(count, 6).double())
    wanted = relative((solution.rotation[None], solution.act(centers)[None]))
    for found, expected in zip(relative(poses_in(rounds[-1])), wanted, strict=True):
        assert_near(found, expected, 0.15)
    begun = relative((poses.rotation[None], poses.act(centers)[None]))
    assert (begun[0] - wanted[0]).abs().max() > 0.5


# -- velocities --------------------------------------------------------------------------------------------


@torch.no_grad()
def arrangement_at(seed: int) -> tuple[Arrangement, SE3]:
    """With whatever stands at the padding; and its poses."""
    poses, graph = random_se3(5, seed, spread=2.0), graph_of(scores_of())
    rotation, center = poses.rotation[graph.rows], poses.act(CENTERS)[graph.rows]
    some = field_of()(graph, POSES, TIMES, VELOCITY)[-1]
    return replace(some, rotation=rotation, center=torch.where(HAS[..., None], center, 7.0)), poses


@torch.no_grad()
def test_a_velocity_leads_to_the_arrangement_in_the_time_that_is_left_at_once_and_step_by_step():
    """Up to a motion of every puzzle, whose middle stays."""
    graph, (arrangement, wanted), walked, steps = graph_of(scores_of()), arrangement_at(20), POSES, 8
    left = (1 - TIMES)[torch.tensor([0, 0, 0, 1, 1])][:, None]
    at_once = moved_on(POSES, left * velocity_to(graph, arrangement, POSES, TIMES), CENTERS, 1.0)
    for step in range(steps):
        velocity = velocity_to(graph, arrangement, walked, TIMES + step / steps * (1 - TIMES))
        walked = moved_on(walked, left * velocity, CENTERS, 1 / steps)
    for end in (at_once, walked):
        whole = end @ wanted.inverse()
        for part in whole.matrix().split(COUNTS):
            assert_near_and_nonzero(part, part[:1].expand_as(part), 1e-8)
        for now, before in zip(end.act(CENTERS).split(COUNTS), POSES.act(CENTERS).split(COUNTS), strict=True):
            assert_near_and_nonzero(now.mean(0), before.mean(0), 1e-9)


@torch.no_grad()
def test_the_whole_is_turned_so_that_the_arrangement_lies_nearest_to_where_the_pieces_are():
    """Turns as matrices, and places about the middle; scipy aligns the columns of all of them."""
    graph, (arrangement, _) = graph_of(scores_of()), arrangement_at(20)
    velocity = velocity_to(graph, arrangement, POSES, TIMES) * (1 - TIMES)[torch.tensor([0, 0, 0, 1, 1])][:, None]
    end = moved_on(POSES, velocity, CENTERS, 1.0)
    for b, part in enumerate(torch.arange(5).split(COUNTS)):
        now, then = POSES[part], (arrangement.rotation[b][: len(part)], arrangement.center[b][: len(part)])
        at = now.act(CENTERS[part])
        columns = [torch.cat([turn.mT.reshape(-1, 3), places - places.mean(0)]).numpy() for turn, places in (
            (now.rotation, at), then)]  # fmt: skip
        turn = torch.from_numpy(Rotation.align_vectors(*columns)[0].as_matrix())
        assert_near_and_nonzero(end.rotation[part], turn @ then[0], 1e-8)


@torch.no_grad()
def test_a_velocity_is_zero_where_the_pieces_are_arranged_already_and_stays_finite_in_the_end():
    graph, (arrangement, wanted), whole = graph_of(scores_of()), arrangement_at(20), random_se3(1, 5, spread=3.0)
    moved = SE3(whole.rotation.expand(5, 3, 3), whole.translation.expand(5, 3)) @ wanted
    assert_near(velocity_to(graph, arrangement, moved, TIMES), torch.zeros(5, 6).double(), 1e-6)
    late, last = (velocity_to(graph, arrangement, POSES, torch.full((2,), tau).double()) for tau in (0.999999, 1.0))
    assert_near_and_nonzero(last, late, 1e-12)
    least = 1 - module.MIN_TIME_LEFT
    assert_near_and_nonzero(last, velocity_to(graph, arrangement, POSES, torch.full((2,), least).double()), 1e-9)
    assert float(last[:, :3].norm(dim=1).max()) <= math.pi / module.MIN_TIME_LEFT + 1e-6


# -- gradients ---------------------------------------------------------------------------------------------


def hopeless() -> MatchScores:
    """Nothing has a counterpart."""
    scores = at_random([5, 4, 3, 4, 2], COUNTS)
    return replace(scores, shared=torch.full_like(scores.shared, -50.0))


CASES = {
    "single places": lambda: at_random([1, 1, 1, 1, 1], COUNTS),
    "a piece alone beside others": lambda: at_random([3, 3, 2, 4, 3], [4, 1]),
    "no correspondences": hopeless,
    "places that lie on each other": lambda: by_hand(
        [drawn(4, 3)] * 5, 4 * [drawn(4, 4)], COUNTS, normals=[unit(drawn(4, 3))] * 5
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("together", [True, False])
def test_gradients_are_finite_where_correspondences_say_little(case, dtype, together):
    scores, poses = CASES[case](), POSES
    if case == "places that lie on each other":
        poses = SE3.identity(5, dtype=torch.float64)
    table = scores.scores.to(dtype).requires_grad_()
    names = ("points", "normals", "shared")
    scores = replace(scores, scores=table, **{name: getattr(scores, name).to(dtype) for name in names})
    field, graph = field_of().to(dtype), graph_of(scores, centers=CENTERS.to(dtype))
    assert case != "no correspondences" or (graph.fit == LEAST_FIT).all()
    rounds = field(graph, poses.to(dtype), TIMES.to(dtype), VELOCITY.to(dtype), together=together)
    value = sum((of * drawn(*of.shape).to(dtype)).sum() for one in rounds for of in poses_in(one))
    weights = [table, *field.parameters()]
    for slope in torch.autograd.grad(value, weights, allow_unused=True):
        assert slope is None or (slope.isfinite().all() and slope.abs().max() < 1e5)
    assert all(of.isfinite().all() for one in rounds for of in poses_in(one))
    assert velocity_to(graph, rounds[-1], poses.to(dtype), TIMES.to(dtype)).isfinite().all()


@of_both_kinds
def test_the_last_arrangement_teaches_all_that_weighs_and_the_matching(complementary):
    scores, field = scores_of(), field_of(complementary)
    table = scores.scores.requires_grad_()
    last = field(graph_of(replace(scores, scores=table), complementary), POSES, TIMES, VELOCITY)[-1]
    value = (last.center * drawn(*last.center.shape)).sum() + (last.rotation * drawn(*last.rotation.shape)).sum()
    names, weights = zip(("matching", table), *field.named_parameters(), strict=True)
    slopes = torch.autograd.grad(value, weights)
    assert [name for name, slope in zip(names, slopes, strict=True) if not slope.abs().max() > 1e-9] == []


@torch.no_grad()
def test_pieces_are_where_their_poses_put_them_about_the_middle_of_the_puzzle():
    rotation, center = padded_poses(graph_of(scores_of()), POSES)
    assert torch.equal(rotation[HAS], POSES.rotation)
    places = POSES.act(CENTERS).split(COUNTS)
    assert_near_and_nonzero(center[HAS], torch.cat([of - of.mean(0) for of in places]), 1e-12)
    assert so3.angle(rotation).isfinite().all()
