"""From samples to a ranked list: pooling, docking, what fits nowhere, and confidence."""

import sys

import numpy as np
import pytest
from support.believers import Believer
from support.quick_search import DENSITY, QUICK, SAMPLED
from support.rigid_motions import random_motion_of_size
from support.sliced_block import disturbed, errors, slices, taken_apart

from eda import InputError
from eda.assembly import (
    Alternative,
    Evidence,
    Proposals,
    RankConfig,
    rank,
    refine,
    score_assemblies,
)
from eda.assembly.search.rank import DOUBT
from eda.budget import Budget, Stage


def solved(candidate: Alternative, true: np.ndarray) -> bool:
    degrees, distance = errors(candidate.poses, true)
    return bool(candidate.placed.all()) and degrees < 5 and distance < 0.05


def no_samples(num_pieces: int) -> np.ndarray:
    return np.zeros((0, num_pieces, 4, 4))


def half_right(true: np.ndarray, wrong: int, seed: int) -> np.ndarray:
    """A sample with all pieces roughly right but one."""
    sample = disturbed(true, 8, 0.04, seed)
    sample[wrong] = random_motion_of_size(np.random.default_rng(seed), 150, 0.8) @ sample[wrong]
    return sample


def test_two_half_right_samples_make_one_right_whole():
    evidence, true = taken_apart(slices(3, DENSITY))
    samples = np.stack([half_right(true, 0, 1), half_right(true, 2, 2)])
    for refined in refine(evidence, samples):
        assert errors(refined, true)[0] > 20
    best, *others = rank(evidence, samples, SAMPLED)
    assert solved(best, true)
    assert all(best.score > other.score for other in others)


def test_two_pieces_go_together_without_any_sample():
    evidence, true = taken_apart(slices(2, DENSITY))
    assert solved(rank(evidence, no_samples(2), QUICK)[0], true)


def test_a_foreign_piece_is_left_out():
    """A slice of another block, cut elsewhere, among samples that all claim a place for it."""
    ours, other = slices(2, DENSITY), slices(6, DENSITY, seed=4)[4]
    evidence, true = taken_apart([*ours, other])
    samples = np.stack([disturbed(true, 10, 0.05, seed) for seed in range(4)])
    best = rank(evidence, samples, QUICK)[0]
    assert best.unplaced == [2]
    assert errors(best.poses[:2], true[:2])[0] < 5
    assert best.confidence[2] == 0
    assert (best.confidence[:2] > 0).all()


def test_samples_are_also_refined_as_they_are(monkeypatch):
    """Where no joint is found, a sample that is nearly right still leads to the solution, without the stranger."""
    monkeypatch.setattr(sys.modules["eda.assembly.search.candidates"], "find_joints", lambda *given: [])
    ours, other = slices(3, DENSITY), slices(6, DENSITY, seed=4)[4]
    evidence, true = taken_apart([*ours, other])
    true[3] = random_motion_of_size(np.random.default_rng(3), 90, 0.2) @ true[0]
    best = rank(evidence, disturbed(true, 4, 0.03)[None], SAMPLED)[0]
    assert best.unplaced == [3]
    assert errors(best.poses[:3], true[:3])[0] < 2
    assert rank(evidence, no_samples(4), SAMPLED)[0].unplaced == [0, 1, 2, 3]


def test_where_nothing_fits_nothing_is_placed():
    evidence = Evidence.of([slices(2, DENSITY)[0], slices(6, DENSITY, seed=4)[4]])
    best = rank(evidence, no_samples(2), RankConfig(docking=None))[0]
    assert best.unplaced == [0, 1]
    assert best.probability == 0


def test_moving_the_samples_changes_nothing():
    evidence, true = taken_apart(slices(3, DENSITY))
    samples = np.stack([half_right(true, 0, 1), half_right(true, 2, 2)])
    rng = np.random.default_rng(0)
    moved = np.stack([random_motion_of_size(rng, 120, 3.0) @ sample for sample in samples])
    here, there = rank(evidence, samples, SAMPLED), rank(evidence, moved, SAMPLED)
    assert there[0].score == pytest.approx(here[0].score, abs=0.02)
    assert errors(there[0].poses, here[0].poses)[0] < 0.5


def test_the_order_of_the_pieces_changes_nothing():
    fragments = slices(3, DENSITY)
    true = np.tile(np.eye(4), (3, 1, 1))
    samples = np.stack([half_right(true, 0, 1), half_right(true, 2, 2)])
    order = [2, 0, 1]
    here = rank(Evidence.of(fragments), samples, SAMPLED)[0]
    there = rank(Evidence.of([fragments[i] for i in order]), samples[:, order], SAMPLED)[0]
    assert solved(here, true)
    assert solved(there, true)
    assert there.score == pytest.approx(here.score, abs=0.02)


def test_the_same_question_has_the_same_answer():
    evidence, _ = taken_apart(slices(2, DENSITY))
    first, second = (rank(evidence, no_samples(2), QUICK) for _ in range(2))
    np.testing.assert_array_equal(first[0].poses, second[0].poses)
    assert [c.score for c in first] == [c.score for c in second]


def test_progress_is_told_and_when_time_is_over_samples_are_judged_as_they_are():
    evidence, true = taken_apart(slices(2, DENSITY))
    told: list[tuple[Stage, float]] = []
    samples = np.stack([disturbed(true, 20, 0.1), true])
    best, other = rank(evidence, samples, budget=Budget(0.0, lambda stage, share: told.append((stage, share))))
    np.testing.assert_array_equal(best.poses, true)
    np.testing.assert_array_equal(other.poses, samples[0])
    assert told[-1] == (Stage.RANK, 1.0)


