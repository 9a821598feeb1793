"""To how many points a puzzle is thinned."""

import pytest

from eda import EdaConfig, InputError
from eda.nn import NetworkConfig
from eda.point_budget import PointBudget


@pytest.mark.parametrize(("pieces", "points"), [(2, 1600), (4, 1600), (5, 1750), (8, 2800)])
def test_a_puzzle_of_many_pieces_keeps_more_points(pieces, points):
    assert PointBudget(1600, 350).of(pieces) == points


def test_without_a_number_for_each_piece_all_puzzles_are_alike():
    assert {PointBudget(900).of(pieces) for pieces in (2, 8, 64)} == {900}


def test_the_budget_of_a_model_is_that_of_its_config():
    assert EdaConfig(NetworkConfig(), num_points=100, points_per_piece=30).budget == PointBudget(100, 30)


@pytest.mark.parametrize("numbers", [(0, 0), (100, -1), (1.5, 0)])
def test_other_numbers_are_refused(numbers):
    with pytest.raises(InputError):
        PointBudget(*numbers)
