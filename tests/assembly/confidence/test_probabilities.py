"""Probabilities of joints, pieces and wholes that do not contradict each other, whatever is believed of each."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from eda.assembly import Evidence, Fragment
from eda.assembly.confidence import AssemblyStats, Probabilities
from eda.assembly.contact.score import AssemblyScores

CLOUD = np.random.default_rng(0).normal(size=(20, 3))


def drawn(rng: np.random.Generator) -> tuple[AssemblyStats, Probabilities]:
    """Random contacts, placements and beliefs of 40 assemblies of 2 to 6 pieces."""
    n, k = int(rng.integers(2, 7)), 40
    evidence = Evidence.of([Fragment(CLOUD, CLOUD, np.zeros(20))] * n)
    placed = rng.random((k, n)) < 0.8
    good = rng.random((k, n, n)) * (rng.random((k, n, n)) < 0.3) * placed[:, :, None] * placed[:, None]
    good[:, range(n), range(n)] = 0
    zeros = np.zeros_like(good)
    scores = AssemblyScores(good, zeros, zeros, zeros, good, good, good.sum(axis=2), good.sum(axis=(1, 2)))
    pinned = rng.random(n) < 0.2 * rng.integers(0, 2)
    stats = AssemblyStats(evidence, np.tile(np.eye(4), (k, n, 1, 1)), scores, placed, pinned, np.zeros(k), zeros)
    return stats, Probabilities(rng.random((k, n, n)), rng.random((k, n)), rng.random(k))


@pytest.mark.parametrize("seed", range(20))
def test_nothing_contradicts(seed):
    stats, believed = drawn(np.random.default_rng(seed))
    found = believed.consistent(stats)
    assert ((found.joints > 0) <= stats.touching).all(), "what does not touch has no joint"
    np.testing.assert_array_equal(found.joints, found.joints.swapaxes(1, 2))
    assert (found.pieces <= found.joints.max(axis=2)).all(), "a piece is connected by right joints"
    for k in range(len(found.wholes)):
        asked = stats.placed[k] & ~stats.pinned
        assert (found.wholes[k] <= found.pieces[k, asked]).all(), "the whole needs all its pieces"
        assert (found.joints[k][stats.touching[k]] >= found.wholes[k]).all(), "a right whole has right joints"


@pytest.mark.parametrize("seed", range(20))
def test_two_pieces_are_right_just_if_their_joint_is(seed):
    stats, believed = drawn(np.random.default_rng(seed))
    found = believed.consistent(stats)
    for k in np.flatnonzero((stats.placed.sum(axis=1) == 2) & ~stats.placed[:, stats.pinned].any(axis=1)):
        i, j = np.flatnonzero(stats.placed[k])
        assert found.joints[k, i, j] == found.pieces[k, i] == found.pieces[k, j] == found.wholes[k]


def test_what_is_consistent_stays_as_it_is():
    stats, believed = drawn(np.random.default_rng(3))
    once = believed.consistent(stats)
    again = once.consistent(stats)
    for before, after in zip(vars(once).values(), vars(again).values(), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("seed", range(5))
def test_a_whole_in_parts_that_do_not_touch_is_not_believed(seed):
    """A piece on its own has no joint, so it is not in its place, and neither is a whole with it."""
    stats, believed = drawn(np.random.default_rng(seed))
    found = believed.consistent(stats)
    for k, placed in enumerate(stats.placed):
        alone = placed & ~stats.pinned & ~stats.touching[k].any(axis=1)
        _, group = connected_components(stats.touching[k], directed=False)
        assert found.wholes[k] == 0 or not alone.any() or len(np.unique(group[placed])) == 1
