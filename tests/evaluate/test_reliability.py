"""Claims of an assembler: which are made, and which of them are right."""

import re

import numpy as np
import pytest
from support.claimed_answers import claimed_answer, far_off
from support.measured_puzzles import example, whole_moved

from eda.evaluate import PROTOCOLS, diagram, evaluate, reliability, scatter, summarize
from eda.evaluate.reliability import claims_of, pool_claims


def claims(num_pieces, placed, *, wrong=None, foreign=0, protocol="pairwise"):
    """Of the truth, moved as a whole, with one piece far off if `wrong` names it."""
    (puzzle,) = scatter([example(num_pieces, 1, foreign=foreign)], 0)
    poses = puzzle.solution if wrong is None else far_off(puzzle.solution, wrong)
    return claims_of(claimed_answer(puzzle, whole_moved(poses, 5), placed), PROTOCOLS[protocol])


@pytest.mark.parametrize("protocol", ["pairwise", "registration"])
def test_all_claims_about_the_truth_are_right(protocol):
    found = claims(3, [1, 1, 1], protocol=protocol)
    assert found == {"assembly": [(0.8, True)], "piece": [(0.9, True)] * 3, "joint": [(0.7, True)] * 3}


@pytest.mark.parametrize("protocol", ["pairwise", "registration"])
def test_a_wrong_piece_makes_its_joints_and_the_whole_wrong(protocol):
    found = claims(3, [1, 1, 1], wrong=2, protocol=protocol)
    assert found["assembly"] == [(0.8, False)]
    assert [right for _, right in found["piece"]] == [True, True, False]
    assert [right for _, right in found["joint"]] == [True, False, False]  # pairs 01, 02, 12


def test_nothing_is_claimed_about_an_unplaced_piece():
    found = claims(3, [1, 1, 0], wrong=2)
    assert found == {"assembly": [(0.8, True)], "piece": [(0.9, True)] * 2, "joint": [(0.7, True)]}
    assert claims(3, [0, 0, 0]) == {"assembly": [], "piece": [], "joint": []}


def test_a_foreign_piece_is_never_right():
    found = claims(3, [1, 1, 1], foreign=1)
    assert found["assembly"] == [(0.8, False)]
    assert [right for _, right in found["piece"]] == [True, True, False]
    assert [right for _, right in found["joint"]] == [True, False, False]


def test_a_report_by_hand():
    pooled = pool_claims(
        [
            {"assembly": [(0.9, True)], "piece": [(0.8, True), (0.8, False)], "joint": []},
            {"assembly": [(0.5, False)], "piece": [], "joint": []},
        ]
    )
    report = reliability(pooled)
    assert set(report) == {"assembly", "piece"}
    assert report["assembly"]["number"] == 2
    assert report["assembly"]["calibration_error"] == pytest.approx((0.1 + 0.5) / 2)
    assert report["assembly"]["brier"] == pytest.approx((0.01 + 0.25) / 2)
    assert report["piece"]["share_right"] == 0.5
    assert report["piece"]["calibration_error"] == pytest.approx(0.3)
    assert report["piece"]["bins"] == [
        {"low": 0.8, "high": 0.9, "number": 2, "mean_probability": pytest.approx(0.8), "share_right": 0.5}
    ]


def test_the_report_pools_all_puzzles():
    puzzles = list(scatter([example(3, seed) for seed in range(4)], 0))
    answers = [
        claimed_answer(puzzle, far_off(puzzle.solution, 0) if i == 0 else puzzle.solution, [1, 1, 1])
        for i, puzzle in enumerate(puzzles)
    ]
    report = summarize(evaluate(answers))["reliability"]
    assert report["assembly"]["number"] == 4
    assert report["assembly"]["share_right"] == 0.75
    assert report["assembly"]["calibration_error"] == pytest.approx(0.05)
    assert report["joint"]["share_right"] == pytest.approx(10 / 12)


def test_the_diagram_has_a_dot_for_every_bin():
    pooled = {"piece": (np.array([0.1, 0.1, 0.9]), np.array([0.0, 1.0, 1.0]))}
    svg = diagram(pooled)
    dots = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)]
    assert dots == [(30, 150), (270, 0)]
    assert "piece (3)" in svg
