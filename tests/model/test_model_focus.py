"""Pieces as a model is best shown them: more points beside the breaks that it sees, whatever the poses."""

import json
from dataclasses import asdict, replace

import pytest
import torch
from support.break_caps import dense_batch, points_by_piece, shuffled_points
from support.closeness import assert_near_and_nonzero
from support.custom_networks import CentroidNetwork
from support.focused_models import focused_model
from support.lumpy_shapes import TINY_NETWORK, lumpy_pieces, seeded
from support.rigid_motions import random_se3
from support.tiny_models import model_of

from eda import Eda, EdaConfig, InputError, Pieces
from eda.flow import sample_noise
from eda.focus import FOCUS_REACH, thin

BUDGET = 80


@pytest.fixture(scope="module")
def dense() -> Pieces:
    return dense_batch()


@pytest.fixture(scope="module")
def model(dense) -> Eda:
    return focused_model(dense, BUDGET)


# -- the config --------------------------------------------------------------------------------------------


def test_a_focus_needs_a_break_head():
    assert EdaConfig().focus is False
    assert EdaConfig(replace(TINY_NETWORK, break_head=True), focus=True).focus is True
    with pytest.raises(InputError, match="focus=True needs a network with break_head=True"):
        EdaConfig(TINY_NETWORK, focus=True)


def test_a_network_of_the_users_own_has_no_focus():
    custom = Eda(network=CentroidNetwork()).config.network
    assert EdaConfig(custom).focus is False
    with pytest.raises(InputError, match="needs a network with break_head=True"):
        EdaConfig(custom, focus=True)
    with pytest.raises(InputError, match="needs a network with break_head=True"):
        Eda(EdaConfig(replace(TINY_NETWORK, break_head=True), focus=True), network=CentroidNetwork())


@pytest.mark.parametrize("value", [1, 0, "yes", None])
def test_a_focus_that_is_no_switch_is_refused(value):
    with pytest.raises(InputError, match="focus"):
        EdaConfig(replace(TINY_NETWORK, break_head=True), focus=value)


def test_a_model_file_keeps_the_focus(tmp_path, model):
    model.save(tmp_path / "model.safetensors")
    assert Eda.load(tmp_path / "model.safetensors").config.focus is True
    values = json.loads(json.dumps(asdict(model.config)))
    assert EdaConfig.from_dict(values) == model.config
    assert EdaConfig.from_dict({key: value for key, value in values.items() if key != "focus"}).focus is False


# -- what is shown -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("break_head", [True, False])
def test_a_model_without_a_focus_is_shown_an_even_choice(dense, break_head):
    plain = model_of(break_head=break_head)
    for few, budget in [(plain.focus(dense, 60), 60), (plain.focus(dense), plain.config.num_points)]:
        assert few.focus is None
        assert torch.equal(few.points, thin(dense, budget).points)
    assert len(plain.focus(dense, 60).points) < len(dense.points)


def focus_by_brute_force(model: Eda, dense: Pieces) -> torch.Tensor:
    """(P,) which points are near one of the same piece that is likelier than not on a break."""
    on_break = model.break_probability(thin(dense, BUDGET), dense) > 0.5
    near = torch.cdist(dense.points, dense.points, compute_mode="donot_use_mm_for_euclid_dist") <= FOCUS_REACH
    near &= dense.piece_of_point[:, None] == dense.piece_of_point[None]
    return near[:, on_break].any(dim=1)


def test_the_focus_is_on_and_beside_the_breaks_that_the_model_sees(dense, model):
    expected = focus_by_brute_force(model, dense)
    assert 0.05 < expected.double().mean() < 0.5
    few = model.focus(dense)
    assert torch.equal(few.points, thin(dense, BUDGET, expected).points)
    assert torch.equal(few.focus, thin(dense, BUDGET, expected).focus)


@pytest.mark.parametrize("num_points", [None, 50, 150])
def test_every_puzzle_is_shown_in_its_budget_of_points(dense, model, num_points):
    few = model.focus(dense, num_points)
    puzzle, budget = few.puzzle_of_piece[few.piece_of_point], num_points or BUDGET
    for kept in puzzle.bincount().tolist():
        assert budget <= kept <= budget + 4 * 3


def test_half_of_what_is_shown_is_in_the_focus(dense, model):
    few = model.focus(dense)
    assert 0.4 < few.focus.double().mean() < 0.6
    assert thin(dense, BUDGET, focus_by_brute_force(model, dense)).focus.sum() == few.focus.sum()


def test_the_frames_and_the_unit_stay(dense, model):
    few = model.focus(dense)
    for name in ("counts", "centers", "scales"):
        assert torch.equal(getattr(few, name), getattr(dense, name))
    poses = random_se3(5)
    assert torch.equal(few.to_user(poses).matrix(), dense.to_user(poses).matrix())
    assert all(kept <= all_of for kept, all_of in zip(*map(points_by_piece, (few, dense)), strict=True))


def test_single_precision_is_kept(dense):
    single = dense.to(dtype=torch.float32)
    few = focused_model(single, BUDGET).focus(single)
    assert few.points.dtype == torch.float32
    assert few.focus.any()


def test_what_was_encoded_serves_to_find_breaks(dense, model, monkeypatch):
    encoding, expected = model.encode(thin(dense, BUDGET)), model.focus(dense)
    assert encoding.levels
    monkeypatch.setattr(model.network, "descend", None)  # the encoder must not run again
    assert torch.equal(model.focus(dense, even=encoding).points, expected.points)


def test_the_breaks_are_looked_for_at_the_density_that_is_asked_for(dense, model):
    """What is even is as dense as what is shown, not as what the config says."""
    expected = model.focus(dense, 150, even=model.encode(thin(dense, 150)))
    other = model.focus(dense, 150, even=model.encode(thin(dense, BUDGET)))
    assert torch.equal(model.focus(dense, 150).focus, expected.focus)
    assert not torch.equal(expected.points, other.points)


# -- what it does not depend on ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_focus_turns_with_the_pieces(dense, model, seed):
    poses = random_se3(5, seed)
    still, moved = model.focus(dense), model.focus(dense.move(poses))
    assert torch.equal(moved.points, still.move(poses).points)
    assert torch.equal(moved.focus, still.focus)


def test_the_focus_does_not_depend_on_the_order_of_points(dense, model):
    shuffled = model.focus(dense.reorder(shuffled_points(dense)))
    assert points_by_piece(shuffled) == points_by_piece(model.focus(dense))


def test_the_focus_follows_the_order_of_pieces(dense, model):
    order = [2, 0, 1, 4, 3]
    still = points_by_piece(model.focus(dense))
    assert points_by_piece(model.focus(dense.permute(torch.tensor(order)))) == [still[i] for i in order]


def test_puzzles_of_a_batch_have_the_focus_that_they_have_alone(dense, model):
    parts = [lumpy_pieces(3, 300), lumpy_pieces(2, 200, seed=1)]
    alone = Pieces.collate([model.focus(part) for part in parts])
    assert torch.equal(model.focus(dense).points, alone.points)
    assert torch.equal(model.focus(dense).focus, alone.focus)


def test_samples_of_focused_pieces_do_not_depend_on_how_these_were_turned(dense, model):
    turns = random_se3(5, seed=4)
    noise = sample_noise(model.focus(dense), 0.5, generator=seeded())
    ends = [
        model.sample(model.focus(pieces), noise=start, steps=2, solver="rk1")
        for pieces, start in [(dense, noise), (dense.move(turns), noise @ turns.inverse())]
    ]
    assert_near_and_nonzero((ends[1] @ turns).matrix(), ends[0].matrix(), 1e-9)
