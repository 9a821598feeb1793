"""What answers score: perfect ones, random ones, those of other frames, and those that leave pieces out."""

import math

import numpy as np
import pytest
from support.lumpy_shapes import TINY_NETWORK
from support.measured_puzzles import EXAMPLES, answers_with, at_random, example, whole_moved

from eda import SE3, Eda, EdaConfig, InputError
from eda.evaluate import PROTOCOLS, NetworkAnswers, Sampling, evaluate, scatter, summarize
from eda.metrics import pairwise_errors

PERFECT = {
    "pairwise": {"rotation": 0, "translation": 0, "relative_translation": 0, "solved": 1, "part_accuracy": 1},
    "breaking_bad": {
        "rotation_rmse": 0,
        "translation_rmse": 0,
        "part_accuracy": 1,
        "matched_part_accuracy": 1,
        "chamfer": 0,
    },
    "registration": {"recall": 1, "registered": 1, "rotation": 0, "translation": 0},
}
PERFECT["conventions"] = {
    **{name: PERFECT["pairwise"][name] for name in ("rotation", "translation", "solved")},
    **PERFECT["breaking_bad"],
    **{f"scan_{name}": value for name, value in PERFECT["registration"].items()},
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


def test_a_pinned_model_scores_the_same_with_and_without_alignment():
    model = Eda(EdaConfig(TINY_NETWORK))
    options = Sampling(repeats=1, solver="rk1", steps=2, points=60)
    free, pinned = (
        evaluate(NetworkAnswers(model, options, anchored).answers(scatter(EXAMPLES, 0)), protocol)
        for anchored, protocol in ((False, "breaking_bad"), (True, "breaking_bad_anchored"))
    )
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


def test_the_conventions_are_those_of_the_single_protocols():
    answers = answers_with(at_random)
    every = evaluate(answers, "conventions").values
    single = {name: evaluate(answers, name).values for name in ("pairwise", "breaking_bad", "registration")}
    for name, values in every.items():
        plain = name.removeprefix("scan_")
        source = "registration" if plain != name else "pairwise" if name in single["pairwise"] else "breaking_bad"
        source = "breaking_bad" if name == "part_accuracy" else source
        np.testing.assert_array_equal(values, single[source][plain])


def test_pooled_over_pairs_every_pair_weighs_the_same():
    answers = answers_with(at_random)
    errors = []
    for answer in answers:
        poses, solution = answer.poses[0, 0].matrix().numpy(), answer.puzzle.solution.matrix().numpy()
        for i in range(len(solution)):
            for j in range(len(solution)):
                if i != j:
                    implied = solution[j] @ np.linalg.inv(poses[j]) @ poses[i]
                    cosine = (np.trace(implied[:3, :3] @ solution[i][:3, :3].T) - 1) / 2
                    errors.append((math.degrees(math.acos(cosine)), np.linalg.norm((implied - solution[i])[:3, 3])))
    report = summarize(evaluate(answers, "conventions"))
    expected = np.mean(errors, axis=0)
    assert report["pooled_over_pairs"] == pytest.approx({"rotation": expected[0], "translation": expected[1]})
    assert abs(report["metrics"]["rotation"]["mean"] - expected[0]) > 1e-3, "puzzles of several sizes"
    alike = summarize(evaluate(answers_with(at_random, [example(3, 1), example(3, 2)]), "conventions"))
    assert "pooled_over_pairs" not in alike


def test_a_protocol_that_does_not_look_at_poses_says_so():
    with pytest.raises(InputError, match="evaluate_breaks"):
        evaluate(answers_with(whole_moved), "breaks")


def test_nothing_to_evaluate_is_an_error():
    with pytest.raises(InputError, match="no puzzles"):
        evaluate([])
    with pytest.raises(InputError, match="protocol must be one of"):
        evaluate([], "best")
