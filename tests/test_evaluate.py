"""Measuring assemblies: what a system is given, what its answers score, and that nothing else decides about it."""

import csv
import io
import json
import math

import numpy as np
import pytest
import torch
import trimesh
from reference import random_motions
from support.shapes import TINY_NETWORK, lumpy_cloud

from eda import SE3, Eda, EdaConfig, InputError
from eda.data import Example
from eda.evaluate import (
    PROTOCOLS,
    Answer,
    Evaluation,
    Predictions,
    Sampling,
    Scattered,
    as_csv,
    evaluate,
    looked_up,
    markdown,
    read_predictions,
    sampled,
    scattered,
    summarize,
    write_inputs,
    write_predictions,
)
from eda.metrics import pairwise_errors


def example(num_pieces: int, seed: int, *, foreign: int = 0, size: int = 60, name: str = "") -> Example:
    rng = np.random.default_rng(seed)
    clouds, normals = zip(*[lumpy_cloud(100 * seed + i, size + 3 * i) for i in range(num_pieces)], strict=True)
    clouds = [cloud + place for cloud, place in zip(clouds, 1.5 * rng.normal(size=(num_pieces, 3)), strict=True)]
    strangers = [i >= num_pieces - foreign for i in range(num_pieces)]
    return Example.from_clouds(name or f"puzzle {seed}", clouds, normals, foreign=strangers)


EXAMPLES = [example(2 + seed % 3, seed) for seed in range(5)]


@pytest.fixture(scope="module")
def model() -> Eda:
    return Eda(EdaConfig(TINY_NETWORK))


def drawn(model: Eda, examples=EXAMPLES, **options) -> list[Answer]:
    return list(sampled(model, examples, Sampling(**{"solver": "rk1", "steps": 2, "points": 60, **options})))


def answers_with(motion, examples=EXAMPLES) -> list[Answer]:
    """Answers (1, 1, N) that `motion` makes from the truth and the puzzle's number."""
    return [
        Answer(puzzle, motion(puzzle.solution, index).reshape(1, 1, -1))
        for index, puzzle in enumerate(scattered(examples, 0))
    ]


def whole_moved(solution: SE3, index: int) -> SE3:
    return SE3.from_matrix(random_motions(1, index))[0] @ solution


def at_random(solution: SE3, index: int) -> SE3:
    return SE3.from_matrix(random_motions(len(solution), index))


# -- what a system is given --------------------------------------------------------------------------------


def test_the_solution_brings_the_given_pieces_back():
    puzzle = Scattered.of(EXAMPLES[1], 0, 1)
    for i, (given, true) in enumerate(zip(puzzle.clouds(), EXAMPLES[1].clouds(), strict=True)):
        assert np.abs(given.mean(axis=0)).max() < 1e-6
        np.testing.assert_allclose(puzzle.solution[i].act(torch.from_numpy(given)).numpy(), true, atol=1e-6)
    turned = puzzle.normals()[0] @ puzzle.solution.rotation[0].numpy().T
    np.testing.assert_allclose(turned, EXAMPLES[1].clouds(EXAMPLES[1].normals)[0], atol=1e-6)


def test_the_turns_follow_seed_and_place_only():
    first = Scattered.of(EXAMPLES[0], 3, 7).solution.rotation
    assert torch.equal(first, Scattered.of(EXAMPLES[0], 3, 7).solution.rotation)
    for seed, index in [(4, 7), (3, 8)]:
        assert not torch.allclose(first, Scattered.of(EXAMPLES[0], seed, index).solution.rotation, atol=0.1)


def test_a_network_is_given_about_as_many_points_as_asked_for():
    puzzle = Scattered.of(EXAMPLES[0], 0, 0)
    pieces = puzzle.pieces(50)
    assert len(pieces.points) == 50
    assert pieces.normals is not None
    assert puzzle.pieces(50, normals=False).normals is None
    identity = pieces.to_user(pieces.from_user(puzzle.solution))
    torch.testing.assert_close(identity.matrix(), puzzle.solution.matrix())


