"""Pieces merged to one fragment."""

import numpy as np
from support.quick_search import DENSITY
from support.sliced_block import slices

from eda.assembly import (
    Evidence,
)
from eda.assembly.search.merged_pieces import merge_fragments


def test_what_is_closed_is_no_longer_a_break():
    """Two of three slices together: closed is the cut between them, up to gaps in the random points, not the other."""
    fragments = slices(3, DENSITY)
    evidence = Evidence.of(fragments)
    whole = merge_fragments(evidence, np.tile(np.eye(4), (3, 1, 1)), np.array([True, True, False]))
    assert len(whole.points) == sum(len(f.points) for f in evidence.fragments[:2])
    still_open = whole.points[whole.break_probability > 0][:, 0]
    on_a_cut = sum(f.break_probability.sum() for f in fragments[:2]) / 3  # there are three sides of cuts in all
    assert (still_open < 0.9).sum() < 0.25 * 2 * on_a_cut
    assert (still_open > 0.9).sum() > 0.95 * on_a_cut
