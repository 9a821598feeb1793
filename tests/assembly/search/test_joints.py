"""Joints of a pair: refined from afar and near by, and each pose only once."""

import sys

import numpy as np
import pytest
from support.quick_search import DENSITY
from support.rigid_motions import random_motion_of_size
from support.sliced_block import SIZE, disturbed, slices, taken_apart

from eda.assembly import Evidence, Fragment, JointConfig, Proposals, refine, score_assemblies
from eda.assembly.search.joints import NEARBY, find_joints


def meeting_in_part(share: float, seed: int) -> tuple[Evidence, np.ndarray]:
    """Two slices, of the second of which only this share is there; and the first one in its frame, a little off."""
    whole, other = slices(2, 300.0, seed)
    kept = other.points[:, 1] < share * SIZE[1]
    part = Fragment(other.points[kept], other.normals[kept], other.break_probability[kept])
    evidence, true = taken_apart([whole, part], seed)
    start = disturbed(true, 5, 0.04, seed)
    return evidence, np.linalg.inv(start[1]) @ start[0]


@pytest.mark.parametrize(("share", "seed", "near_is_better"), [(0.35, 1, True), (0.35, 3, True), (0.5, 3, False)])
def test_a_rough_proposal_leads_to_the_better_of_a_far_and_a_near_fit(share, seed, near_is_better):
    evidence, relative = meeting_in_part(share, seed)
    start = np.stack([relative, np.eye(4)])[None]
    far, near = (score_assemblies(evidence, refine(evidence, start, config=how)).score[0] for how in (None, NEARBY))
    assert (near > far + 0.02) == near_is_better
    found = find_joints(evidence, (0, 1), Proposals(rough=relative[None]), JointConfig())
    assert found[0].score > max(far, near) - 0.01  # from afar, the first steps are taken with fewer points


def test_proposals_that_hardly_differ_are_refined_and_scored_once(monkeypatch):
    evidence, true = taken_apart(slices(2, DENSITY))
    rng, module = np.random.default_rng(0), sys.modules["eda.assembly.search.joints"]
    relative = np.linalg.inv(true[1]) @ true[0]
    distinct = np.stack([relative @ random_motion_of_size(rng, degrees, 0.05) for degrees in (8, 25, 90)])
    alike = np.stack([pose @ random_motion_of_size(rng, 0.1, 0.001) for pose in distinct for _ in range(4)])
    every = np.concatenate([distinct, alike])
    expected = find_joints(evidence, (0, 1), Proposals(rough=distinct, close=distinct[:1]), JointConfig())
    refined, scored = [], []
    monkeypatch.setattr(
        module,
        "refine",
        lambda two, poses, *more, **how: refined.append(len(poses)) or refine(two, poses, *more, **how),
    )
    monkeypatch.setattr(
        module, "score_assemblies", lambda two, poses: scored.append(len(poses)) or score_assemblies(two, poses)
    )
    found = find_joints(evidence, (0, 1), Proposals(rough=every, close=every[[0, 3, 4]]), JointConfig())
    assert sorted(refined) == [1, 3, 3, 3]  # near by of the close one; from afar in two halves and near by of the rough
    assert scored[0] < 3 + 3 + 1  # those of 8 degrees all come to the same place
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.relative, other.relative)
        assert one.score == other.score


def test_nothing_proposed_makes_no_joint():
    evidence, _ = taken_apart(slices(2, DENSITY))
    assert find_joints(evidence, (0, 1), Proposals(), JointConfig()) == []
