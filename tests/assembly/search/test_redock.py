"""A piece is docked again to the rest of an assembly."""

import numpy as np
from support.quick_search import DENSITY, QUICK
from support.sliced_block import slices, taken_apart

from eda.assembly.search.assemblies import Assemblies
from eda.assembly.search.joints import JointConfig
from eda.assembly.search.redock import dock_piece


def test_a_piece_is_docked_to_the_rest_as_that_is_without_it():
    evidence, true = taken_apart(slices(3, DENSITY))
    one = Assemblies.of(evidence, true[None], np.ones((1, 3), dtype=bool))
    found = dock_piece(evidence, one, 2, JointConfig(), QUICK.docking)
    wanted = Assemblies.of(evidence, found.poses, found.placed)
    assert len(found)
    np.testing.assert_allclose(found.score, wanted.score)
