"""Of things that are alike the best is kept, and how many came to it is known."""

import numpy as np
import pytest
import torch
from support.lumpy_shapes import seeded

from eda.registration.suppression import has_better_duplicate, keep_distinct, keep_distinct_poses


def near(values: list[float]):
    return lambda a, b: abs(values[a] - values[b]) < 1


def test_the_first_of_each_kind_is_kept_with_how_many_are_of_it():
    values = [5.0, 5.5, 1.0, 5.9, 0.2, 9.0, 1.5]
    assert keep_distinct(7, near(values), 7) == ([0, 2, 5], [3, 3, 1])


def test_a_thing_counts_for_the_first_that_it_is_like():
    """Of a chain: the third is like the second, which is not kept, and not like the first."""
    assert keep_distinct(3, near([0.0, 0.9, 1.8]), 3) == ([0, 2], [2, 1])


def test_no_more_are_kept_than_asked_for_and_the_rest_is_not_counted():
    values = [0.0, 10.0, 20.0, 0.5, 20.5]
    assert keep_distinct(5, near(values), 2) == ([0, 1], [2, 1])
    assert keep_distinct(0, near([]), 4) == ([], [])


@pytest.mark.parametrize("most", [1, 2, 10])
def test_poses_that_move_a_corner_far_enough_from_those_before_are_kept_as_by_the_rule_for_things(most):
    poses = np.tile(np.eye(4), (30, 1, 1))
    poses[:, :3, 3] = np.random.default_rng(0).uniform(0, 3, (30, 3))
    corners = np.random.default_rng(1).normal(size=(8, 3))

    def alike(a: int, b: int) -> bool:
        return np.linalg.norm(poses[a, :3, 3] - poses[b, :3, 3]) <= 1.5

    kept, _ = keep_distinct(30, alike, most)
    assert 1 <= len(kept) <= most
    np.testing.assert_array_equal(keep_distinct_poses(poses, corners, 1.5, most), poses[kept])


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_who_has_a_better_one_alike_is_found_as_by_a_loop(shape):
    """Scores of few values, so that many are equal."""
    alike = torch.rand(*shape, 9, 9, generator=seeded()) < 0.2
    score = torch.randint(3, (*shape, 9), generator=seeded(1)).double()
    found = has_better_duplicate(alike, score)
    assert found.shape == score.shape
    for rows, values, answers in zip(
        alike.reshape(-1, 9, 9).tolist(), score.reshape(-1, 9).tolist(), found.reshape(-1, 9).tolist(), strict=True
    ):
        for k in range(9):
            better = [j for j in range(9) if values[j] > values[k] or (values[j] == values[k] and j < k)]
            assert answers[k] == any(rows[k][j] for j in better)
    assert 0 < found.sum() < found.numel()
