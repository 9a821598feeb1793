"""A network that matches places learns them from matches alone, and to judge arrangements from the flow too (ours)."""

from dataclasses import replace

import pytest
import torch
from support.closeness import assert_near_and_nonzero
from support.lumpy_shapes import TINY_NETWORK, lumpy_cloud, lumpy_puzzle, seeded
from support.matching_networks import matched, proposed, ragged
from support.rigid_motions import random_se3
from support.soft_matches import drawn, model_of, of_both_kinds, times_of
from torch import Tensor

from eda import Eda, EdaConfig, InputError, Pieces, Puzzle
from eda.nn.correspondences import matching_loss
from eda.nn.pose_field import hypothesis_loss
from eda.nn.protocol import Labels


def overlapping(count: int = 3) -> Puzzle:
    """Blobs at one place: scans that show the same."""
    clouds, normals = zip(*[lumpy_cloud(i, 48) for i in range(count)], strict=True)
    return Puzzle.from_assembled(clouds, normals, dtype=torch.float64)


# -- what is learned from what -----------------------------------------------------------------------------


def solvable(model: Eda) -> Puzzle:
    """Blobs whose solution is an arrangement that the network finds, so that some of its motions are right."""
    pieces = overlapping().pieces
    return Puzzle(pieces, model.network.encode(model.pyramid(pieces), None).arrangements.poses[:, 0])


@of_both_kinds
def test_the_losses_of_matches_and_motions_are_part_of_the_total_by_their_weights(complementary):
    model, own, found = model_of(complementary=complementary), torch.tensor([True, True, False]), []
    puzzle = solvable(model)
    heavy = Eda(replace(model.config, match_weight=2.5, judge_weight=3.5)).double()
    heavy.load_state_dict(model.state_dict())
    network = model.network
    for labels, belongs in ((None, None), (Labels(own=own), own)):
        light, weighed = (m.loss(puzzle, draws=2, labels=labels, generator=seeded()) for m in (model, heavy))
        assert_near_and_nonzero(light.matches, matching_loss(matched(model, puzzle.pieces), puzzle.solution, belongs))
        arrangements = network.encode(model.pyramid(puzzle.pieces), None).arrangements
        motions = proposed(model, puzzle.pieces)
        judged = hypothesis_loss(network.motions.pair_scores, motions, arrangements, puzzle.solution, belongs)
        assert_near_and_nonzero(light.motions, judged)
        assert_near_and_nonzero(light.total, 2 * light.rotation + light.translation + light.matches + light.motions)
        assert_near_and_nonzero(weighed.total - light.total, 1.5 * light.matches + 2.5 * light.motions)
        found.append([light.matches.item(), light.motions.item()])
    for one, other in zip(*found, strict=True):
        assert abs(one - other) > 1e-3, "pieces that are not the puzzle's share nothing and have no right place"


def test_breaks_and_matches_are_learned_from_one_pass_and_change_nothing_of_each_other():
    model, puzzle = model_of(break_head=True, matching="complementary"), lumpy_puzzle(3, 48)
    on_break = torch.rand(len(puzzle.pieces.points), generator=seeded()) < 0.4
    plain, both = (model.loss(puzzle, labels=Labels(labels), generator=seeded()) for labels in (None, on_break))
    assert plain.breaks is None
    for name in ("matches", "motions", "rotation"):
        assert_near_and_nonzero(getattr(both, name), getattr(plain, name))
    assert_near_and_nonzero(both.total, plain.total + 0.3 * both.breaks)


@pytest.mark.parametrize("break_head", [False, True])
def test_without_a_matcher_there_is_no_loss_of_matches_or_motions(break_head):
    puzzle = lumpy_puzzle(2, 24)
    model = Eda(EdaConfig(replace(TINY_NETWORK, break_head=break_head, time_in_encoder=False))).double()
    labels = Labels(torch.zeros(len(puzzle.pieces.points), dtype=torch.bool))
    loss = model.loss(puzzle, labels=labels, generator=seeded())
    assert loss.matches is loss.motions is None
    assert (loss.breaks is not None) == break_head


