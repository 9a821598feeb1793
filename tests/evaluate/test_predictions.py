"""Answers of other systems as files: what they are given, what they answer, and what is refused."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import trimesh
from support.measured_puzzles import EXAMPLES, answers_with, at_random
from support.rigid_motions import random_motions

from eda import SE3, InputError
from eda.evaluate import (
    PredictionAnswers,
    Predictions,
    evaluate,
    read_predictions,
    scatter,
    write_inputs,
    write_predictions,
)


def score(path, examples=EXAMPLES):
    """The evaluation of a file of predictions."""
    source = PredictionAnswers.read(path)
    return evaluate(source.answers(scatter(examples, source.predictions.seed)))


def test_predictions_come_back_as_they_were(tmp_path):
    answers = [
        replace(answer, poses=SE3.cat([answer.poses, at_random(answer.poses[0, 0], 9).reshape(1, 1, -1)]))
        for answer in answers_with(at_random)
    ]
    before = evaluate(answers)
    path = tmp_path / "predictions.json"
    write_predictions(path, Predictions.of(0, before.names, before.poses))
    after = score(path, EXAMPLES)
    for name, values in before.values.items():
        np.testing.assert_allclose(after.values[name], values, rtol=1e-6, atol=1e-5)
    assert after.seconds is None


def test_a_system_that_reads_the_inputs_can_answer(tmp_path):
    """From the files alone: fit every given piece onto the assembled one, as an oracle would, and be perfect."""
    write_inputs(tmp_path / "inputs", scatter(EXAMPLES, 5), 5, anchored=True)
    inputs = json.loads((tmp_path / "inputs" / "inputs.json").read_text())
    poses = {}
    for puzzle, truth in zip(inputs["puzzles"], EXAMPLES, strict=True):
        poses[puzzle["name"]] = []
        for path, cloud in zip(puzzle["pieces"], truth.clouds(), strict=True):
            given = np.asarray(trimesh.load(tmp_path / "inputs" / path).vertices, dtype=np.float64)
            poses[puzzle["name"]].append(_fitted(given, cloud.astype(np.float64)).tolist())
        anchor = puzzle["anchor"]
        np.testing.assert_allclose(anchor["pose"], poses[puzzle["name"]][anchor["piece"]], atol=1e-4)
        assert len(truth.clouds()[anchor["piece"]]) == truth.sizes.max()
    content = {"format": "eda-predictions", "version": 1, "seed": inputs["seed"], "poses": poses}
    (tmp_path / "answer.json").write_text(json.dumps(content))
    result = score(tmp_path / "answer.json", EXAMPLES)
    assert result.values["rotation"].max() < 1e-2
    assert result.values["translation"].max() < 1e-4
    assert result.values["solved"].min() == 1


def _fitted(given: np.ndarray, true: np.ndarray) -> np.ndarray:
    """The least-squares motion of corresponding points, by Kabsch."""
    a, b = given - given.mean(axis=0), true - true.mean(axis=0)
    u, _, v = np.linalg.svd(b.T @ a)
    motion = np.eye(4)
    motion[:3, :3] = u @ np.diag([1, 1, np.linalg.det(u @ v)]) @ v
    motion[:3, 3] = true.mean(axis=0) - motion[:3, :3] @ given.mean(axis=0)
    return motion


def test_inputs_do_not_overwrite_a_folder(tmp_path):
    (tmp_path / "mine.txt").write_text("dear")
    with pytest.raises(InputError, match="not empty"):
        write_inputs(tmp_path, scatter(EXAMPLES, 0), 0)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(("shape", "drawn_shape"), [((), (1, 1)), ((3,), (3, 1)), ((3, 2), (3, 2))])
def test_repeats_and_samples_may_be_left_out(tmp_path, shape, drawn_shape):
    matrices = random_motions(math.prod(shape) * 4, 0).reshape(*shape, 4, 4, 4)
    poses = read_predictions(predictions_file(tmp_path, {"a": matrices.tolist()})).poses["a"]
    assert poses.shape == (*drawn_shape, 4)
    torch.testing.assert_close(poses.matrix().reshape(matrices.shape), matrices)


def predictions_file(folder, poses, **changes):
    path = folder / "predictions.json"
    path.write_text(json.dumps({"format": "eda-predictions", "version": 1, "seed": 0, "poses": poses, **changes}))
    return path


MIRROR = np.diag([1.0, 1, -1, 1])
STRETCHED = np.diag([1.1, 1, 1, 1])


@pytest.mark.parametrize(
    ("poses", "message"),
    [
        ({"a": [MIRROR.tolist()]}, "not rigid"),
        ({"a": [STRETCHED.tolist()]}, "not rigid"),
        ({"a": [np.full((4, 4), np.nan).tolist()]}, "NaN"),
        ({"a": [np.eye(4).tolist(), np.eye(3).tolist()]}, "4 x 4"),
        ({"a": np.eye(4).tolist()}, r"\(pieces, 4, 4\)"),
        ({"a": "left"}, "4 x 4"),
        ({"a": []}, r"\(pieces, 4, 4\)"),
        ({"a": [(np.eye(4) + np.eye(4, k=-3)).tolist()]}, "column vectors"),
        ({}, "no poses"),
        ([1], "no poses"),
    ],
)
def test_what_is_no_table_of_motions_is_refused(tmp_path, poses, message):
    with pytest.raises(InputError, match=message):
        read_predictions(predictions_file(tmp_path, poses))


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"format": "other"}, "not a file of predictions"), ({"version": 9}, "version 9"), ({"seed": None}, "seed")],
)
def test_a_header_that_does_not_fit_is_refused(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        read_predictions(predictions_file(tmp_path, {"a": [np.eye(4).tolist()]}, **changes))


def test_a_file_that_is_not_there_or_not_json_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.json"):
        read_predictions(tmp_path / "nothing.json")
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(InputError, match=r"text\.json"):
        read_predictions(tmp_path / "text.json")


def test_every_puzzle_needs_an_answer_of_its_own(tmp_path):
    eye = [np.eye(4).tolist()]
    with pytest.raises(InputError, match="no prediction for the puzzle 'puzzle 0'"):
        score(predictions_file(tmp_path, {"other": eye}), EXAMPLES)
    with pytest.raises(InputError, match="puzzle 0: 2 pieces but predicted poses for 3"):
        score(predictions_file(tmp_path, {"puzzle 0": eye * 3}), EXAMPLES)
    uneven = {"puzzle 0": [eye * 2] * 2, "puzzle 1": [eye * 3]}
    with pytest.raises(InputError, match="as many repeats and samples"):
        score(predictions_file(tmp_path, uneven), EXAMPLES[:2])
    with pytest.raises(InputError, match="several puzzles are called 'twin'"):
        Predictions.of(0, ["twin", "twin"], [])
