"""Confidence in fractures: a right joint beside wrong ones, pieces that do not look broken, and old calibrations."""

from dataclasses import replace

import numpy as np
import pytest
from support.sliced_block import disturbed, slices, taken_apart

from eda import InputError
from eda.assembly import Evidence, regime_of, score_assemblies
from eda.assembly.confidence import AssemblyStats, FractureConfidence
from eda.assembly.confidence.features import FEATURES, Features, mean_support

CONFIDENCE = regime_of("fracture").confidence
assert isinstance(CONFIDENCE, FractureConfidence)


def stats_of(evidence: Evidence, poses: np.ndarray, support: float = 0.6) -> AssemblyStats:
    """Of assemblies that place all pieces, all equally supported by samples."""
    count, n = poses.shape[:2]
    placed, agreed = np.ones((count, n), dtype=bool), np.full((count, n, n), support) * (1 - np.eye(n))
    scores = score_assemblies(evidence, poses)
    return AssemblyStats(evidence, poses, scores, placed, np.zeros(n, dtype=bool), np.full(count, 0.1), agreed)


def looking(evidence: Evidence, share: float) -> Evidence:
    """The pieces as a detector sees them that finds so much of every break, and is in no doubt."""
    seen = np.random.default_rng(0)
    return Evidence.of(
        [replace(f, break_probability=f.break_probability * (seen.random(len(f.points)) < share)) for f in
         evidence.fragments]
    )  # fmt: skip


def test_the_right_assembly_is_likelier_than_wrong_ones():
    evidence, true = taken_apart(slices(3))
    poses = np.stack([true, disturbed(true, 15, 0.05, 1), disturbed(true, 90, 0.3, 2)])
    stats = stats_of(evidence, poses)
    found = CONFIDENCE.estimate(stats).consistent(stats)
    assert found.wholes[0] > 0.8
    assert (found.wholes[1:] < 0.2).all()
    assert (found.pieces[0] > found.pieces[2]).all()


def test_every_feature_has_a_name():
    evidence, true = taken_apart(slices(3))
    features = Features(stats_of(evidence, np.stack([true, true])))
    assert features.joints().shape == (2, 3, 3, len(FEATURES["joint"]))
    assert features.pieces().shape == (2, 3, len(FEATURES["piece"]))
    assert features.assemblies().shape == (2, len(FEATURES["assembly"]))
    np.testing.assert_array_equal(features.joints(), features.joints().swapaxes(1, 2))


def test_an_assembly_of_nothing_has_finite_features():
    evidence, true = taken_apart(slices(2))
    stats = replace(stats_of(evidence, true[None]), placed=np.zeros((1, 2), dtype=bool))
    assert np.isfinite(Features(stats).assemblies()).all()


def test_pieces_without_breaks_are_unlike_what_is_known():
    evidence, true = taken_apart(slices(3))
    assert CONFIDENCE.knows(evidence)
    smooth = looking(evidence, 0.005)
    assert not CONFIDENCE.knows(smooth)
    stats = stats_of(smooth, true[None])
    assert CONFIDENCE.estimate(stats).wholes[0] < 0.1


def test_where_nothing_looked_for_breaks_nothing_is_held_against_the_pieces():
    evidence, _ = taken_apart(slices(3))
    unseen = Evidence.of([replace(f, break_probability=np.full(len(f.points), 0.5)) for f in evidence.fragments])
    assert CONFIDENCE.knows(unseen)


def test_calibrations_of_other_features_are_refused():
    with pytest.raises(InputError, match=r"piece has 2 weights for 9 features.*calibrate the model again"):
        replace(CONFIDENCE, piece=replace(CONFIDENCE.piece, weights=(1.0, 2.0)))


def test_mean_support_is_over_the_pairs_placed():
    support = np.zeros((1, 3, 3))
    support[0, 0, 1] = support[0, 1, 0] = 0.6
    assert mean_support(support, np.array([[True, True, False]])) == pytest.approx(0.6)
    assert mean_support(support, np.array([[True, True, True]])) == pytest.approx(0.2)
    assert mean_support(0 * support, np.zeros((1, 3), dtype=bool)) == 0
