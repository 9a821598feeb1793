"""A network with pairs moves pieces by them, in any batch and order, and a piece alone as if there were none (ours)."""

from dataclasses import replace

import pytest
import torch
from paired import assert_same_knowledge, in_all_variants, known, model_of, pairs_of, ragged, with_and_without_time
from places import assert_near, piece_alone, times_of
from support.shapes import TINY_NETWORK, lumpy_pieces, lumpy_puzzle, poses_of, seeded
from torch import Tensor, nn

from eda import SE3, Eda, EdaConfig, InputError, NetworkConfig, Pieces
from eda.nn.pairs import PRODUCTS, STATE_SCALARS
from eda.nn.protocol import Labels


@torch.no_grad()
def velocity_of(model: Eda, pieces: Pieces, poses: SE3, tau: Tensor | None = None) -> Tensor:
    return model.velocity(pieces, poses, times_of(pieces) if tau is None else tau)


# -- the path in the network -------------------------------------------------------------------------------


def silenced(model: Eda, *parts: str) -> Eda:
    for part in parts:
        nn.init.zeros_(getattr(model.network.pairs, part).weight)
    return model


def without_pairs(model: Eda) -> Eda:
    """The same weights in a network without the path."""
    plain = Eda(replace(model.config, network=model.config.network.without_pairs)).double()
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("network.pairs.")})
    return plain


@with_and_without_time
def test_a_path_that_says_nothing_leaves_the_network_as_it_was(variant):
    pieces, poses = Pieces.collate(ragged()), poses_of(10)
    model = model_of(variant)
    plain = velocity_of(without_pairs(model), pieces, poses)
    assert (velocity_of(model, pieces, poses) - plain).abs().amax(1)[torch.arange(10) != 3].min() > 1e-3
    assert_near(velocity_of(silenced(model, "scalars", "vectors", "output"), pieces, poses), plain, 1e-14)


@torch.no_grad()
def test_the_velocity_of_pairs_is_added_to_that_of_the_tokens():
    model, pieces, poses = model_of(), Pieces.collate(ragged()), poses_of(10)
    tau = times_of(pieces)
    network, pyramid = model.network, model.pyramid(pieces)
    time = network.time(tau)[pieces.puzzle_of_piece]
    by_pairs = network.pairs.velocity(network.pairs(pairs_of(model, pieces), poses, time))
    both = network(pyramid, poses, tau)
    assert_near(both - silenced(model, "output").network(pyramid, poses, tau), by_pairs)


@pytest.mark.parametrize("part", ["scalars", "vectors", "output"])
def test_every_way_out_of_the_path_is_heard_by_all_pieces_with_partners(part):
    pieces, poses = Pieces.collate(ragged()), poses_of(10)
    parts = {"scalars", "vectors", "output"} - {part}
    only, none = (velocity_of(silenced(model_of(), *p), pieces, poses) for p in (parts, {*parts, part}))
    change = (only - none).abs().amax(1)
    assert change[torch.arange(10) != 3].min() > 1e-3
    assert change[3] == 0


# -- batches and orders ------------------------------------------------------------------------------------


@in_all_variants
def test_a_velocity_does_not_see_the_companions_of_its_puzzle(variant):
    model, batch = model_of(variant), ragged()
    poses = [poses_of(pieces.num_pieces, seed) for seed, pieces in enumerate(batch)]
    tau = times_of(Pieces.collate(batch))
    together = velocity_of(model, Pieces.collate(batch), SE3.cat(poses), tau)
    alone = [velocity_of(model, *each) for each in zip(batch, poses, tau.split(1), strict=True)]
    assert_near(together, torch.cat(alone))


@in_all_variants
def test_pairs_follow_the_order_of_pieces(variant):
    model, pieces = model_of(variant), Pieces.collate(ragged())
    order = [1, 2, 0, 3, 5, 4, 9, 6, 8, 7]
    before, after = known(pairs_of(model, pieces)), known(pairs_of(model, pieces.permuted(torch.tensor(order))))
    assert_same_knowledge({(order[i], order[j]): knowledge for (i, j), knowledge in after.items()}, before)
    poses = poses_of(10)
    permuted = velocity_of(model, pieces.permuted(torch.tensor(order)), poses[torch.tensor(order)])
    assert_near(permuted, velocity_of(model, pieces, poses)[order])


# -- a piece alone -----------------------------------------------------------------------------------------


@in_all_variants
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_puzzle_of_one_piece_has_a_finite_velocity_and_gradient(variant, dtype):
    model, pieces, poses = model_of(variant).to(dtype), piece_alone(20).to(dtype=dtype), poses_of(1).to(dtype)
    velocity = model.velocity(pieces, poses, 0.4)
    assert velocity.isfinite().all()
    velocity.square().sum().backward()
    for name, parameter in model.network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_pieces_alone_among_others_have_finite_gradients():
    model = model_of()
    model.velocity(Pieces.collate(ragged()), poses_of(10), 0.4).square().sum().backward()
    for name, parameter in model.network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_a_piece_alone_moves_as_if_there_were_no_pairs():
    model, pieces, poses = model_of(), piece_alone(20), poses_of(1)
    assert_near(velocity_of(model, pieces, poses), velocity_of(without_pairs(model), pieces, poses), 1e-14)


