"""Eda, the network and the flow together: velocities and losses, and what chance decides."""

import dataclasses

import pytest
import torch
from support.closeness import assert_near
from support.lumpy_shapes import TINY, lumpy_pieces, lumpy_puzzle, seeded, two_puzzles
from support.rigid_motions import random_se3_batch
from support.tiny_models import model_of

from eda import Eda, EdaConfig, NetworkConfig, Pieces, Puzzle
from eda.flow import TAU_SAMPLERS

# -- velocity ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_velocity_is_a_twist_per_piece(dtype):
    pieces = two_puzzles(12, 12).to(dtype=dtype)
    twist = model_of(dtype).velocity(pieces, random_se3_batch(5, dtype=dtype), 0.5)
    assert twist.shape == (5, 6)
    assert twist.dtype == dtype
    assert twist.isfinite().all()
    assert (twist.norm(dim=1) > 0).all()


@pytest.mark.parametrize(
    "tau",
    [
        torch.tensor(0.25),
        torch.tensor([0.25, 0.25]),
        torch.tensor(0.25, dtype=torch.float64),
    ],
    ids=["scalar of another precision", "one per puzzle", "scalar"],
)
def test_tau_may_be_a_number_or_a_tensor(model, tau):
    pieces, poses = two_puzzles(12, 12), random_se3_batch(5)
    assert torch.equal(model.velocity(pieces, poses, tau), model.velocity(pieces, poses, 0.25))


@pytest.mark.parametrize("tau", [0, 1])
def test_the_ends_of_time_may_be_whole_numbers(model, pieces, tau):
    assert torch.equal(
        model.velocity(pieces, random_se3_batch(3), tau), model.velocity(pieces, random_se3_batch(3), float(tau))
    )


def test_every_puzzle_has_its_own_time(model):
    first, second = lumpy_pieces(3, 12), lumpy_pieces(2, 12, seed=1)
    poses, tau = random_se3_batch(5), torch.tensor([0.1, 0.9], dtype=torch.float64)
    both = model.velocity(Pieces.collate([first, second]), poses, tau)
    assert_near(both[:3], model.velocity(first, poses[:3], 0.1), 1e-10)
    assert_near(both[3:], model.velocity(second, poses[3:], 0.9), 1e-10)
    assert (both[3:] - model.velocity(second, poses[3:], 0.1)).abs().max() > 1e-6


@pytest.mark.parametrize("time_in_encoder", [True, False])
def test_velocity_depends_on_tau(pieces, time_in_encoder):
    model, poses = model_of(time_in_encoder=time_in_encoder), random_se3_batch(3)
    assert not torch.allclose(model.velocity(pieces, poses, 0.1), model.velocity(pieces, poses, 0.9))


def test_a_pyramid_serves_as_pieces(model, pieces):
    pyramid, poses = model.pyramid(pieces), random_se3_batch(3)
    assert torch.equal(model.velocity(pyramid, poses, 0.5), model.velocity(pieces, poses, 0.5))


def test_velocity_has_a_gradient(pieces):
    model = model_of()
    model.velocity(pieces, random_se3_batch(3), 0.5).square().sum().backward()
    assert model.network.head.output.weight.grad.norm() > 0


# -- loss --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time_in_encoder", [True, False])
@pytest.mark.parametrize("draws", [1, 3])
def test_the_loss_has_finite_gradients(time_in_encoder, draws):
    model = model_of(time_in_encoder=time_in_encoder)
    puzzle = Puzzle.collate([lumpy_puzzle(3, 12), lumpy_puzzle(2, 12, seed=1)])
    loss = model.loss(puzzle, draws=draws, generator=seeded())
    assert loss.total.shape == loss.rotation.shape == loss.translation.shape == ()
    assert loss.total > 0
    assert_near(loss.total, 2 * loss.rotation + loss.translation, 1e-10)
    loss.total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    assert sum(bool(p.grad.norm() > 0) for p in model.parameters()) > 0.9 * len(list(model.parameters()))


