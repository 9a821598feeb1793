"""Candidates: what further looks add to the first one."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from support.quick_search import SAMPLED
from support.rigid_motions import random_motion_of_size, random_motions
from support.sliced_block import disturbed, errors, finely_taken_apart, slices

from eda.assembly import Assemblies, Problem, RankConfig, regime_of
from eda.assembly.contact.detail import Detail
from eda.assembly.regimes import AssemblyRegime
from eda.assembly.search.candidates import find_assemblies
from eda.assembly.search.merged_pieces import groups_of
from eda.budget import Budget, Stage

ONCE, TWICE, THRICE = (replace(SAMPLED, looks=looks) for looks in (0, 1, 2))


class Resampled:
    """Draws what it is told for as many pieces as it is asked for, else pieces far apart; counts what it is asked."""

    def __init__(self, *answers: np.ndarray) -> None:
        self.answers, self.asked = {answer.shape[1]: answer for answer in answers}, []

    def __call__(self, detail: Detail, budget: Budget) -> np.ndarray:
        self.asked.append(len(detail.points))
        count = len(detail.points)
        return self.answers.get(count, random_motions(4 * count, 3, spread=30.0).numpy().reshape(4, count, 4, 4))


def unfinished() -> AssemblyRegime:
    """Fractures whose best assemblies are not refined once more, so that all scores are of one scale."""
    regime = regime_of("fracture")
    regime.finishes = False
    return regime


def puzzle() -> tuple[Problem, np.ndarray]:
    """Four slices, and samples in which three lie nearly right and the last one anywhere."""
    evidence, detail, true = finely_taken_apart(slices(4, 400.0), 400)
    rng, samples = np.random.default_rng(0), []
    for seed in range(3):
        sample = disturbed(true, 5, 0.02, seed)
        sample[3] = random_motion_of_size(rng, 150, 1.5) @ sample[3]
        samples.append(sample)
    return Problem(evidence, np.stack(samples), groups_of(true[None], []), detail=detail), true


def found(problem: Problem, resample: Resampled | None, config: RankConfig, budget: Budget | None = None) -> Assemblies:
    asking = replace(problem, resample=resample)
    return find_assemblies(asking, unfinished(), config, budget or Budget())


def best(of: Assemblies) -> tuple[np.ndarray, np.ndarray]:
    first = int(of.score.argmax())
    return of.poses[first], of.placed[first]


@pytest.fixture(scope="module")
def given() -> tuple[Problem, np.ndarray]:
    return puzzle()


def assert_same(one: Assemblies, other: Assemblies) -> None:
    for name in ("poses", "placed", "score", "pieces"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_second_look_finds_what_the_first_could_not(given):
    """The three that are sure are one piece, of which the flow draws two samples that are nearly right."""
    problem, true = given
    _, placed = best(found(problem, None, ONCE))
    assert placed.tolist() == [True, True, True, False]
    right = np.stack([disturbed(true[[0, 3]], 5, 0.02, seed) for seed in (8, 9)])
    resample = Resampled(right)
    poses, placed = best(found(problem, resample, TWICE))
    assert resample.asked == [2]
    assert placed.all()
    assert errors(poses, true)[0] < 2


def test_without_further_looks_nothing_is_asked_and_the_result_is_that_of_the_first(given):
    problem, _ = given
    resample = Resampled()
    assert_same(found(problem, resample, ONCE), found(problem, None, THRICE))
    scans = unfinished()
    scans.refines_samples = False
    find_assemblies(replace(problem, resample=resample), scans, THRICE, Budget())
    assert resample.asked == []


def test_looks_that_find_nothing_better_end_and_make_nothing_worse(given):
    problem, _ = given
    resample = Resampled()
    once, more = found(problem, None, ONCE), found(problem, resample, THRICE)
    assert more.score.max() >= once.score.max()
    assert resample.asked == [2]  # a third look would see the same


def test_when_time_is_over_no_further_look_begins(given):
    """It is over when the first assemblies have been grown."""
    problem, _ = given
    told: list[Stage] = []

    class OverOnceGrown(Budget):
        @property
        def exhausted(self) -> bool:
            return Stage.GROW in told

    resample = Resampled()
    assert len(found(problem, resample, THRICE, OverOnceGrown(progress=lambda stage, share: told.append(stage))))
    assert resample.asked == []


def test_weak_pieces_are_docked_again_in_every_look(given, monkeypatch):
    """What a look has put in place, the next one takes for granted."""
    problem, true = given
    module, seen = sys.modules["eda.assembly.search.candidates"], []
    repair = module._repair
    monkeypatch.setattr(module, "_repair", lambda *all_of: seen.append(len(all_of[0])) or repair(*all_of))
    found(problem, Resampled(np.stack([true[[0, 3]]] * 2)), THRICE)
    assert seen[:2] == [len(problem.evidence), 2]


def test_the_best_are_finished_with_all_points_if_there_are_any(given, monkeypatch):
    problem, _ = given
    module, calls = sys.modules["eda.assembly.search.candidates"], []
    finish = module.finish
    monkeypatch.setattr(module, "finish", lambda *all_of: calls.append(all_of) or finish(*all_of))
    finished = find_assemblies(problem, regime_of("fracture"), replace(ONCE, candidates=2), Budget())
    ((_, before, detail, count, _),) = calls
    assert (len(finished), count) == (2, 2)
    assert detail is problem.detail
    assert_same(before, found(problem, None, ONCE))
    few = find_assemblies(replace(problem, detail=None), regime_of("fracture"), ONCE, Budget())
    assert_same(few, before)
    assert len(calls) == 1
