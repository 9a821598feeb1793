"""Single samples of a network: the seed decides, and nothing else that is sampled beside a puzzle."""

import pytest
import torch
from support.focused_models import focused_model
from support.lumpy_shapes import TINY_NETWORK
from support.measured_puzzles import EXAMPLES

from eda import Eda, EdaConfig, InputError
from eda.evaluate import Answer, NetworkAnswers, Sampling, scatter


@pytest.fixture(scope="module")
def model() -> Eda:
    return Eda(EdaConfig(TINY_NETWORK))


def drawn(model: Eda, examples=EXAMPLES, **options) -> list[Answer]:
    sampling = Sampling(**{"solver": "rk1", "steps": 2, "points": 60, **options})
    return list(NetworkAnswers(model, sampling).answers(scatter(examples, sampling.seed)))


def test_a_puzzle_does_not_feel_its_companions(model):
    together = drawn(model, repeats=2, samples=2)
    alone = drawn(model, repeats=2, samples=2, batch_points=1)
    assert [a.puzzle.example.name for a in together] == [e.name for e in EXAMPLES]
    for ours, theirs in zip(together, alone, strict=True):
        torch.testing.assert_close(ours.poses.matrix(), theirs.poses.matrix(), rtol=1e-4, atol=1e-4)


def test_the_seed_decides(model):
    first, again, other = (drawn(model, EXAMPLES[:1], seed=seed, repeats=1)[0].poses for seed in (0, 0, 1))
    assert torch.equal(first.matrix(), again.matrix())
    assert not torch.allclose(first.rotation, other.rotation, atol=0.1)


def test_repeats_and_samples_all_differ(model):
    answer = drawn(model, EXAMPLES[:1], repeats=2, samples=3)[0]
    assert answer.poses.shape == (2, 3, 2)
    assert answer.seconds.shape == (2,)
    flat = answer.poses.rotation.reshape(6, -1)
    assert torch.pdist(flat).min() > 0.1


def test_examples_are_read_as_they_are_needed(model):
    read = []

    def stream():
        for each in EXAMPLES:
            read.append(each.name)
            yield each

    sampling = Sampling(repeats=1, solver="rk1", steps=1, points=60, batch_points=60)
    answers = NetworkAnswers(model, sampling).answers(scatter(stream(), 0))
    next(answers)
    assert len(read) == 2


def test_a_model_that_breaks_down_names_the_puzzle(model):
    broken = Eda(EdaConfig(TINY_NETWORK))
    torch.nn.init.constant_(broken.network.head.output.weight, 1e38)
    with pytest.raises(InputError, match="puzzle 0"):
        drawn(broken)


def test_a_model_with_a_focus_is_shown_it(monkeypatch):
    """Of all points of the example, in the frames in which answers are given, at the density that is asked for."""
    puzzle, shown, sample = next(scatter(EXAMPLES[1:2], 0)), [], Eda.sample
    model = focused_model(puzzle.dense_pieces(60), 90)
    monkeypatch.setattr(
        Eda, "sample", lambda self, pieces, *a, **o: shown.append(pieces) or sample(self, pieces, *a, **o)
    )
    drawn(model, EXAMPLES[1:2], repeats=1)
    expected = model.focus(puzzle.dense_pieces(60), 60)
    assert torch.equal(shown[0].points, expected.points)
    assert torch.equal(shown[0].focus, expected.focus)
    assert expected.focus.any()
    assert torch.equal(shown[0].centers, puzzle.pieces(60).centers)


@pytest.mark.parametrize("setting", ["samples", "repeats", "steps", "points"])
def test_sampling_refuses_zero(setting):
    with pytest.raises(InputError, match=setting):
        Sampling(**{setting: 0})