def test_a_puzzle_of_one_own_piece_cannot_be_scored():
    with pytest.raises(InputError, match="lonely: fewer than two"):
        Scattered.of(example(3, 0, foreign=2, name="lonely"), 0, 0)


# -- scores ------------------------------------------------------------------------------------------------

PERFECT = {
    "pairwise": {"rotation": 0, "translation": 0, "relative_translation": 0, "solved": 1},
    "breaking_bad": {
        "rotation_rmse": 0,
        "translation_rmse": 0,
        "part_accuracy": 1,
        "matched_part_accuracy": 1,
        "chamfer": 0,
    },
    "registration": {"recall": 1, "rotation": 0, "translation": 0},
}


@pytest.mark.parametrize("protocol", PERFECT)
def test_a_motion_of_the_whole_is_a_perfect_answer(protocol):
    result = evaluate(answers_with(whole_moved), protocol)
    assert set(result.values) == set(PERFECT[protocol])
    for name, value in PERFECT[protocol].items():
        np.testing.assert_allclose(result.values[name], value, atol=1e-5)


@pytest.mark.parametrize("protocol", PERFECT)
def test_a_motion_of_the_whole_changes_no_figure(protocol):
    plain = evaluate(answers_with(at_random), protocol)
    moved = evaluate(answers_with(lambda s, i: whole_moved(at_random(s, i), 77 + i)), protocol)
    for name, values in plain.values.items():
        np.testing.assert_allclose(moved.values[name], values, rtol=1e-6, atol=1e-6)


def test_the_anchored_protocol_takes_answers_as_they_are():
    perfect = evaluate(answers_with(lambda s, i: s), "breaking_bad_anchored")
    assert perfect.values["rotation_rmse"].max() < 1e-5
    moved = evaluate(answers_with(whole_moved), "breaking_bad_anchored")
    assert moved.values["rotation_rmse"].min() > 1
    assert moved.values["part_accuracy"].max() < 1


def test_a_pinned_model_scores_the_same_with_and_without_alignment(model):
    options = Sampling(repeats=1, solver="rk1", steps=2, points=60)
    free = evaluate(sampled(model, EXAMPLES, options), "breaking_bad")
    pinned = evaluate(sampled(model, EXAMPLES, options, anchored=True), "breaking_bad_anchored")
    for name, values in free.values.items():
        np.testing.assert_allclose(pinned.values[name], values, rtol=1e-6, atol=1e-9)


def test_random_answers_are_126_degrees_off():
    """The mean over all puzzles of two pieces; a spread of about 40 degrees each gives the tolerance."""
    many = [example(2, seed, size=8) for seed in range(150)]
    result = evaluate(answers_with(at_random, many))
    mean = summarize(result)["metrics"]["rotation"]["mean"]
    assert mean == pytest.approx(math.degrees(math.pi / 2 + 2 / math.pi), abs=4 * 40 / math.sqrt(150))
    assert result.values["solved"].sum() == 0


def test_the_pairwise_figures_are_the_metric_of_the_paper():
    answers = answers_with(at_random)
    result = evaluate(answers)
    for q, answer in enumerate(answers):
        degrees, distance = pairwise_errors(answer.poses[0, 0], answer.puzzle.solution)
        assert result.values["rotation"][q, 0, 0] == pytest.approx(degrees)
        assert result.values["translation"][q, 0, 0] == pytest.approx(distance)
        clouds = answer.puzzle.clouds()
        size = math.sqrt(sum(np.square(cloud).sum(axis=1).mean() for cloud in clouds))
        assert result.values["relative_translation"][q, 0, 0] == pytest.approx(distance / size, rel=1e-5)