def test_when_time_is_over_nothing_is_placed_without_samples():
    evidence, _ = taken_apart(slices(2, DENSITY))
    assert rank(evidence, no_samples(2), budget=Budget(0.0))[0].unplaced == [0, 1]


def test_unrefined_samples_keep_their_poses():
    evidence, true = taken_apart(slices(3, DENSITY))
    samples = np.stack([half_right(true, 0, 1), disturbed(true, 2, 0.01)])
    best = rank(evidence, samples, RankConfig(refine=False))[0]
    np.testing.assert_array_equal(best.poses, samples[1])
    assert best.placed.all()


def test_rigid_groups_keep_their_places_exactly():
    """The outer two of three slices are pinned; the middle one is found from samples that are 20 degrees off."""
    evidence, true = taken_apart(slices(3, DENSITY))
    samples = np.stack([disturbed(true, 20, 0.08, seed) for seed in range(3)])
    samples[:, [0, 2]] = true[[0, 2]]
    best = rank(evidence, samples, SAMPLED, rigid=[[2, 0]])[0]
    assert solved(best, true)
    kept, wanted = (np.linalg.inv(poses[0]) @ poses[2] for poses in (best.poses, true))
    np.testing.assert_allclose(kept, wanted, atol=1e-12)


def test_a_rigid_group_is_placed_even_if_nothing_fits_it():
    ours, other = slices(2, DENSITY), slices(6, DENSITY, seed=4)[4]
    evidence, true = taken_apart([*ours, other])
    far = true.copy()
    far[1, :3, 3] += 5
    best = rank(evidence, far[None], SAMPLED, rigid=[[0, 2]])[0]
    assert best.unplaced == [1]
    everything = rank(evidence, far[None], SAMPLED, rigid=[[0, 1, 2]])[0]
    np.testing.assert_array_equal(everything.poses, far)
    assert everything.placed.all()


@pytest.mark.parametrize("rigid", [[[0, 1], [1, 2]], [[0, 3]]])
def test_rigid_groups_that_cannot_be_are_refused(rigid):
    evidence, true = taken_apart(slices(3, DENSITY))
    with pytest.raises(InputError, match="disjoint"):
        rank(evidence, true[None], rigid=rigid)


def test_samples_that_agree_support_a_candidate():
    evidence, true = taken_apart(slices(2, DENSITY))
    far = random_motion_of_size(np.random.default_rng(1), 170, 3.0)
    samples = np.stack([disturbed(true, 5, 0.02, seed) for seed in range(3)] + [np.stack([true[0], far])])
    best = rank(evidence, samples, SAMPLED)[0]
    assert solved(best, true)
    assert best.support == pytest.approx(2 / (4 + DOUBT))  # three agree, one of which may be its own


def test_a_single_sample_does_not_support_itself():
    evidence, true = taken_apart(slices(2, DENSITY))
    as_it_is = RankConfig(refine=False)
    wrong = disturbed(true, 120, 0.5)
    for sample in (true, wrong):
        assert rank(evidence, sample[None], as_it_is)[0].support == 0
    assert rank(evidence, wrong[None], as_it_is)[0].probability < 0.2


def test_probabilities_of_assemblies_that_contradict_each_other_leave_room_for_all():
    evidence, true = taken_apart(slices(3, DENSITY))
    samples = np.stack([true, *(disturbed(true, 8, 0.12, seed) for seed in range(5))])
    found = rank(evidence, samples, RankConfig(refine=False, confidence=Believer(whole=0.7)))
    touching = [one for one in found if one.confidence.min() > 0]  # all place all pieces, each in another way
    assert [one.probability for one in touching[:3]] == pytest.approx([0.7, 0.3, 0])


def test_an_assembly_is_no_likelier_than_its_least_sure_piece():
    evidence, true = taken_apart(slices(3, DENSITY))
    unsure = RankConfig(refine=False, confidence=Believer(pieces=(0.9, 0.6, 0.8)))
    best = rank(evidence, disturbed(true, 3, 0.02)[None], unsure)[0]
    assert best.probability == pytest.approx(best.confidence.min()) == 0.6


@pytest.mark.parametrize("shape", [(3, 4, 4), (1, 3, 4, 4), (1, 2, 3, 4)])
def test_samples_of_another_shape_are_refused(shape):
    evidence, _ = taken_apart(slices(2, DENSITY))
    with pytest.raises(InputError, match="samples"):
        rank(evidence, np.zeros(shape))


def test_a_better_assembly_is_more_probable():
    evidence, true = taken_apart(slices(2, DENSITY))
    good = rank(evidence, true[None], SAMPLED)[0]
    assert score_assemblies(evidence, true[None]).score[0] > 0.6
    assert good.probability > 0.5
    assert good.joints[0, 1] == good.joints[1, 0] > 0.5
    assert good.confidence.min() > 0.5


# -- proposers -------------------------------------------------------------------------------------------------------


class Oracle:
    """A proposer of the user's own: it knows the solution, and nothing else."""

    def __init__(self, true: np.ndarray) -> None:
        self.true, self.asked = true, []

    def propose(self, problem, budget):
        self.asked.append(len(problem.evidence))

        def of_pair(pair):
            i, j = pair
            return Proposals(close=(np.linalg.inv(self.true[j]) @ self.true[i])[None])

        return of_pair


def test_a_proposer_of_ones_own_is_asked_once_and_what_it_proposes_is_found():
    evidence, true = taken_apart(slices(3, DENSITY))
    oracle = Oracle(true)
    best = rank(evidence, no_samples(3), RankConfig(docking=None, proposers=(oracle,)))[0]
    assert oracle.asked == [3]
    assert solved(best, true)
    nobody = rank(evidence, no_samples(3), RankConfig(docking=None, proposers=()))[0]
    assert nobody.unplaced == [0, 1, 2]
