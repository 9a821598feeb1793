"""The assembler as a source of answers: what it is given, what becomes of unplaced pieces, and a real run."""

import numpy as np
import pytest
import torch
from support.claimed_answers import FakeAssembler, claimed_answer
from support.measured_puzzles import EXAMPLES, example, whole_moved

import eda.evaluate.assembler_answers as module
from eda import SE3
from eda.assembly import AssembleConfig
from eda.data.sources import open_examples
from eda.evaluate import PROTOCOLS, AssemblerAnswers, PuzzleSet, evaluate, fill_unplaced, scatter, summarize
from eda.metrics import pairwise_errors


@pytest.fixture
def assembler(monkeypatch) -> FakeAssembler:
    fake = FakeAssembler()
    monkeypatch.setattr(module, "assemble", fake)
    return fake


def test_the_assembler_is_given_all_points_turned_at_random(assembler):
    puzzles = list(scatter(EXAMPLES, 0))
    config = AssembleConfig(samples=3)
    answers = list(AssemblerAnswers("some-model", config).answers(puzzles))
    assert len(answers) == len(assembler.calls) == len(EXAMPLES)
    for puzzle, call in zip(puzzles, assembler.calls, strict=True):
        for given, expected in zip(call["clouds"], puzzle.clouds(), strict=True):
            np.testing.assert_array_equal(given, expected)
        assert len(np.concatenate(call["clouds"])) == len(puzzle.example.points)
        assert call["normals"] is not None
        assert (call["pins"], call["model"], call["config"]) == (None, "some-model", config)


def test_an_anchored_assembler_is_told_where_the_largest_piece_belongs(assembler):
    (puzzle,) = scatter(EXAMPLES[1:2], 0)
    list(AssemblerAnswers(anchored=True).answers([puzzle]))
    ((piece, pose),) = assembler.calls[0]["pins"].items()
    assert piece == puzzle.example.sizes.argmax()
    np.testing.assert_array_equal(pose, puzzle.solution[piece].matrix().numpy())


def test_an_unplaced_piece_stays_as_given_in_the_middle_of_the_placed_ones():
    poses = SE3(
        torch.from_numpy(np.stack([np.diag([-1.0, -1, 1])] * 3)),
        torch.tensor([[1.0, 0, 0], [3, 0, 4], [9, 9, 9]]).double(),
    )
    filled = fill_unplaced(poses, np.array([True, True, False]))
    torch.testing.assert_close(filled[:2].matrix(), poses[:2].matrix())
    torch.testing.assert_close(filled[2].matrix()[:3, 3], torch.tensor([2.0, 0, 2]).double())
    torch.testing.assert_close(filled[2].rotation, torch.eye(3).double())
    torch.testing.assert_close(fill_unplaced(poses, np.zeros(3, bool)).matrix(), torch.eye(4).double().expand(3, 4, 4))


@pytest.mark.parametrize("protocol", [name for name, one in PROTOCOLS.items() if one.score])
def test_an_unplaced_piece_never_counts_as_right(protocol):
    """The others are all where they belong."""
    puzzles = list(scatter([example(3, 1), example(4, 2)], 0))
    answers = []
    for puzzle in puzzles:
        placed = np.arange(puzzle.example.num_pieces) > 0
        answers.append(claimed_answer(puzzle, whole_moved(puzzle.solution, 3), placed))
    figures = evaluate(answers, protocol).values
    shares = {"pairwise": "part_accuracy", "registration": "recall"}.get(protocol, "part_accuracy")
    expected = [1 / 3, 3 / 6] if protocol == "registration" else [2 / 3, 3 / 4]
    if protocol != "breaking_bad_anchored":  # whose frame is that of the truth
        assert figures[shares].ravel() == pytest.approx(expected)
    if protocol == "pairwise":
        assert figures["solved"].sum() == 0
    assert figures["placed"].ravel() == pytest.approx([2 / 3, 3 / 4])
    assert figures["placed_rotation"].ravel() == pytest.approx([0, 0], abs=1e-5)


def test_the_error_of_a_puzzle_counts_the_stand_in_and_beside_it_the_placed_alone():
    (puzzle,) = scatter([example(3, 1)], 0)
    answer = claimed_answer(puzzle, puzzle.solution, [True, False, True])
    values = evaluate([answer]).values
    assert values["rotation"].item() == pytest.approx(pairwise_errors(answer.poses[0, 0], puzzle.solution)[0])
    assert values["rotation"].item() > 1
    assert values["placed_rotation"].item() == pytest.approx(0, abs=1e-5)
    nothing = evaluate([claimed_answer(puzzle, puzzle.solution, [False] * 3)])
    assert np.isnan(nothing.values["placed_rotation"].item())
    assert nothing.values["placed"].item() == 0
    assert summarize(nothing).get("reliability") is None  # where nothing is placed, nothing is claimed


def test_leaving_out_foreign_pieces_is_counted():
    """Of three foreign pieces two are left out, beside one own piece that should not be."""
    rows = [([1, 1, 0], 1), ([1, 0, 0], 1), ([1, 1, 1], 1), ([1, 1], 0)]
    answers = []
    for index, (placed, foreign) in enumerate(rows):
        (puzzle,) = scatter([example(len(placed), index, foreign=foreign)], 0)
        answers.append(claimed_answer(puzzle, puzzle.solution, placed))
    assert summarize(evaluate(answers))["placement"] == {
        "own_pieces": 8,
        "own_unplaced": 1,
        "foreign_pieces": 3,
        "foreign_unplaced": 2,
        "precision": pytest.approx(2 / 3),
        "recall": pytest.approx(2 / 3),
    }


def test_a_real_puzzle_is_assembled():
    """The assembler that ships, on a generated object in two pieces; the model is chosen by the pieces."""
    source = open_examples("fracture:pieces=2,puzzles=1,seed=3,shapes=plate,num_points=1500")
    config = AssembleConfig(samples=2, steps=4)
    result = evaluate(AssemblerAnswers(config=config).answers(PuzzleSet.choose(source).scatter()))
    report = summarize(result)
    assert report["models"] == {"fracture-small": 1}
    assert report["metrics"]["solved"]["mean"] == 1
    assert report["reliability"]["assembly"]["share_right"] == 1
    assert report["seconds_per_puzzle"] > 0