def taught(model: Eda, what: Tensor) -> set[str]:
    """The parts of the network whose weights something depends on; the levels of the encoder one by one."""
    names, weights = zip(*model.network.named_parameters(), strict=True)
    slopes = torch.autograd.grad(what, weights, allow_unused=True, retain_graph=True)
    learned = [name for name, slope in zip(names, slopes, strict=True) if slope is not None and slope.any()]
    return {".".join(name.split(".")[: 2 if name.startswith(("down", "motions")) else 1]) for name in learned}


@of_both_kinds
def test_places_are_learned_from_matches_alone_and_arrangements_from_judgements_and_the_flow(complementary):
    model, puzzle = model_of(complementary=complementary), overlapping()
    loss = model.loss(puzzle, draws=2, generator=seeded())
    before = {"embedding", "down.0", "matcher"}
    weighing = {"motions.judge", "motions.beside"} if complementary else {"motions.judge"}
    assert taught(model, loss.matches) == before
    assert taught(model, loss.motions) == weighing
    flow = taught(model, loss.rotation + loss.translation)
    assert flow == {"down.1", "time", "croco", "head", "motions.none"} | weighing
    assert taught(model, loss.total) == before | flow


@of_both_kinds
def test_the_velocity_teaches_every_part_of_what_weighs(complementary):
    model, pieces = model_of(complementary=complementary), Pieces.collate(ragged())
    out = model.network(model.pyramid(pieces), random_se3(10, spread=0.7), times_of(pieces))
    names, parameters = zip(*model.network.motions.named_parameters(), strict=True)
    gradients = torch.autograd.grad((out * drawn(10, 6)).sum(), parameters)
    assert [n for n, g in zip(names, gradients, strict=True) if not g.abs().max() > 1e-10] == []


# -- training without the flow -----------------------------------------------------------------------------


@pytest.mark.parametrize("break_head", [False, True])
@of_both_kinds
def test_without_draws_only_breaks_and_matches_are_learned(complementary, break_head):
    """And as with draws; nothing is arranged, and nobody draws a number."""
    model, puzzle = model_of(complementary=complementary, break_head=break_head), overlapping()
    on_break = torch.rand(len(puzzle.pieces.points), generator=seeded()) < 0.4
    labels = Labels(on_break, torch.tensor([True, True, False]))
    model.network.propose = model.network.arrange = model.network.tokens = None  # whoever asks for them is wrong
    generator = seeded()
    found = model.loss(puzzle, draws=0, labels=labels, generator=generator)
    assert torch.equal(generator.get_state(), seeded().get_state())
    assert found.motions is None
    assert found.rotation == found.translation == 0
    other = model_of(complementary=complementary, break_head=break_head)
    expected = other.loss(puzzle, draws=1, labels=labels, generator=seeded())
    assert_near_and_nonzero(found.matches, expected.matches, 1e-12)
    assert (found.breaks is None) == (not break_head)
    if break_head:
        assert_near_and_nonzero(found.breaks, expected.breaks, 1e-12)
    assert_near_and_nonzero(found.total, found.matches + (0.3 * found.breaks if break_head else 0), 1e-12)
    breaks = {"breaks", "down.1"} if break_head else set()
    assert taught(model, found.total) == {"embedding", "down.0", "matcher"} | breaks


@pytest.mark.parametrize("time_in_encoder", [False, True])
def test_without_draws_a_network_that_matches_nothing_learns_breaks_or_nothing(time_in_encoder):
    puzzle = lumpy_puzzle(2, 24)
    labels = Labels(torch.rand(len(puzzle.pieces.points), generator=seeded()) < 0.4)
    for break_head in (True, False):
        model = Eda(EdaConfig(replace(TINY_NETWORK, break_head=break_head, time_in_encoder=time_in_encoder))).double()
        found = model.loss(puzzle, draws=0, labels=labels)
        assert found.rotation == found.translation == 0
        assert found.matches is found.motions is None
        assert_near_and_nonzero(found.total, 0.3 * found.breaks) if break_head else None
        assert (found.total == 0) == (not break_head)


@pytest.mark.parametrize("draws", [-1, 0.5, "1"])
def test_a_number_of_draws_that_is_none_is_an_input_error(draws):
    with pytest.raises(InputError, match="draws must be a whole number from 0"):
        model_of().loss(overlapping(), draws=draws)
