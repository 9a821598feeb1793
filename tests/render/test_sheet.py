"""Contact sheets: tiles and views."""

import numpy as np
import pytest
from support.picture_scenes import blob, is_background

from eda import InputError
from eda.render import SheetStyle, contact_sheet
from eda.render.sheet import tile

SMALL = SheetStyle(columns=2, view=48)


def test_a_sheet_has_a_tile_for_every_example():
    examples = [blob(), blob(foreign=True), blob(contact=False)]
    told = []
    page = contact_sheet(examples, SMALL, progress=lambda done, total: told.append((done, total)))
    width, height = SMALL.tile
    assert page.size == (2 * width, 2 * height)
    assert told == [(1, 3), (2, 3), (3, 3)]
    drawn = ~is_background(np.asarray(page))
    tiles = [drawn[r * height : (r + 1) * height, c * width : (c + 1) * width].any() for r in (0, 1) for c in (0, 1)]
    assert tiles == [True, True, True, False]


def test_the_third_view_is_for_those_that_know_their_breaks():
    third = (slice(54, None), slice(14 + 2 * 48, None))
    assert not is_background(np.asarray(tile(blob(), SMALL)))[third].all()
    assert is_background(np.asarray(tile(blob(contact=False), SMALL)))[third].all()
    assert SheetStyle(breaks=False).tile[0] < SheetStyle().tile[0]


def test_an_empty_sheet_is_refused():
    with pytest.raises(InputError, match="no examples"):
        contact_sheet([])
