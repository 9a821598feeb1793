"""Training puzzles with a focus: in the frames of the even choice, with a solution, and with mistakes in the labels."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from support.closeness import assert_near
from support.small_datasets import lumpy_example

import eda.data.focused_puzzles
from eda import Pieces, Puzzle
from eda.data import Example
from eda.data.focused_puzzles import PATCH_RADIUS, dense_pieces, focused_puzzle, mistake_breaks, puzzle_of
from eda.focus import FOCUS_REACH, thin

BUDGET = 150


def example_of(*, foreign: int | None = None, normals: bool = True) -> Example:
    """Three pieces with small breaks; on request one of them is foreign."""
    example = lumpy_example(0, 3, 400, normals=normals)
    contact = np.where(np.arange(len(example.points)) % 3, -1, example.contact).astype(np.int16)
    strangers = None if foreign is None else np.arange(3) == foreign
    return replace(example, contact=contact, foreign=strangers)


def puzzle_by(seed: int, example: Example | None = None) -> Puzzle:
    return focused_puzzle(example or example_of(), BUDGET, np.random.default_rng(seed))


def users_points(pieces: Pieces) -> np.ndarray:
    """(P, 3) in the user's frame and unit."""
    piece = pieces.piece_of_point
    return (pieces.points.double() * pieces.scales + pieces.centers[piece]).numpy()


def rows_of(example: Example, pieces: Pieces) -> np.ndarray:
    """The rows of an example that the points of its pieces are."""
    distance, rows = cKDTree(example.points).query(users_points(pieces))
    assert distance.max() < 1e-5
    assert np.repeat(np.arange(3), example.sizes)[rows].tolist() == pieces.piece_of_point.tolist()
    return rows


# -- frames and solution -----------------------------------------------------------------------------------


@pytest.mark.parametrize("foreign", [None, 1])
def test_the_frames_and_the_unit_are_those_of_the_even_choice(foreign):
    example = example_of(foreign=foreign)
    even = example.downsample(BUDGET).puzzle().pieces
    assert len(even.points) < len(example.points)
    for pieces in (dense_pieces(example, BUDGET), puzzle_by(0, example).pieces):
        assert torch.equal(pieces.counts, even.counts)
        assert torch.equal(pieces.centers, even.centers)
        assert torch.equal(pieces.scales, even.scales)


@pytest.mark.parametrize("normals", [True, False])
def test_dense_pieces_are_all_points_of_the_example(normals):
    example = example_of(normals=normals)
    dense = dense_pieces(example, BUDGET)
    assert dense.points.dtype == torch.float32
    assert dense.focus is None
    assert dense.sizes.tolist() == example.sizes.tolist()
    np.testing.assert_allclose(users_points(dense), example.points, atol=1e-6)
    assert (dense.normals is None) == (not normals)
    assert not normals or torch.equal(dense.normals, torch.from_numpy(example.normals))


@pytest.mark.parametrize("foreign", [None, 0, 2])
def test_the_solution_puts_every_piece_where_it_was(foreign):
    """Up to a shift of the whole, after which the centres of its own pieces have mean zero."""
    example = example_of(foreign=foreign)
    for puzzle in (puzzle_by(0, example), puzzle_of(example, dense_pieces(example, BUDGET))):
        pieces, solution = puzzle.pieces, puzzle.solution
        true = torch.from_numpy(example.points[rows_of(example, pieces)]).double()
        assembled = pieces.move(solution)
        shift = assembled.points.double() * pieces.scales - true
        assert_near(shift, shift.mean(0).expand_as(shift), 1e-5)
        assert_near(assembled.centroids()[torch.from_numpy(example.own)].mean(0), torch.zeros(3), 1e-6)
        assert (assembled.centroids().mean(0).norm() > 0.01) == (foreign is not None)


# -- the focus ---------------------------------------------------------------------------------------------


def test_about_the_budget_is_kept_and_half_of_it_in_the_focus():
    for seed in range(5):
        focus = puzzle_by(seed).pieces.focus
        assert BUDGET <= len(focus) <= BUDGET + 3 * 4
        assert 0.4 < focus.double().mean() < 0.65


def distance_to_breaks(example: Example, pieces: Pieces) -> np.ndarray:
    """(P,) how far every point is from the true breaks of its piece, in units of the puzzle's size."""
    rows, piece = rows_of(example, pieces), pieces.piece_of_point.numpy()
    distance, owner = np.empty(len(rows)), np.repeat(np.arange(3), example.sizes)
    for i in range(3):
        breaks = example.points[example.on_break & (owner == i)]
        distance[piece == i] = cdist(example.points[rows[piece == i]], breaks).min(axis=1)
    return distance / float(pieces.scales[0])