@pytest.mark.parametrize("protocol", [name for name, protocol in PROTOCOLS.items() if protocol.score])
def test_foreign_pieces_are_left_out(protocol):
    mixed = [example(4, 3, foreign=1)]

    def only_the_stranger_is_wrong(solution: SE3, index: int) -> SE3:
        wrong = at_random(solution, index)
        return SE3.cat([solution[:3], wrong[3:]])

    result = evaluate(answers_with(only_the_stranger_is_wrong, mixed), protocol)
    perfect = PERFECT.get(protocol, PERFECT["breaking_bad"])
    assert {name: float(values[0, 0, 0]) for name, values in result.values.items()} == pytest.approx(perfect, abs=1e-5)
    assert result.num_pieces.tolist() == [3]


# -- sampling ----------------------------------------------------------------------------------------------


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

    answers = sampled(model, stream(), Sampling(repeats=1, solver="rk1", steps=1, points=60, batch_points=60))
    next(answers)
    assert len(read) == 2


def test_a_model_that_breaks_down_names_the_puzzle(model):
    broken = Eda(EdaConfig(TINY_NETWORK))
    torch.nn.init.constant_(broken.network.head.output.weight, 1e38)
    with pytest.raises(InputError, match="puzzle 0"):
        drawn(broken)


@pytest.mark.parametrize("setting", ["samples", "repeats", "steps", "points"])
def test_sampling_refuses_zero(setting):
    with pytest.raises(InputError, match=setting):
        Sampling(**{setting: 0})


def test_a_protocol_that_does_not_look_at_poses_says_so():
    with pytest.raises(InputError, match="evaluate_breaks"):
        evaluate(answers_with(whole_moved), "breaks")


def test_nothing_to_evaluate_is_an_error():
    with pytest.raises(InputError, match="no puzzles"):
        evaluate([])
    with pytest.raises(InputError, match="protocol must be one of"):
        evaluate([], "best")


# -- predictions -------------------------------------------------------------------------------------------


def test_predictions_come_back_as_they_were(model, tmp_path):
    answers = drawn(model, repeats=2, samples=2)
    before = evaluate(answers)
    path = tmp_path / "predictions.json"
    write_predictions(path, Predictions.of(0, before.names, before.poses))
    after = evaluate(looked_up(read_predictions(path), EXAMPLES))
    for name, values in before.values.items():
        np.testing.assert_allclose(after.values[name], values, rtol=1e-6, atol=1e-5)
    assert after.seconds is None


def test_a_system_that_reads_the_inputs_can_answer(tmp_path):
    """From the files alone: fit every given piece onto the assembled one, as an oracle would, and be perfect."""
    write_inputs(tmp_path / "inputs", scattered(EXAMPLES, 5), 5, anchored=True)
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
    result = evaluate(looked_up(read_predictions(tmp_path / "answer.json"), EXAMPLES))
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
        write_inputs(tmp_path, scattered(EXAMPLES, 0), 0)
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
        evaluate(looked_up(read_predictions(predictions_file(tmp_path, {"other": eye})), EXAMPLES))
    with pytest.raises(InputError, match="puzzle 0: 2 pieces but predicted poses for 3"):
        evaluate(looked_up(read_predictions(predictions_file(tmp_path, {"puzzle 0": eye * 3})), EXAMPLES))
    uneven = {"puzzle 0": [eye * 2] * 2, "puzzle 1": [eye * 3]}
    with pytest.raises(InputError, match="as many repeats and samples"):
        evaluate(looked_up(read_predictions(predictions_file(tmp_path, uneven)), EXAMPLES[:2]))
    with pytest.raises(InputError, match="several puzzles are called 'twin'"):
        Predictions.of(0, ["twin", "twin"], [])


# -- summaries ---------------------------------------------------------------------------------------------


def figures(values, num_pieces=(2, 2, 3), protocol="pairwise") -> Evaluation:
    """Figures (Q, R, K) as all of a protocol's metrics."""
    array = np.array(values, dtype=np.float64)
    names = [f"p{i}" for i in range(len(array))]
    metrics = dict.fromkeys(PROTOCOLS[protocol].metrics, array)
    return Evaluation(protocol, names, np.array(num_pieces), metrics, [], np.ones(array.shape[:2]))