def test_a_step_down_the_gradient_lowers_the_loss():
    model, puzzle = model_of(), lumpy_puzzle(3, 12)
    before = model.loss(puzzle, draws=2, generator=seeded()).total
    before.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 1e-3 * parameter.grad
    assert model.loss(puzzle, draws=2, generator=seeded()).total < before


def test_the_loss_of_a_field_of_zero_is_the_size_of_the_target():
    model, puzzle = model_of(), lumpy_puzzle(3, 12)
    torch.nn.init.zeros_(model.network.head.output.weight)
    loss = model.loss(puzzle, draws=20, generator=seeded())
    # The angle of a Haar rotation: E[theta^2] = pi^2 / 3 + 2; the correction of the whole makes it smaller.
    assert 0.5 < loss.rotation < torch.pi**2 / 3 + 2
    assert loss.translation > 0


@pytest.mark.parametrize("weight", [0.5, 2.0])
def test_the_translation_weight_counts(weight):
    model = Eda(dataclasses.replace(TINY, translation_weight=weight)).double()
    loss = model.loss(lumpy_puzzle(2, 12), generator=seeded())
    assert loss.translation > 0
    assert_near(loss.total, 2 * loss.rotation + weight * loss.translation, 1e-10)


def test_the_generator_decides_the_loss(model):
    puzzle = lumpy_puzzle(2, 12)
    a, b, c = (model.loss(puzzle, generator=seeded(s)).total for s in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


@pytest.mark.parametrize("sampler", ["uniform", "logit_normal"])
def test_the_tau_sampler_is_used(pieces, sampler, monkeypatch):
    calls = []
    monkeypatch.setitem(TAU_SAMPLERS, sampler, lambda n, _: calls.append(n) or torch.full((n,), 0.5))
    model = Eda(dataclasses.replace(TINY, tau_sampler=sampler)).double()
    model.loss(Puzzle(pieces, random_se3_batch(3)), draws=4)
    assert calls == [4]


def test_the_loss_takes_a_pyramid(model):
    puzzle = lumpy_puzzle(2, 12)
    plain = model.loss(puzzle, generator=seeded()).total
    assert torch.equal(model.loss(puzzle, pyramid=model.pyramid(puzzle.pieces), generator=seeded()).total, plain)


@pytest.mark.parametrize(("time_in_encoder", "encoded"), [(True, 3), (False, 1)])
def test_draws_share_an_encoder_without_time(pieces, monkeypatch, time_in_encoder, encoded):
    model, calls = model_of(time_in_encoder=time_in_encoder), []
    encode = model.network.encode
    monkeypatch.setattr(model.network, "encode", lambda *arguments: calls.append(1) or encode(*arguments))
    model.loss(Puzzle(pieces, random_se3_batch(3)), draws=3)
    assert len(calls) == encoded


# -- randomness --------------------------------------------------------------------------------------------


def test_the_seed_decides_the_weights():
    one, same, other = (Eda(TINY, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_the_weights_do_not_depend_on_the_global_seed():
    torch.manual_seed(1)
    one = Eda(TINY).state_dict()
    torch.manual_seed(2)
    two = Eda(TINY).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("action", ["make", "sample", "loss"])
def test_the_global_random_state_is_left_alone(model, pieces, action):
    before = torch.get_rng_state()
    if action == "make":
        Eda(TINY, seed=9)
    elif action == "sample":
        model.sample(pieces, steps=1, generator=seeded())
    else:
        model.loss(Puzzle(pieces, random_se3_batch(3)), generator=seeded())
    assert torch.equal(torch.get_rng_state(), before)


# -- the config --------------------------------------------------------------------------------------------


def test_a_model_without_a_config_is_the_papers(monkeypatch):
    monkeypatch.setattr("eda.model.EdaNetwork", lambda config: torch.nn.Identity())
    assert Eda().config == EdaConfig()
    assert EdaConfig().network == NetworkConfig()
