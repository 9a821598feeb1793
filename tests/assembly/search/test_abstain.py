"""What is left out: pieces that are probably wrong, and what only hung on them."""

from dataclasses import replace

import numpy as np
import pytest
from support.believers import Believer
from support.quick_search import DENSITY, SAMPLED
from support.sliced_block import slices, taken_apart

from eda.assembly import rank
from eda.assembly.confidence import Probabilities
from eda.assembly.search.abstain import LEAST_CONFIDENCE, leave_out

CHAIN = np.eye(4, k=1)[None] + np.eye(4, k=-1)[None]  # the joints of four pieces in a row
ALL, NONE = np.ones(4, dtype=bool), np.zeros(4, dtype=bool)


def left(pieces: list[float], pinned: np.ndarray = NONE, placed: np.ndarray = ALL) -> tuple[list[bool], list[float]]:
    """What stays of a row of pieces that are believed so far, and what is said of the others."""

    def believe(now: np.ndarray) -> Probabilities:
        joints = CHAIN * now[:, None] * now
        return Probabilities(joints, np.array([pieces]) * joints.any(axis=2), np.ones(1))

    stay, rejected = leave_out(placed, pinned, believe)
    return stay.tolist(), rejected.tolist()


LOW = LEAST_CONFIDENCE / 2


@pytest.mark.parametrize(
    ("pieces", "pinned", "stay"),
    [
        ([0.9, 0.9, 0.9, 0.9], [], [1, 1, 1, 1]),
        ([0.9, 0.9, 0.9, LOW], [], [1, 1, 1, 0]),
        ([0.9, 0.9, LOW, 0.9], [], [1, 1, 0, 0]),  # what hung on it goes too
        ([LOW, 0.9, LOW, 0.9], [], [0, 0, 0, 0]),  # one piece alone is no assembly
        ([LOW, LOW, LOW, LOW], [], [0, 0, 0, 0]),
        ([0.9, 0.9, LOW, 0.9], [3], [0, 0, 0, 1]),  # what is pinned is the body
        ([LOW, 0.9, 0.9, 0.9], [0], [1, 1, 1, 1]),  # and is not in question
        ([LOW, LOW, LOW, LOW], [1], [0, 1, 0, 0]),
    ],
)
def test_what_stays(pieces, pinned, stay):
    assert left(pieces, np.isin(range(4), pinned))[0] == [bool(one) for one in stay]


def test_what_is_left_out_says_how_likely_it_was():
    assert left([0.9, 0.9, LOW, 0.9])[1] == [0, 0, LOW, 0], "the last holds nowhere without its neighbour"
    assert left([0.9] * 4, placed=NONE) == ([False] * 4, [0.0] * 4)


def test_the_best_is_without_it_and_the_alternative_has_it():
    evidence, true = taken_apart(slices(3, DENSITY))
    believing = replace(SAMPLED, confidence=Believer(pieces=(0.9, 0.9, LOW)))
    best, second, *_ = rank(evidence, true[None], believing)
    assert best.placed.tolist() == [True, True, False]
    assert best.why_unplaced(2) == f"left out: its best place is {LOW:.0%} likely"
    assert best.why_unplaced(0) is None
    assert second.placed.all()
    np.testing.assert_array_equal(best.poses[:2], second.poses[:2])


def test_strangers_are_not_put_together():
    """The ends of two different blocks."""
    evidence, true = taken_apart([slices(2, DENSITY)[0], slices(6, DENSITY, seed=4)[4]])
    best = rank(evidence, true[None], replace(SAMPLED, confidence=Believer(whole=LOW)))[0]
    assert not best.placed.any()
    assert best.probability == 0