def test_pins_may_leave_one_piece():
    model, pieces, pins = model_of(), lumpy_pieces(2, 24), poses_of(2)
    found = model.sample(pieces, 2, pins={0: pins[0], 1: pins[1]}, steps=2, generator=seeded())
    for k in range(2):
        assert_near(found[k].matrix(), pins.matrix())


# -- several samples and times -----------------------------------------------------------------------------


@with_and_without_time
def test_samples_at_any_times_are_those_of_one_at_a_time(variant):
    """One field, called at equal times, at other equal ones, at different ones, and at the first again."""
    model, pieces = model_of(variant), Pieces.collate(ragged()[1:])
    field, N = model.field(pieces, samples=3), pieces.num_pieces
    poses, together = poses_of(3 * N), times_of(pieces).repeat(3, 1)
    apart = torch.rand(3, 3, generator=seeded(), dtype=torch.float64)
    for tau in (together, 1 - together, apart, together):
        with torch.no_grad():
            found = field(poses, tau.flatten()).reshape(3, N, 6)
        for k in range(3):
            assert_near(found[k], velocity_of(model, pieces, poses[k * N : (k + 1) * N], tau[k]))


@with_and_without_time
def test_assemblies_of_one_call_are_those_of_one_at_a_time(variant):
    model, pieces = model_of(variant), Pieces.collate(ragged()[1:3])
    silenced(model, "output")  # a stirred path is too fast for a few steps
    noise = poses_of(9).reshape(3, 3)
    together = model.sample(pieces, 3, noise=noise, steps=2).matrix()
    for k in range(3):
        assert_near(together[k], model.sample(pieces, noise=noise[k : k + 1], steps=2).matrix()[0], 1e-9)


# -- what is learned ---------------------------------------------------------------------------------------


@with_and_without_time
def test_labels_of_breaks_do_not_change_what_pairs_learn(variant):
    """Where one pass of a time-free encoder serves both."""
    model, puzzle = model_of(variant, break_head=True), lumpy_puzzle(3, 24)
    on_break = torch.rand(len(puzzle.pieces.points), generator=seeded()) < 0.4
    plain, labelled = (
        model.loss(puzzle, draws=2, labels=Labels(labels), generator=seeded()) for labels in (None, on_break)
    )
    assert_near(labelled.rotation, plain.rotation)
    assert_near(labelled.translation, plain.translation)


def dead_parts(model: Eda) -> list[str]:
    """Rows of the path's parameters that no gradient reaches."""
    pieces = Pieces.collate([lumpy_pieces(3, 40, seed=s) for s in range(3)])
    out = model.network(model.pyramid(pieces), poses_of(9), times_of(pieces))
    names, parameters = zip(*model.network.pairs.named_parameters(), strict=True)
    pull = torch.randn(out.shape, generator=seeded(), dtype=torch.float64)
    found = torch.autograd.grad((out * pull).sum(), parameters, allow_unused=True)
    assert [name for name, gradient in zip(names, found, strict=True) if gradient is None] == []
    return [
        f"{name} {row}"
        for name, gradient in zip(names, found, strict=True)
        for row, part in enumerate(gradient)
        if not part.abs().max() > 1e-10
    ]


@pytest.mark.parametrize("variant", ["as it is", "coarse places", "encoder without time", "degree 1"])
def test_gradients_reach_every_parameter_of_the_path(variant):
    """But for what a softmax does not see: the bias of a key, and that of a logit."""
    keys = [
        f"encoder.{kind}.{i}.look.bias {row}" for kind in ("inside", "across") for i in (0, 1) for row in range(8, 16)
    ]
    logits = [f"blocks.{i}.judge.4.bias {3 * PRODUCTS + STATE_SCALARS}" for i in (0, 1)]
    assert sorted(dead_parts(model_of(variant))) == sorted(keys + logits)


# -- precision ---------------------------------------------------------------------------------------------


@with_and_without_time
def test_autocast_changes_no_bit_of_the_field(variant):
    model, pieces = model_of(variant).float(), Pieces.collate(ragged()).to(dtype=torch.float32)
    poses = poses_of(10).to(torch.float32)
    expected = velocity_of(model, pieces, poses, torch.tensor(0.4))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(velocity_of(model, pieces, poses, torch.tensor(0.4)), expected)


# -- settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pair_width": 6}, "pair_width of 6 .*4 heads"),
        ({"pair_width": -4}, "pair_width .*multiple of 4"),
        ({"pair_width": 8.0}, "pair_width .*whole number"),
        ({"pair_width": 8, "pair_level": 3}, "pair_level is 3, but there are 2 levels"),
        ({"pair_width": 8, "pair_level": 0}, "pair_level"),
        ({"pair_width": 8, "pair_layers": -1}, "pair_layers"),
    ],
)
def test_settings_that_cannot_be_are_an_input_error(settings, message):
    with pytest.raises(InputError, match=message):
        replace(TINY_NETWORK, **settings)


def test_a_network_is_without_pairs_unless_it_is_asked_for_them():
    assert Eda(EdaConfig(TINY_NETWORK)).network.pairs is None
    asked = replace(TINY_NETWORK, max_degree=1, pair_width=8, pair_level=2, pair_layers=1)
    assert asked.without_pairs == replace(TINY_NETWORK, max_degree=1) == asked.without_pairs.without_pairs
    assert NetworkConfig().without_pairs == NetworkConfig()
