"""An assembly of scans is as likely right as the joints that connect it."""

import numpy as np
import pytest

from eda.assembly import Evidence, Fragment, ScanContact
from eda.assembly.confidence import AssemblyStats, ScanConfidence
from eda.assembly.contact.score import AssemblyScores

CLOUD = np.random.default_rng(0).normal(size=(20, 3))
EVIDENCE = Evidence.of([Fragment(CLOUD, CLOUD, np.zeros(20))] * 4, ScanContact())


def stats_of(joints: dict[tuple[int, int], float], placed: list[bool], pinned: list[bool]) -> AssemblyStats:
    """Of one assembly of four pieces, by the probabilities of its joints."""
    good = np.zeros((1, 4, 4))
    for (i, j), likely in joints.items():
        good[0, i, j] = good[0, j, i] = likely
    nothing = np.zeros_like(good)
    scores = AssemblyScores(good, nothing, nothing, nothing, good, good, good.sum(axis=2), good.sum(axis=(1, 2)))
    return AssemblyStats(
        EVIDENCE, np.zeros((1, 4, 4, 4)), scores, np.array([placed]), np.array(pinned), np.zeros(1), nothing
    )


ALL, NONE = [True] * 4, [False] * 4


@pytest.mark.parametrize(
    ("joints", "placed", "pinned", "whole"),
    [
        ({(0, 1): 0.9, (1, 2): 0.8, (2, 3): 0.5}, ALL, NONE, 0.9 * 0.8 * 0.5),  # a chain is as sure as all its joints
        ({(0, 1): 0.9, (0, 2): 0.8, (0, 3): 0.5}, ALL, NONE, 0.9 * 0.8 * 0.5),  # and so is a star
        ({(0, 1): 0.9}, [True, True, False, False], NONE, 0.9),
        ({(0, 1): 0.9, (0, 2): 0.3, (1, 2): 0.7}, [True, True, True, False], NONE, 0.9 * 0.7),
        # of pieces that are pinned nothing is in question
        ({(0, 1): 0.9, (1, 2): 0.8, (2, 3): 0.5}, ALL, [True, True, False, False], 0.8 * 0.5),
        ({(0, 1): 0.9, (1, 2): 0.8, (2, 3): 0.5}, ALL, [True, False, False, False], 0.9 * 0.8 * 0.5),
        # a weak bridge is weak, and without any there is no whole
        ({(0, 1): 0.9, (2, 3): 0.9, (1, 2): 0.15}, ALL, NONE, 0.9 * 0.9 * 0.15),
        ({(0, 1): 0.9, (2, 3): 0.9}, ALL, NONE, 0),
        ({(0, 1): 0.9, (2, 3): 0.9}, ALL, [True, True, False, False], 0),
        ({(0, 1): 1.0, (1, 2): 1.0, (2, 3): 1.0}, ALL, NONE, 1),
        ({}, [True, False, False, False], NONE, 1),
        ({}, NONE, NONE, 1),
    ],
)
def test_the_whole_is_as_sure_as_what_it_hangs_by(joints, placed, pinned, whole):
    found = ScanConfidence().assemblies(stats_of(joints, placed, pinned))
    np.testing.assert_allclose(found, [whole], atol=1e-12)


def test_a_piece_is_as_sure_as_the_surest_of_its_joints():
    found = stats_of({(0, 1): 0.9, (1, 2): 0.8, (1, 3): 0.85, (2, 3): 0.5}, ALL, NONE)
    np.testing.assert_allclose(ScanConfidence().pieces(found), [[0.9, 0.9, 0.8, 0.85]])
    np.testing.assert_allclose(ScanConfidence().joints(found)[0, 1], [0.9, 0, 0.8, 0.85])
