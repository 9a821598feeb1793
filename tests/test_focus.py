"""Clouds thinned with a focus: what is beside a break, by brute force, and which points are kept."""

import math

import numpy as np
import pytest
import torch
from support.break_caps import cap_of, dense_batch, points_by_piece, rows_in, shuffled_points
from support.lumpy_shapes import lumpy_cloud, lumpy_pieces
from support.rigid_motions import random_se3

from eda import Pieces
from eda.cloud import farthest_points_reference
from eda.focus import beside_breaks, thin
from eda.pieces import MIN_POINTS

# -- beside breaks -----------------------------------------------------------------------------------------


def beside_by_brute_force(pieces: Pieces, on_break: torch.Tensor, reach: float) -> list[bool]:
    """Every point against every point on a break of its own piece."""
    piece, points = pieces.piece_of_point.tolist(), pieces.points.tolist()
    breaks = [j for j, on in enumerate(on_break.tolist()) if on]
    return [
        any(piece[i] == piece[j] and math.dist(point, points[j]) <= reach for j in breaks)
        for i, point in enumerate(points)
    ]


@pytest.mark.parametrize("reach", [1e-6, 0.05, 0.2, 100.0])
def test_what_is_beside_a_break_is_what_brute_force_finds(reach):
    """Also of a piece without a break, which lies where one with a break lies."""
    pieces = dense_batch(60, 40)
    on_break = cap_of(pieces) & (pieces.piece_of_point != 1)
    found = beside_breaks(pieces, on_break, reach)
    assert found.dtype == torch.bool
    assert found.tolist() == beside_by_brute_force(pieces, on_break, reach)
    assert not found[pieces.piece_of_point == 1].any()
    assert found[on_break].all()


def test_the_reach_is_part_of_what_is_beside():
    line = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0], [0, 4, 0]])
    pieces = Pieces.from_clouds([line, line], dtype=torch.float64)
    unit, on_break = 1 / float(pieces.scales), torch.arange(10) == 0
    for reach, expected in [
        (0.999 * unit, [0]),
        (unit, [0, 1]),
        (2.001 * unit, [0, 1, 2]),
        (9 * unit, [0, 1, 2, 3, 4]),
    ]:
        assert beside_breaks(pieces, on_break, reach).nonzero().flatten().tolist() == expected


def test_without_a_break_nothing_is_beside_one():
    pieces = dense_batch(60, 40)
    assert not beside_breaks(pieces, torch.zeros(len(pieces.points), dtype=torch.bool)).any()


def lattice() -> tuple[Pieces, torch.Tensor, float]:
    """Two cubes of points with a corner on a break, and the distance of neighbours, at which three points lie."""
    grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 3), axis=-1).reshape(-1, 3)
    pieces = Pieces.from_clouds([grid, grid + 1], dtype=torch.float64)
    return pieces, torch.arange(128) % 64 == 0, 1 / float(pieces.scales)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_beside_a_break_turns_with_the_pieces(seed):
    """Also where points lie exactly at the reach."""
    blobs = dense_batch(60, 40)
    for pieces, on_break, reach in [(blobs, cap_of(blobs), 0.1), lattice()]:
        still = beside_breaks(pieces, on_break, reach)
        moved = beside_breaks(pieces.move(random_se3(pieces.num_pieces, seed)), on_break, reach)
        assert on_break.sum() < still.sum() < len(still)
        assert torch.equal(moved, still)
    assert still.sum() == 2 * 4


# -- thinning ----------------------------------------------------------------------------------------------

FOCI = [None, 0.02, 0.2, 0.5, 0.9]


def focus_of(pieces: Pieces, share: float | None) -> torch.Tensor | None:
    return None if share is None else cap_of(pieces, share)


def puzzle_of_point(pieces: Pieces) -> torch.Tensor:
    return pieces.puzzle_of_piece[pieces.piece_of_point]


@pytest.mark.parametrize("share", FOCI)
@pytest.mark.parametrize("budget", [30, 100, 333])
def test_every_puzzle_keeps_its_budget(budget, share):
    """And at most `MIN_POINTS` of every piece more."""
    pieces = dense_batch()
    few = thin(pieces, budget, focus_of(pieces, share))
    for b, kept in enumerate(puzzle_of_point(few).bincount().tolist()):
        assert budget <= kept <= budget + MIN_POINTS * int(few.counts[b])


@pytest.mark.parametrize("share", FOCI)
def test_a_budget_of_all_points_or_more_keeps_them_all(share):
    pieces = dense_batch(60, 40)
    focus = focus_of(pieces, share)
    for budget in (len(pieces.points), 10**6):
        few = thin(pieces, budget, focus)
        assert torch.equal(few.points, pieces.points)
        assert torch.equal(few.sizes, pieces.sizes)
        assert (few.focus is None) if focus is None else torch.equal(few.focus, focus)


