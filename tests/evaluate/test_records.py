"""Records and the journal: nothing is lost when a run is stopped, and nothing of another run is taken."""

import json

import numpy as np
import pytest
import torch
from support.claimed_answers import claimed_answer
from support.measured_puzzles import EXAMPLES, example

from eda import InputError
from eda.evaluate import Journal, Record, evaluate, scatter, score_answer, summarize

COMMAND = {"data": "somewhere", "settings": {"steps": 3}, "by": ("pieces",)}


def records():
    """Some with pieces unplaced, one of which has figures that are not defined."""
    puzzles = list(scatter(EXAMPLES, 0))
    placed = [np.arange(p.example.num_pieces) != (0 if i == 1 else 9) for i, p in enumerate(puzzles)]
    placed[0][:] = False
    return [score_answer(claimed_answer(p, p.solution, m)) for p, m in zip(puzzles, placed, strict=True)]


def same(first: Record, second: Record) -> bool:
    ours, theirs = (json.dumps(record.as_dict(), sort_keys=True) for record in (first, second))
    return ours == theirs


def test_a_record_comes_back_from_json_as_it_was():
    for record in records():
        back = Record.from_dict(json.loads(json.dumps(record.as_dict(), allow_nan=False)))
        assert same(back, record)
        assert torch.equal(back.poses.matrix(), record.poses.matrix())
        for name, values in record.figures.items():
            np.testing.assert_array_equal(back.figures[name], values)


def test_a_stopped_run_goes_on_and_ends_the_same(tmp_path):
    path = tmp_path / "report.json.partial.jsonl"
    every = records()
    first = Journal(path, COMMAND)
    assert first.finished("a") == []
    for record in every[:2]:
        first.keep("a", record)
    first.keep("b", every[3])
    again = Journal(path, COMMAND)
    assert [record.index for record in again.finished("a")] == [0, 1]
    assert [record.index for record in again.finished("b")] == [3]
    left = scatter(EXAMPLES, 0)
    answers = [claimed_answer(p, p.solution, np.ones(p.example.num_pieces)) for p in left if p.index > 1]
    resumed = evaluate(answers, finished=again.finished("a"))
    assert json.dumps(summarize(resumed)) == json.dumps(summarize(evaluate([], finished=every)))


def test_a_line_that_was_cut_off_is_done_again(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, COMMAND)
    for record in records()[:2]:
        journal.keep("", record)
    path.write_text(path.read_text()[:-40])
    again = Journal(path, COMMAND)
    assert [record.index for record in again.finished("")] == [0]
    again.keep("", records()[1])
    assert [record.index for record in Journal(path, COMMAND).finished("")] == [0, 1]


def test_a_journal_of_another_command_is_refused(tmp_path):
    path = tmp_path / "journal.jsonl"
    Journal(path, COMMAND).keep("", records()[0])
    with pytest.raises(InputError, match="another command"):
        Journal(path, {**COMMAND, "data": "elsewhere"})


def test_without_a_path_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    journal = Journal(None, COMMAND)
    journal.keep("", records()[0])
    assert len(journal.finished("")) == 1
    assert list(tmp_path.iterdir()) == []


def test_records_are_in_the_order_of_the_source():
    every = records()
    result = evaluate([], finished=every[::-1])
    assert [record.index for record in result.records] == list(range(len(EXAMPLES)))


def test_foreign_pieces_are_counted_apart():
    (puzzle,) = scatter([example(4, 0, foreign=2)], 0)
    record = score_answer(claimed_answer(puzzle, puzzle.solution, [1, 0, 1, 0]))
    assert vars(record.unplaced) == {"own": 1, "num_own": 2, "foreign": 1, "num_foreign": 2}
