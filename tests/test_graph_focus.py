"""The pyramid of pieces with a focus: what its levels keep, and what it has in common with one without."""

import math
from dataclasses import replace

import pytest
import torch
from support.break_caps import cap_of, dense_batch, shuffled_points
from support.lumpy_shapes import lumpy_pieces
from support.rigid_motions import random_se3

from eda import Pieces
from eda.focus import thin
from eda.graph import Pyramid

OPTIONS = {"num_levels": 3, "ratio": 0.25, "num_neighbors": 6}


def focused(pieces: Pieces, share: float) -> Pieces:
    return replace(pieces, focus=cap_of(pieces, share))


def names_of_levels(pyramid: Pyramid) -> list[torch.Tensor]:
    """The points of every level, by their rows in the pieces that the pyramid was built of."""
    below, names = pyramid.order, []
    for level in pyramid.levels:
        below = below[level.parent]
        names.append(below)
    return names


def assert_every_other_point_in_focus(pieces: Pieces, pyramid: Pyramid) -> None:
    """Of every piece at every level, as far as the piece has enough."""
    there_are = [int(inside.sum()) for inside in pieces.focus.split(pieces.sizes.tolist())]
    for level, names in zip(pyramid.levels, names_of_levels(pyramid), strict=True):
        for total, inside in zip(there_are, pieces.focus[names].split(level.sizes.tolist()), strict=True):
            assert int(inside.sum()) >= min(math.ceil(len(inside) / 2), total)


def assert_same_graph(one: Pyramid, other: Pyramid) -> None:
    assert torch.equal(one.order, other.order)
    for first, second in zip(one.levels, other.levels, strict=True):
        for name in ("sizes", "parent", "points", "down", "within"):
            assert torch.equal(getattr(first, name), getattr(second, name)), name


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.45])
def test_every_other_point_of_a_level_is_in_the_focus(share):
    pieces = focused(dense_batch(), share)
    assert_every_other_point_in_focus(pieces, Pyramid.build(pieces, **OPTIONS))


def test_most_points_of_a_level_are_outside_without_a_focus():
    """So that it is the focus that decides."""
    pieces = dense_batch()
    for names in names_of_levels(Pyramid.build(pieces, **OPTIONS)):
        assert cap_of(pieces, 0.1)[names].double().mean() < 0.3


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_every_other_point_of_a_level_is_in_the_focus_of_thinned_pieces(share):
    """In which about half of the points have it already, of some pieces more and of some less."""
    dense = dense_batch(2000, 1500)
    pieces = thin(dense, 400, cap_of(dense, share))
    assert_every_other_point_in_focus(pieces, Pyramid.build(pieces, **OPTIONS))


@pytest.mark.parametrize("share", [0.1, 0.3, 0.45])
def test_the_rest_of_a_level_is_not(share):
    pieces = focused(dense_batch(), share)
    for level, names in zip(*(lambda p: (p.levels, names_of_levels(p)))(Pyramid.build(pieces, **OPTIONS)), strict=True):
        for inside in pieces.focus[names].split(level.sizes.tolist()):
            assert inside.sum() < 0.75 * len(inside)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7])
def test_levels_are_nested_and_as_large_as_without_a_focus(share):
    pieces = focused(dense_batch(), share)
    pyramid, plain = (Pyramid.build(p, **OPTIONS) for p in (pieces, dense_batch()))
    assert [level.sizes.tolist() for level in pyramid.levels] == [level.sizes.tolist() for level in plain.levels]
    finer, points, piece = pyramid.order, pyramid.pieces.points, pieces.piece_of_point
    for level, names in zip(pyramid.levels, names_of_levels(pyramid), strict=True):
        assert len(names.unique()) == len(names)
        assert set(names.tolist()) < set(finer.tolist())
        assert torch.equal(piece[names].bincount(), level.sizes)
        assert torch.equal(level.points, points[level.parent])
        finer, points = names, level.points


@pytest.mark.parametrize("value", [True, False])
def test_a_focus_everywhere_or_nowhere_changes_no_level(value):
    pieces = dense_batch()
    alike = replace(pieces, focus=torch.full((len(pieces.points),), value))
    assert_same_graph(Pyramid.build(alike, **OPTIONS), Pyramid.build(pieces, **OPTIONS))


def test_the_focus_is_in_the_order_of_the_points():
    pieces = focused(dense_batch(), 0.2)
    pyramid = Pyramid.build(pieces, **OPTIONS)
    assert torch.equal(pyramid.pieces.focus, pieces.focus[pyramid.order])
    assert not torch.equal(pyramid.pieces.focus, pieces.focus)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_levels_do_not_depend_on_poses(dtype):
    pieces = focused(dense_batch(), 0.2)
    still, moved = (Pyramid.build(p.to(dtype=dtype), **OPTIONS) for p in (pieces, pieces.move(random_se3(5))))
    for one, other in zip(names_of_levels(still), names_of_levels(moved), strict=True):
        assert set(one.tolist()) == set(other.tolist())


def test_the_levels_do_not_depend_on_the_order_of_points():
    pieces = focused(dense_batch(), 0.2)
    order = shuffled_points(pieces)
    still, shuffled = (Pyramid.build(p, **OPTIONS) for p in (pieces, pieces.reorder(order)))
    for one, other in zip(names_of_levels(still), names_of_levels(shuffled), strict=True):
        assert set(one.tolist()) == set(order[other].tolist())


def test_pyramids_with_and_without_a_focus_collate():
    parts = [focused(lumpy_pieces(3, 200), 0.2), lumpy_pieces(2, 150, seed=1)]
    collated = Pyramid.collate([Pyramid.build(part, **OPTIONS) for part in parts])
    together = Pyramid.build(Pieces.collate(parts), **OPTIONS)
    assert_same_graph(collated, together)
    assert torch.equal(collated.pieces.focus, together.pieces.focus)
