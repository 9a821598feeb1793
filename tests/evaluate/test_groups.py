"""Properties of puzzles: read off their names, and measured on their points."""

import numpy as np
import pytest

from eda.data import Example
from eda.evaluate import PROPERTIES
from eda.evaluate.groups import category, group_order, scene


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("everyday/Bowl/1a2b/fractured_3", "Bowl"),
        ("000012-chair", "chair"),
        ("000003-6-4-0.77", "unknown"),
        ("pot", "unknown"),
    ],
)
def test_the_category_is_in_the_name(name, kind):
    assert category(name) == kind


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("7-scenes-redkitchen/cloud_bin_1-cloud_bin_0", "7-scenes-redkitchen"),
        ("test/7-scenes-redkitchen/cloud_bin_1-cloud_bin_0", "7-scenes-redkitchen"),
        ("000003-6-4-0.77", "000003"),
        ("everyday/Bowl/1a2b/fractured_3", "unknown"),
    ],
)
def test_the_scene_is_in_the_name(name, place):
    assert scene(name) == place


@pytest.mark.parametrize(
    ("shared", "band"), [(0, "0 %"), (1, "0-10 %"), (3, "10-30 %"), (4, "30-100 %"), (10, "30-100 %")]
)
def test_overlap_counts_the_points_that_both_scans_saw(shared, band):
    """Ten points a metre apart, of which the first few are seen twice, 3 cm off."""
    first = np.stack([np.arange(10.0), np.zeros(10), np.zeros(10)], axis=1)
    second = first + [0, 0.03, 0] + 100 * (np.arange(10) >= shared)[:, None]
    assert PROPERTIES["overlap"](Example.from_clouds("pair", [first, second])) == band


def test_pieces_are_the_own_ones():
    clouds = [np.random.default_rng(i).normal(size=(10, 3)) for i in range(3)]
    assert PROPERTIES["pieces"](Example.from_clouds("x", clouds, foreign=[False, False, True])) == "2"


def test_groups_are_in_the_order_of_their_numbers():
    assert sorted(["10", "9", "2"], key=group_order) == ["2", "9", "10"]
    assert sorted(["30-100 %", "0-10 %", "0 %", "10-30 %"], key=group_order) == ["0 %", "0-10 %", "10-30 %", "30-100 %"]
    assert sorted(["Vase", "Bowl"], key=group_order) == ["Bowl", "Vase"]