def test_a_summary_by_hand():
    report = summarize(figures([[[1, 3], [5, 7]], [[2, 2], [4, 4]], [[0, 4], [9, 9]]]))
    assert (report["puzzles"], report["repeats"], report["samples"]) == (3, 2, 2)
    rotation = report["metrics"]["rotation"]
    assert rotation["repeat_means"] == pytest.approx([2, 38 / 6])
    assert rotation["mean"] == pytest.approx(50 / 12)
    assert rotation["std_over_repeats"] == pytest.approx((38 / 6 - 2) / math.sqrt(2))
    assert rotation["median"] == 4
    assert rotation["quantiles"]["50"] == 4
    assert rotation["quantiles"]["10"] < rotation["quantiles"]["25"] < rotation["quantiles"]["90"]
    assert report["by_pieces"]["2"] == pytest.approx(
        {"puzzles": 2, **dict.fromkeys(PROTOCOLS["pairwise"].metrics, 28 / 8)}
    )
    assert report["by_pieces"]["3"]["rotation"] == 5.5
    assert report["best_of_samples"]["rotation"] == pytest.approx((1 + 5 + 2 + 4 + 0 + 9) / 6)
    assert report["seconds_per_puzzle"] == 1


def test_the_best_sample_is_chosen_by_the_first_metric():
    recall, degrees = np.array([[[0, 1]]]), np.array([[[np.nan, 5.0]]])
    result = Evaluation("registration", ["a"], np.array([2]), {"recall": recall, "rotation": degrees}, [])
    assert {name: values.item() for name, values in result.best().items()} == {"recall": 1, "rotation": 5}


def test_what_is_not_defined_is_left_out():
    values = np.full((3, 2, 1), np.nan)
    nothing = summarize(figures(values))["metrics"]["rotation"]
    assert (nothing["mean"], nothing["median"], nothing["interval_95"], nothing["defined"]) == (None, None, None, 0)
    values[1, 0] = 3
    one = summarize(figures(values))["metrics"]["rotation"]
    assert (one["mean"], one["std_over_repeats"], one["defined"]) == (3, None, 1)
    assert one["interval_95"] == [3, 3]
    json.dumps(summarize(figures(values)), allow_nan=False)


def test_the_interval_is_about_two_standard_errors():
    values = np.random.default_rng(1).normal(10, 2, size=400)
    low, high = summarize(figures(values[:, None, None], num_pieces=[2] * 400))["metrics"]["rotation"]["interval_95"]
    error = 1.96 * values.std() / math.sqrt(400)
    assert low == pytest.approx(values.mean() - error, abs=0.08 * error)
    assert high == pytest.approx(values.mean() + error, abs=0.08 * error)


def test_the_markdown_table_by_hand():
    report = summarize(figures([[[0.25], [0.75]]], num_pieces=[4]))
    lines = markdown(report).splitlines()
    assert lines[0] == "|  | puzzles | rotation [deg] | translation | of size [%] | solved [%] |"
    assert lines[1] == "| :-- | --: | --: | --: | --: | --: |"
    assert lines[2] == "| all | 1 | 0.5 ± 0.3536 | 0.5 ± 0.3536 | 50 ± 35.36 | 50 ± 35.36 |"
    assert lines[-1] == "| 4 pieces | 1 | 0.5 | 0.5 | 50 | 50 |"
    assert [line.split("|")[1].strip() for line in lines[3:-1]] == [
        "95 % interval",
        "q10",
        "q25",
        "median",
        "q75",
        "q90",
    ]


def test_the_csv_has_a_line_for_every_assembly():
    rows = list(csv.reader(io.StringIO(as_csv(figures([[[1, 2]], [[3, np.nan]]], num_pieces=[2, 5])))))
    assert rows[0] == ["name", "pieces", "repeat", "sample", *PROTOCOLS["pairwise"].metrics]
    assert rows[1][:5] == ["p0", "2", "0", "0", "1.0"]
    assert rows[4][:5] == ["p1", "5", "0", "1", ""]
    assert len(rows) == 5
