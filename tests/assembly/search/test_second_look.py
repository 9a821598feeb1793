"""The second look: which pieces are sure, and the smaller puzzle that they leave."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from support.rigid_motions import random_motion, random_motions, random_se3
from support.sliced_block import finely_taken_apart, slices

from eda.assembly import Problem
from eda.assembly.contact.detail import Detail
from eda.assembly.search.assemblies import Assemblies
from eda.assembly.search.merged_pieces import groups_of, merge_detail
from eda.assembly.search.second_look import SURE_GAIN, merge_sure_pieces
from eda.budget import Budget

PIECES, FEW, DENSITY = 5, 300, 300.0


class Resampled:
    """Says what it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Detail] = []

    def __call__(self, detail: Detail, budget: Budget) -> np.ndarray:
        self.asked.append(detail)
        count = len(detail.points)
        return random_motions(3 * count, 7).numpy().reshape(3, count, 4, 4)


Look = tuple[Problem, np.ndarray, Resampled]


@pytest.fixture(scope="module")
def look() -> Callable[..., Look]:
    """A row of slices as a problem, and their places."""
    evidence, detail, true = finely_taken_apart(slices(PIECES, DENSITY), FEW)

    def of(anchor: int | None = None) -> Look:
        resample = Resampled()
        return Problem(evidence, true[None], groups_of(true[None], []), anchor, detail, resample), true, resample

    return of


def assembly(problem: Problem, poses: np.ndarray, placed: list[int]) -> Assemblies:
    rows = np.isin(np.arange(PIECES), placed)[None]
    return Assemblies.of(problem.evidence, poses[None], rows)


def members(group: torch.Tensor) -> set[frozenset[int]]:
    return {frozenset(torch.nonzero(group == number)[:, 0].tolist()) for number in group.unique()}


def test_pieces_that_surely_lie_right_and_touch_are_one(look):
    """Of a row, all but the middle one: two pairs, between which nothing touches; the middle one remains alone."""
    problem, true, _ = look()
    best = assembly(problem, true, [0, 1, 3, 4])
    assert (best.pieces[0][[0, 1, 3, 4]] > SURE_GAIN).all()
    groups, _ = merge_sure_pieces(problem, best, Budget())
    assert members(groups.group) == {frozenset({0, 1}), frozenset({3, 4}), frozenset({2})}


def test_a_piece_that_touches_but_is_not_sure_remains_alone(look):
    """The last of three, drawn a little along the cut."""
    problem, true, _ = look()
    off = true.copy()
    off[2, 1, 3] += 0.045
    best = assembly(problem, off, [0, 1, 2])
    assert 0.05 < best.pieces[0, 2] < SURE_GAIN < best.pieces[0, 1]
    groups, _ = merge_sure_pieces(problem, best, Budget())
    assert members(groups.group) == {frozenset({0, 1}), frozenset({2}), frozenset({3}), frozenset({4})}


def test_where_nothing_or_everything_is_sure_there_is_nothing_to_look_at(look):
    problem, true, resample = look()
    apart = true.copy()
    apart[:, :3, 3] += 9 * np.arange(PIECES)[:, None]
    assert merge_sure_pieces(problem, assembly(problem, apart, [*range(PIECES)]), Budget()) is None
    assert merge_sure_pieces(problem, assembly(problem, true, [*range(PIECES)]), Budget()) is None
    assert not resample.asked


@pytest.mark.parametrize("missing", ["detail", "resample"])
def test_without_all_points_or_a_sampler_there_is_no_second_look(look, missing):
    problem, true, resample = look()
    given = {"detail": problem.detail, "resample": resample, missing: None}
    poorer = Problem(problem.evidence, problem.samples, problem.groups, **given)
    assert merge_sure_pieces(poorer, assembly(problem, true, [0, 1, 2]), Budget()) is None


@pytest.mark.parametrize("anchor", [None, *range(PIECES)])
def test_the_anchor_is_the_group_of_the_pinned_piece(look, anchor):
    problem, true, _ = look(anchor)
    groups, merged = merge_sure_pieces(problem, assembly(problem, true, [1, 2, 3, 4]), Budget())
    if anchor is None:
        assert merged.anchor is None
    else:
        assert anchor in torch.nonzero(groups.group == merged.anchor)[:, 0].tolist()


def test_the_smaller_problem_is_asked_of_the_sampler_in_the_frame_of_the_first_piece(look):
    problem, true, resample = look()
    _, merged = merge_sure_pieces(problem, assembly(problem, random_motion(3, 2.0) @ true, [0, 1, 2]), Budget())
    (asked,) = resample.asked
    assert merged.detail is asked
    wanted = merge_detail(groups_of(true[None], [[0, 1, 2]]), problem.evidence, problem.detail)
    for found, points in zip(asked.points, wanted.points, strict=True):
        np.testing.assert_allclose(found, points, atol=1e-9)
    assert len(merged.evidence) == len(asked.points) == merged.samples.shape[1] == 3
    np.testing.assert_array_equal(merged.samples, Resampled()(asked, Budget()))
    assert merged.groups.is_trivial
    assert len(merged.groups.first) == 3
    assert merged.resample is problem.resample


def test_pieces_of_a_group_keep_their_relative_places(look):
    """Wherever the groups are found, and wherever the whole lay before."""
    problem, true, _ = look()
    groups, _ = merge_sure_pieces(problem, assembly(problem, random_motion(3, 2.0) @ true, [0, 1, 3, 4]), Budget())
    poses = groups.expand(random_se3(3, seed=5)).matrix().numpy()
    for i, j in ((0, 1), (3, 4)):
        kept, wanted = (np.linalg.inv(each[i]) @ each[j] for each in (poses, true))
        np.testing.assert_allclose(kept, wanted, atol=1e-12)
    moved = np.linalg.inv(poses[1]) @ poses[3]
    assert np.abs(moved - np.linalg.inv(true[1]) @ true[3]).max() > 0.1
