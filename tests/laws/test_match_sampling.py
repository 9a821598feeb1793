"""Samples of a network that matches places are as bold as is set, and each is what it would be alone (ours)."""

import math

import pytest
import torch
from support.closeness import assert_near_and_nonzero
from support.lumpy_shapes import lumpy_puzzle, seeded
from support.matching_networks import COMPLEMENTARY, known, ragged
from support.rigid_motions import random_se3
from support.soft_matches import model_of, of_both_kinds, puzzle_of, times_of

from eda import Eda, Pieces

# -- boldness ----------------------------------------------------------------------------------------------


@torch.no_grad()
def bold(boldness: float, by_weight: bool = False, **settings: object) -> Eda:
    """By its setting or, which is the same, by the weights of what judges joints and what lies beside them."""
    model = model_of(1.0 if by_weight else boldness, **settings)
    if by_weight:
        path = model.network.motions
        beside = path.beside[-1].parameters() if path.beside else ()
        for weight in (*path.judge[-1].parameters(), *beside, path.none):
            weight *= boldness
        path.judge[-1].bias += (boldness - 1) * 3 * math.log(120)
    return model


@pytest.mark.parametrize(
    ("sizes", "settings"), [([60, 71], {}), ([60, 71], {"free_network": True}), ([60, 71, 48, 40], COMPLEMENTARY)]
)
@torch.no_grad()
def test_samples_are_drawn_as_boldly_as_is_set(sizes, settings):
    pieces, noise = puzzle_of(sizes), random_se3(2 * len(sizes), spread=0.7).reshape(2, -1)
    found = [
        bold(*how, **settings).sample(pieces, 2, noise=noise, steps=2, solver="rk1").matrix()
        for how in ((0.8,), (1.2,), (1.2, True), (100.0,), (100.0, True))
    ]
    assert_near_and_nonzero(found[1], found[2], 1e-8)
    assert_near_and_nonzero(found[3], found[4], 1e-6)
    for one, other in ((0, 1), (0, 3)):
        assert (found[one] - found[other]).abs().amax((2, 3)).min() > 1e-5


@torch.no_grad()
def test_velocity_and_loss_are_not_bold():
    """They are what is learned; a field is, unless it is asked for more."""
    timid, brave = bold(1.0, **COMPLEMENTARY), bold(30.0, **COMPLEMENTARY)
    _, pieces, poses, _ = known("complementary")
    tau = times_of(pieces)
    velocity = brave.velocity(pieces, poses, tau)
    assert torch.equal(velocity, timid.velocity(pieces, poses, tau))
    assert torch.equal(velocity, brave.field(pieces)(poses, tau))
    assert torch.equal(velocity, timid.field(pieces, boldness=1.0)(poses, tau))
    assert (velocity - timid.field(pieces, boldness=30.0)(poses, tau)).abs().amax(1).min() > 1e-5
    losses = [model.loss(lumpy_puzzle(3, 48), generator=seeded()).total for model in (timid, brave)]
    assert torch.equal(*losses)


# -- several samples, few pieces ---------------------------------------------------------------------------


def test_samples_at_any_times_are_those_of_one_at_a_time():
    """One field, called at equal times, at other equal ones, at different ones, and at the first again."""
    model, pieces = model_of(**COMPLEMENTARY), Pieces.collate(ragged()[:2])
    field, N = model.field(pieces, samples=3), pieces.num_pieces
    poses, together = random_se3(3 * N, spread=0.7), times_of(pieces).repeat(3, 1)
    apart = torch.rand(3, 2, generator=seeded(), dtype=torch.float64)
    for tau in (together, 1 - together, apart, together):
        with torch.no_grad():
            found = field(poses, tau.flatten()).reshape(3, N, 6)
            for k in range(3):
                assert_near_and_nonzero(found[k], model.velocity(pieces, poses[k * N : (k + 1) * N], tau[k]), 1e-9)


def test_assemblies_of_one_call_are_those_of_one_at_a_time():
    model, pieces = model_of(5.0), puzzle_of([60, 71, 48])
    noise = random_se3(9, spread=0.7).reshape(3, 3)
    together = model.sample(pieces, 3, noise=noise, steps=2).matrix()
    for k in range(3):
        assert_near_and_nonzero(together[k], model.sample(pieces, noise=noise[k : k + 1], steps=2).matrix()[0], 1e-7)


@of_both_kinds
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_three_pieces_are_sampled_to_finite_poses(complementary, dtype):
    model, pieces = model_of(8.0, complementary=complementary).to(dtype), puzzle_of([60, 71, 48]).to(dtype=dtype)
    found = model.sample(pieces, 2, steps=3, generator=seeded())
    assert found.shape == (2, 3)
    assert found.rotation.dtype == dtype
    assert found.isfinite()
    turns = found.rotation @ found.rotation.mT
    torch.testing.assert_close(turns, torch.eye(3, dtype=dtype).expand_as(turns), rtol=0, atol=1e-5)


@pytest.mark.parametrize("count", [2, 3])
def test_pins_may_leave_one_piece_or_two(count):
    model, pieces, pins = model_of(), puzzle_of([60, 50, 55][:count]), random_se3(2, spread=0.7)
    found = model.sample(pieces, 2, pins={0: pins[0], 1: pins[1]}, steps=2, generator=seeded())
    assert_near_and_nonzero(found[1, :2].matrix(), pins.matrix())
    assert found.isfinite()
