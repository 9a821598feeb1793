"""Clouds: what a user gives, checked, with normals, in no more points than are useful."""

import tracemalloc

import numpy as np
import pytest
import torch
from support.lumpy_shapes import lumpy_cloud

from eda import InputError
from eda.assembly import Clouds
from eda.assembly.inputs.clouds import MAX_CLOUD_POINTS


def test_normals_may_be_known_of_some_pieces():
    (first, normals), (second, _) = lumpy_cloud(0, 300), lumpy_cloud(1, 300)
    clouds = Clouds.of([first, torch.from_numpy(second)], [5 * normals, None])
    np.testing.assert_allclose(clouds.normals[0], normals)
    np.testing.assert_allclose(np.linalg.norm(clouds.normals[1], axis=1), 1)
    assert clouds.has_estimated_normals.tolist() == [False, True]


def test_clouds_that_cannot_be_pieces_are_refused():
    good, normals = lumpy_cloud(0, 300)
    many = np.zeros((MAX_CLOUD_POINTS + 1, 3))
    many[:, 0] = np.arange(len(many))
    many[-1] = np.nan
    for clouds, directions, message in (
        ([good], None, "at least 2 pieces"),
        ([good, good[:3]], None, "at least 4"),
        ([good, many], None, "piece 1 has points with NaN"),
        ([good, good], [normals], "2 pieces but normals for 1"),
        ([good, good], [normals, normals[:5]], "points but"),
        ([good, [[1, 2, 3], [1]]], None, "not an array of numbers"),
        ([good, good], [normals, 0 * normals], "zero"),
    ):
        with pytest.raises(InputError, match=message):
            Clouds.of(clouds, directions)


def test_millions_of_points_take_little_memory():
    many = np.random.default_rng(0).standard_normal((2_000_000, 3))  # each its own normal, but for the length
    tracemalloc.start()
    few = Clouds.of([many, many], [many, many])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [len(cloud) for cloud in few.points] == [MAX_CLOUD_POINTS, MAX_CLOUD_POINTS]
    assert peak < many.nbytes
    assert np.abs(few.points[0].mean(axis=0)).max() < 0.05
    length = np.linalg.norm(few.points[0], axis=1, keepdims=True)
    np.testing.assert_allclose(few.normals[0] * length, few.points[0])


def test_what_is_left_out_does_not_depend_on_the_order_of_the_pieces():
    clouds = [lumpy_cloud(seed, MAX_CLOUD_POINTS + 500)[0] for seed in (0, 1)]
    here, there = Clouds.of(clouds, clouds, seed=3), Clouds.of(clouds[::-1], clouds[::-1], seed=3)
    np.testing.assert_array_equal(here.points[0], there.points[1])
    assert not np.array_equal(here.points[0], Clouds.of(clouds, clouds, seed=4).points[0])
