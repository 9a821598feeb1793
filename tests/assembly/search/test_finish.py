"""The last refinement: nearer to the truth than few points lead, and never to what is judged worse."""

import sys

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.quick_search import DENSITY
from support.rigid_motions import random_motion_of_size, rigid_motions
from support.sliced_block import disturbed, errors, finely_taken_apart, slices

from eda.assembly import Evidence, Fragment, score_assemblies
from eda.assembly.search.assemblies import Assemblies
from eda.assembly.search.finish import finish
from eda.budget import Budget, Stage

FEW, FINE = 300, 2500.0  # points of a piece in the evidence, and per unit area in the detail


def given(evidence: Evidence, poses: np.ndarray, placed: list[list[bool]] | None = None) -> Assemblies:
    some = np.ones(poses.shape[:2], dtype=bool) if placed is None else np.array(placed)
    return Assemblies.of(evidence, poses, some)


@pytest.mark.parametrize("seed", range(3))
def test_many_points_lead_nearer_to_the_truth_than_few(seed):
    evidence, detail, true = finely_taken_apart(slices(3, FINE, seed), FEW, seed)
    start = given(evidence, disturbed(true, 1, 0.01, seed)[None])
    assert errors(start.poses[0], true)[0] > 1
    coarse = errors(start.polish(evidence).poses[0], true)
    fine = errors(finish(evidence, start, detail, 1, Budget()).poses[0], true)
    assert fine[0] < min(0.6 * coarse[0], 0.15)
    assert fine[1] < min(0.6 * coarse[1], 0.005)


def rod(height: float, seed: int, count: int = 5000) -> list[Fragment]:
    """The two halves of a round rod, broken across with a relief so low that they hardly resist turning."""
    rng, radius, halves = np.random.default_rng(seed), 0.5, []
    for side in (-1, 1):
        angle, reach = rng.uniform(0, 2 * np.pi, (2, count)), np.stack([np.sqrt(rng.random(count)), np.ones(count)])
        x, y = radius * reach * np.cos(angle), radius * reach * np.sin(angle)
        first, second = 9 * x + 2 * y, 7 * y
        z = height * np.sin(first) * np.cos(second)
        by_x = 9 * height * np.cos(first) * np.cos(second)
        by_y = height * (2 * np.cos(first) * np.cos(second) - 7 * np.sin(first) * np.sin(second))
        across = np.stack([by_x, by_y, -np.ones_like(z)], axis=2)[0] * side
        z[1] += (0.6 * side - z[1]) * rng.random(count)
        normals = [across / np.linalg.norm(across, axis=1, keepdims=True), np.stack([x, y, 0 * x], axis=2)[1] / radius]
        broken = np.repeat([1.0, 0.0], count)
        halves.append(Fragment(np.stack([x, y, z], axis=2).reshape(-1, 3), np.concatenate(normals), broken))
    return halves


@pytest.mark.parametrize("seed", range(2))
def test_what_hardly_resists_is_tried_further_away(seed, monkeypatch):
    """A rod turned about its own axis, out of reach of the refinement alone."""
    evidence, detail, true = finely_taken_apart(rod(0.01, seed), FEW, seed)
    off = true.copy()
    off[1] = rigid_motions(Rotation.from_euler("z", 15, degrees=True).as_matrix(), np.zeros(3)) @ off[1]
    found = finish(evidence, given(evidence, off[None]), detail, 1, Budget())
    assert errors(found.poses[0], true)[0] < 5
    monkeypatch.setattr(sys.modules["eda.assembly.search.finish"], "DIRECTIONS", 0)
    alone = finish(evidence, given(evidence, off[None]), detail, 1, Budget())
    assert errors(alone.poses[0], true)[0] > 9
    assert found.score[0] > alone.score[0] + 0.1


def test_what_lies_right_does_not_slide(monkeypatch):
    """Wherever it is tried further away is worse."""
    evidence, detail, true = finely_taken_apart(rod(0.01, 0), FEW)
    tried: list[int] = []
    module = sys.modules["eda.assembly.search.finish"]
    monkeypatch.setattr(module, "refine", lambda fine, poses, *more: tried.append(len(poses)) or poses)
    found = finish(evidence, given(evidence, true[None]), detail, 1, Budget())
    assert tried == [1, 4]
    np.testing.assert_array_equal(found.poses[0], true)


@pytest.mark.parametrize("refined", ["well", "badly", "at random"])
def test_no_assembly_is_left_for_one_that_is_judged_worse(refined, monkeypatch):
    """The judge is the mean of the scores of few and of many points, whatever refining comes to."""
    evidence, detail, true = finely_taken_apart(slices(3, 900.0), FEW)
    rng, module = np.random.default_rng(0), sys.modules["eda.assembly.search.finish"]
    if refined != "well":
        degrees = {"badly": 4, "at random": 170}[refined]

        def astray(fine: Evidence, poses: np.ndarray, *more: object) -> np.ndarray:
            moved = [random_motion_of_size(rng, degrees, 0.05) @ pose for pose in poses.reshape(-1, 4, 4)]
            return np.stack(moved).reshape(poses.shape)

        monkeypatch.setattr(module, "refine", astray)
    before = given(evidence, np.stack([disturbed(true, degrees, 0.01 * degrees) for degrees in (0.5, 1, 4)]))
    fine = detail.near_joints(evidence, before.poses, before.placed)

    def judged(of: Assemblies) -> np.ndarray:
        return np.mean([score_assemblies(some, of.poses, of.placed).score for some in (evidence, fine)], axis=0)

    after = finish(evidence, before, detail, 3, Budget())
    assert judged(after)[0] >= judged(before).max()
    np.testing.assert_allclose(after.score, judged(after))
    assert (np.diff(after.score) <= 0).all()


def test_when_time_is_over_the_best_are_as_they_were():
    evidence, detail, true = finely_taken_apart(slices(3, DENSITY), FEW)
    before = given(evidence, np.stack([disturbed(true, 20, 0.2), disturbed(true, 2, 0.02)]))
    found = finish(evidence, before, detail, 1, Budget(0.0))
    np.testing.assert_array_equal(found.poses, before.poses[[1]])
    np.testing.assert_array_equal(found.score, before.score[[1]])


def test_as_many_distinct_ones_as_are_wanted_come_back_and_progress_is_told():
    evidence, detail, true = finely_taken_apart(slices(2, DENSITY), FEW)
    poses = np.stack([true, true, *(disturbed(true, 40, 0.3, seed) for seed in range(3))])
    told: list[float] = []
    budget = Budget(progress=lambda stage, share: told.append(share) if stage == Stage.FINISH else None)
    for count, wanted in ((1, 1), (3, 3), (9, 4)):
        assert len(finish(evidence, given(evidence, poses), detail, count, budget)) == wanted
    assert told == [0.0, 0.5] * 3


def test_nothing_found_stays_nothing():
    evidence, detail, _ = finely_taken_apart(slices(2, DENSITY), FEW)
    assert len(finish(evidence, Assemblies.none(2), detail, 3, Budget())) == 0


def test_pieces_that_are_not_placed_stay_as_they_were():
    evidence, detail, true = finely_taken_apart(slices(3, 900.0), FEW)
    start = disturbed(true, 1, 0.01)
    before = given(evidence, start[None], [[True, True, False]])
    found = finish(evidence, before, detail, 1, Budget())
    assert found.placed.tolist() == [[True, True, False]]
    np.testing.assert_array_equal(found.poses[0, 2], start[2])
    assert errors(found.poses[0, :2], true[:2])[0] < errors(start[:2], true[:2])[0] / 2
