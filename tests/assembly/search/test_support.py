"""Which pieces of an assembly are supported, and which of them are connected."""

from dataclasses import replace

import numpy as np
from support.believers import Believer
from support.quick_search import DENSITY, QUICK, SAMPLED
from support.sliced_block import slices, taken_apart

from eda.assembly import rank
from eda.assembly.search.assemblies import Assemblies
from eda.assembly.search.joints import JointConfig
from eda.assembly.search.support import is_connected, prune_unsupported


def test_what_does_not_hold_is_taken_out_one_by_one():
    """The last of a row of four lies far off, and takes no neighbour with it."""
    evidence, true = taken_apart(slices(4, DENSITY))
    off = true.copy()
    off[3, :3, 3] += 9
    found = prune_unsupported(evidence, np.stack([true, off]), JointConfig())
    assert found.placed.tolist() == [[True] * 4, [True, True, True, False]]
    wanted = Assemblies.of(evidence, np.stack([true, off]), found.placed)
    np.testing.assert_allclose(found.score, wanted.score)
    scattered = true.copy()
    scattered[:, :3, 3] += 9 * np.arange(4)[:, None]
    assert len(prune_unsupported(evidence, scattered[None], JointConfig())) == 0


def test_two_parts_between_which_nothing_holds_are_not_one_assembly():
    """Two slices of one block and two of another, far from each other in the sample."""
    evidence, true = taken_apart([*slices(3, DENSITY)[:2], *slices(6, DENSITY, seed=4)[4:6]])
    apart = true.copy()
    apart[2:, :3, 3] += 6
    found = prune_unsupported(evidence, apart[None], JointConfig())
    both = Assemblies.of(evidence, apart[None].repeat(2, 0), np.array([[1, 1, 0, 0], [0, 0, 1, 1]], dtype=bool))
    assert found.placed[0].tolist() == both.placed[both.score.argmax()].tolist()
    assert prune_unsupported(evidence, apart[None], JointConfig(), anchor=0).placed.tolist() == [
        [True, True, False, False]
    ]
    assert prune_unsupported(evidence, apart[None], JointConfig(), anchor=3).placed.tolist() == [
        [False, False, True, True]
    ]
    assert rank(evidence, apart[None], replace(SAMPLED, confidence=Believer()))[0].placed.sum() == 2
    # docking may find something that holds a little between any two parts, but then it must hold
    docked = rank(evidence, apart[None], replace(QUICK, confidence=Believer()))[0]
    assert is_connected(evidence, Assemblies.of(evidence, docked.poses[None], docked.placed[None])).all()
    assert is_connected(evidence, both).all()
    assert not is_connected(evidence, Assemblies.of(evidence, apart[None], np.ones((1, 4), dtype=bool))).any()
