"""What is learned beside the flow: breaks, of puzzles that do not say by their focus where these are."""

from dataclasses import replace

import pytest
import torch
from support.break_caps import cap_of
from support.closeness import assert_near
from support.lumpy_shapes import TINY_NETWORK, lumpy_puzzle, seeded
from support.oracles import stirred

from eda import Eda, EdaConfig, Puzzle
from eda.nn.protocol import Labels


@pytest.fixture(scope="module", params=[True, False], ids=["time in encoder", "encoder without time"])
def model(request) -> Eda:
    return stirred(Eda(EdaConfig(replace(TINY_NETWORK, break_head=True, time_in_encoder=request.param))))


def focused(puzzle: Puzzle) -> Puzzle:
    return Puzzle(replace(puzzle.pieces, focus=cap_of(puzzle.pieces, 0.3)), puzzle.solution)


PLAIN, TOLD = lumpy_puzzle(3, 24), focused(lumpy_puzzle(2, 30, seed=1))


def labels_for(puzzle: Puzzle, seed: int = 7) -> torch.Tensor:
    return torch.rand(len(puzzle.pieces.points), generator=seeded(seed)) < 0.4


def break_loss(model: Eda, puzzle: Puzzle, on_break: torch.Tensor) -> torch.Tensor:
    return model.loss(puzzle, draws=0, labels=Labels(on_break)).breaks


def test_a_puzzle_with_a_focus_does_not_teach_breaks(model):
    """The loss is the cross-entropy over the points of the other puzzles, wherever these are in the batch."""
    labels = labels_for(PLAIN)
    answer = model.break_probability(PLAIN.pieces)
    expected = -torch.where(labels, answer, 1 - answer).log().mean()
    for batch in ([PLAIN, TOLD], [TOLD, PLAIN], [TOLD, PLAIN, TOLD]):
        on_break = torch.cat([labels if puzzle is PLAIN else labels_for(TOLD) for puzzle in batch])
        assert_near(break_loss(model, Puzzle.collate(batch), on_break).detach(), expected)


def test_the_labels_of_a_puzzle_with_a_focus_do_not_matter(model):
    both, labels = Puzzle.collate([PLAIN, TOLD]), labels_for(PLAIN)
    losses = [break_loss(model, both, torch.cat([labels, labels_for(TOLD, seed)])) for seed in (0, 1)]
    assert torch.equal(*losses)
    assert not torch.equal(break_loss(model, both, torch.cat([~labels, labels_for(TOLD)])), losses[0])


def test_puzzles_are_weighed_by_their_points(model):
    """Two without a focus beside one with: a mean over the points of the two."""
    other = lumpy_puzzle(2, 40, seed=2)
    labels = [labels_for(puzzle, seed) for seed, puzzle in enumerate((PLAIN, TOLD, other))]
    mixed = break_loss(model, Puzzle.collate([PLAIN, TOLD, other]), torch.cat(labels))
    alone = break_loss(model, Puzzle.collate([PLAIN, other]), torch.cat([labels[0], labels[2]]))
    assert_near(mixed.detach(), alone.detach())


def test_puzzles_that_all_have_a_focus_teach_nothing_about_breaks(model):
    """The loss is zero, and so is its gradient; the flow is learned all the same."""
    batch = Puzzle.collate([TOLD, TOLD])
    loss = model.loss(batch, labels=Labels(labels_for(batch)), generator=seeded())
    assert loss.breaks == 0
    assert_near(loss.total, 2 * loss.rotation + loss.translation)
    parameters = list(model.network.breaks.parameters())
    gradients = torch.autograd.grad(loss.total, parameters, allow_unused=True)
    assert all(gradient is not None and (gradient == 0).all() for gradient in gradients)


def test_a_puzzle_whose_focus_is_nowhere_teaches_breaks_like_one_without(model):
    nowhere = torch.zeros(len(PLAIN.pieces.points), dtype=torch.bool)
    same, labels = Puzzle(replace(PLAIN.pieces, focus=nowhere), PLAIN.solution), labels_for(PLAIN)
    assert_near(break_loss(model, same, labels).detach(), break_loss(model, PLAIN, labels).detach())