@pytest.mark.parametrize("share", FOCI)
@pytest.mark.parametrize("budget", [1, 5, 40])
def test_every_piece_keeps_enough_points_to_be_oriented(budget, share):
    """Of a piece that is small, and of one without any focus too."""
    clouds = [lumpy_cloud(0, 500)[0], 0.01 * lumpy_cloud(1, 300)[0], lumpy_cloud(2, MIN_POINTS)[0]]
    pieces = Pieces.from_clouds(clouds, dtype=torch.float64)
    focus = focus_of(pieces, share)
    few = thin(pieces, budget, None if focus is None else focus & (pieces.piece_of_point == 0))
    assert few.sizes.min() >= MIN_POINTS
    assert few.sizes[2] == MIN_POINTS


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2, 0.4])
@pytest.mark.parametrize("budget", [60, 200])
def test_half_of_the_points_are_in_the_focus_as_far_as_there_are_enough(budget, share):
    pieces = dense_batch()
    focus, puzzle = cap_of(pieces, share), puzzle_of_point(pieces)
    few = thin(pieces, budget, focus)
    for b in range(2):
        inside, there_are = int(few.focus[puzzle_of_point(few) == b].sum()), int(focus[puzzle == b].sum())
        assert inside >= min(budget // 2, there_are)
        assert inside <= budget // 2 + 1 + MIN_POINTS * int(pieces.counts[b]), "and the other half is not"


@pytest.mark.parametrize("budget", [60, 200])
def test_half_of_the_points_are_in_the_focus_also_where_points_lie_densest(budget):
    """Most points have focus, since those of the rest are few; an even choice would take them from the rest."""
    pieces = dense_batch(2000, 1500)
    focus = cap_of(pieces, 0.1)
    rows = torch.arange(len(focus))[focus | (torch.arange(len(focus)) % 12 == 0)]
    uneven, inside = pieces.keep(rows), focus[rows]
    assert inside.double().mean() > 0.5
    few = thin(uneven, budget, inside)
    for b in range(2):
        assert int(few.focus[puzzle_of_point(few) == b].sum()) >= budget // 2


def even_by_definition(pieces: Pieces, budget: int) -> list[int]:
    """Of one puzzle, the rows whose gap of farthest point sampling is among the largest, and the first of pieces."""
    ranked, kept, first = [], set(), 0
    for size in pieces.sizes.tolist():
        rows, gaps = farthest_points_reference(pieces.points[first : first + size].numpy(), size)
        ranked += zip(-gaps, rows + first, strict=True)
        kept |= {int(row) + first for row in rows[:MIN_POINTS]}
        first += size
    return sorted(kept | {int(row) for _, row in sorted(ranked)[:budget]})


@pytest.mark.parametrize("budget", [20, 100, 500])
def test_without_a_focus_the_choice_is_even(budget):
    pieces = lumpy_pieces(3, 200)
    few = thin(pieces, budget)
    assert few.focus is None
    assert rows_in(pieces, few) == even_by_definition(pieces, budget)


def test_nowhere_in_focus_is_the_even_choice():
    pieces = dense_batch()
    few = thin(pieces, 100, torch.zeros(len(pieces.points), dtype=torch.bool))
    assert torch.equal(few.points, thin(pieces, 100).points)
    assert not few.focus.any()


def test_an_earlier_focus_is_forgotten():
    pieces = dense_batch()
    focused = thin(pieces, 10**6, cap_of(pieces))
    assert thin(focused, 100).focus is None
    assert torch.equal(thin(focused, 100).points, thin(pieces, 100).points)


def test_points_keep_their_place_order_normal_and_focus():
    pieces = dense_batch()
    focus = cap_of(pieces, 0.2)
    few = thin(pieces, 100, focus)
    rows = rows_in(pieces, few)
    assert rows == sorted(rows)
    assert torch.equal(few.normals, pieces.normals[rows])
    assert torch.equal(few.focus, focus[rows])
    for name in ("centers", "scales", "counts"):
        assert torch.equal(getattr(few, name), getattr(pieces, name))


def test_the_focus_is_covered_evenly():
    """No point of it is farther from a kept one than twice what an even choice of as many allows."""
    pieces = lumpy_pieces(2, 1000)
    focus = cap_of(pieces, 0.1)
    few = thin(pieces, 200, focus)
    for piece in range(2):
        dense = pieces.points[focus & (pieces.piece_of_point == piece)]
        kept = few.points[few.focus & (few.piece_of_point == piece)]
        _, gaps = farthest_points_reference(dense.numpy(), len(kept))
        assert torch.cdist(dense, kept).min(dim=1).values.max() < 2 * gaps[-1]


# -- what the choice does not depend on --------------------------------------------------------------------


@pytest.mark.parametrize("share", FOCI)
def test_puzzles_of_a_batch_are_thinned_each_by_itself(share):
    parts = [lumpy_pieces(3, 300), lumpy_pieces(2, 200, seed=1)]
    few = thin(Pieces.collate(parts), 100, focus_of(Pieces.collate(parts), share))
    alone = Pieces.collate([thin(part, 100, focus_of(part, share)) for part in parts])
    assert torch.equal(few.points, alone.points)
    assert torch.equal(few.sizes, alone.sizes)
    assert torch.equal(few.focus_mask, alone.focus_mask)


@pytest.mark.parametrize("share", FOCI)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_choice_turns_with_the_pieces(seed, share):
    pieces, poses = dense_batch(), random_se3(5, seed)
    focus = focus_of(pieces, share)
    still, moved = (thin(p, 100, focus) for p in (pieces, pieces.move(poses)))
    assert torch.equal(moved.points, still.move(poses).points)
    assert torch.equal(moved.focus_mask, still.focus_mask)


@pytest.mark.parametrize("share", FOCI)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_choice_does_not_depend_on_the_order_of_points(seed, share):
    pieces = dense_batch()
    order, focus = shuffled_points(pieces, seed), focus_of(pieces, share)
    shuffled = thin(pieces.reorder(order), 100, None if focus is None else focus[order])
    assert points_by_piece(shuffled) == points_by_piece(thin(pieces, 100, focus))


@pytest.mark.parametrize("share", FOCI)
@pytest.mark.parametrize("budget", [1, 7, 100])
def test_the_choice_does_not_depend_on_the_order_of_pieces(budget, share):
    pieces, order = dense_batch(), [2, 0, 1, 4, 3]
    permuted = pieces.permute(torch.tensor(order))
    found = points_by_piece(thin(permuted, budget, focus_of(permuted, share)))
    still = points_by_piece(thin(pieces, budget, focus_of(pieces, share)))
    assert found == [still[i] for i in order]
