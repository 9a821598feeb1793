"""The puzzles of `benchmarks/calibration_sets.py`: what does not belong together has no right joint."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import cKDTree

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import calibration_sets
from calibration_sets import SETS, Puzzles, copies, parts, strangers
from support.measured_puzzles import example

RNG = np.random.default_rng(0)


def test_strangers_and_copies_lie_far_apart():
    for puzzle in (strangers(example(3, 0), example(4, 1), RNG), copies(example(3, 0), RNG)):
        a, b = puzzle.clouds()
        assert cKDTree(a).query(b)[0].min() > 10 * np.ptp(a, axis=0).max()


@pytest.mark.parametrize("seed", range(4))
def test_copies_are_of_one_piece(seed):
    """With the same points in another order, or with other points of the same piece."""
    a, b = (cloud - cloud.mean(axis=0) for cloud in copies(example(3, 0), np.random.default_rng(seed)).clouds())
    assert len(a) == pytest.approx(len(b), abs=1)
    assert cKDTree(a).query(b)[0].max() < np.ptp(a, axis=0).max() / 2


@pytest.mark.parametrize("seed", range(6))
def test_parts_touch_and_do_not_overlap(seed):
    puzzle = parts(np.random.default_rng(seed), seed)
    clouds, normals = puzzle.clouds(), puzzle.clouds(puzzle.normals)
    for k, cloud in enumerate(clouds):
        others = np.concatenate([*clouds[:k], *clouds[k + 1 :]])
        assert cKDTree(others).query(cloud)[0].min() < 0.2
        outward = ((cloud - cloud.mean(axis=0)) * normals[k]).sum(axis=1)
        assert (outward > 0).mean() > 0.95


def test_every_set_is_made_from_all_sources_in_turn():
    sources = [[example(2, seed) for seed in range(4)], [example(3, seed) for seed in range(4)]]
    made = list(Puzzles(sources, ["fractures", "foreign"], share=0.04))
    names = [name for name, _, _ in made]
    assert [names.count(name) for name in ("fractures", "foreign")] == [
        round(0.04 * SETS[n]) for n in ("fractures", "foreign")
    ]
    assert [puzzle.example.num_pieces for name, _, puzzle in made if name == "fractures"] == [2, 3, 2, 3]
    (foreign,) = [puzzle.example for name, _, puzzle in made if name == "foreign"]
    assert foreign.own.tolist() == [True, True, False]


def test_parts_need_no_source():
    ((name, number, puzzle),) = Puzzles([], ["parts"], share=0.02)
    assert (name, number) == ("parts", 0)
    assert puzzle.example.num_pieces >= 2
    assert len(puzzle.example.points) > calibration_sets.POINTS * 0.9