def test_without_mistakes_the_focus_is_beside_the_true_breaks(monkeypatch):
    """Within a reach that is drawn for every puzzle, between a half and three halves of the usual one."""
    monkeypatch.setattr(eda.data.focused_puzzles, "MOST_MISTAKES", 0)
    example, farthest, nearest = example_of(), [], []
    for seed in range(6):
        pieces = puzzle_by(seed, example).pieces
        distance = distance_to_breaks(example, pieces)
        farthest.append(distance[pieces.focus.numpy()].max())
        nearest.append(distance[~pieces.focus.numpy()].min())
        assert farthest[-1] < nearest[-1]
    assert FOCUS_REACH < max(farthest) <= 1.5 * FOCUS_REACH + 1e-5
    assert FOCUS_REACH > min(nearest) >= 0.5 * FOCUS_REACH - 1e-5


def test_with_mistakes_some_of_the_focus_is_far_from_any_break():
    example = example_of()
    puzzles = [puzzle_by(seed, example).pieces for seed in range(8)]
    farthest = [distance_to_breaks(example, pieces)[pieces.focus.numpy()].max() for pieces in puzzles]
    assert min(farthest) < 1.6 * FOCUS_REACH < max(farthest)


def test_the_kept_points_are_those_of_thinning_with_that_focus(monkeypatch):
    calls = []
    monkeypatch.setattr(eda.data.focused_puzzles, "thin", lambda *call: calls.append(call) or thin(*call))
    puzzle = puzzle_by(0)
    ((dense, budget, focus),) = calls
    assert budget == BUDGET
    assert torch.equal(dense.points, dense_pieces(example_of(), BUDGET).points)
    assert torch.equal(thin(dense, BUDGET, focus).points, puzzle.pieces.points)


def test_chance_decides_and_nothing_else():
    first, again, other = (puzzle_by(seed).pieces for seed in (0, 0, 1))
    assert torch.equal(first.points, again.points)
    assert torch.equal(first.focus, again.focus)
    assert first.points.shape != other.points.shape or not torch.equal(first.points, other.points)


# -- mistakes ----------------------------------------------------------------------------------------------


def test_mistakes_are_of_both_kinds_and_most_labels_stay():
    example = example_of()
    dense, true = dense_pieces(example, BUDGET), example.on_break.copy()
    added, lost, changed = [], [], []
    for seed in range(40):
        seen = mistake_breaks(dense, example.on_break, np.random.default_rng(seed))
        assert seen.dtype == np.bool_
        added.append(int((seen & ~true).sum()))
        lost.append(int((true & ~seen).sum()))
        changed.append((seen != true).mean())
    assert np.array_equal(example.on_break, true), "the labels of the example stay"
    for counts in (added, lost):
        assert min(counts) == 0 < max(counts)
    assert 0 < np.mean(changed) < 0.25


def twins() -> Pieces:
    """Two pieces of the same 400 points, which lie in the same place."""
    one = lumpy_example(0, 2, 400, normals=False).clouds()[0]
    return dense_pieces(Example.from_clouds("twins", [one, one]), 300)


def test_a_mistake_is_a_ball_about_a_point_of_one_piece(monkeypatch):
    """None of the other piece is in it, even where that lies in the same place."""
    monkeypatch.setattr(eda.data.focused_puzzles, "MOST_MISTAKES", 1)
    pieces, nowhere, radii, hit = twins(), np.zeros(800, dtype=bool), [], set()
    distance = cdist(*[pieces.exact_clouds()[0]] * 2)
    for seed in range(60):
        seen = mistake_breaks(pieces, nowhere, np.random.default_rng(seed)).reshape(2, 400)
        if seen.any():
            hit.add(tuple(seen.any(axis=1).tolist()))
            patch = seen.any(axis=0)
            within, beyond = distance[:, patch].max(axis=1), distance[:, ~patch].min(axis=1)
            centers = np.flatnonzero(
                patch & (within < beyond) & (within <= PATCH_RADIUS[1]) & (beyond > PATCH_RADIUS[0])
            )
            assert len(centers)
            radii.append(within[centers].min())
    assert hit == {(True, False), (False, True)}
    assert 15 < len(radii) < 45
    assert np.ptp(radii) > 0.5 * np.ptp(PATCH_RADIUS)


def test_breaks_are_never_all_overlooked():
    """Of a puzzle so small that a patch covers its only break."""
    example = lumpy_example(0, 2, 8)
    dense, one_point = dense_pieces(example, 8), np.arange(len(example.points)) == 3
    cases = [mistake_breaks(dense, one_point, np.random.default_rng(seed)) for seed in range(200)]
    assert all(seen.any() for seen in cases)
    assert any(not seen[3] for seen in cases), "others are taken for it"


def test_where_nothing_breaks_something_may_be_taken_for_a_break():
    example = example_of()
    dense, nowhere = dense_pieces(example, BUDGET), np.zeros(len(example.points), dtype=bool)
    cases = {mistake_breaks(dense, nowhere, np.random.default_rng(seed)).any() for seed in range(20)}
    assert cases == {True, False}
