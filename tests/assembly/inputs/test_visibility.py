"""From which sides the points of a piece can be seen."""

import tracemalloc

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.surfaces import box, directions, ellipsoid, torus, walls

from eda.assembly.inputs.visibility import open_shares, two_sided_share
from eda.cloud import estimate_normals


def test_a_convex_body_is_seen_from_outside_only():
    points, normals = ellipsoid()
    outside, inside = open_shares(points, normals)
    assert outside.mean() > 0.9
    assert inside.mean() < 0.02
    turned_round = open_shares(points, -normals)
    np.testing.assert_allclose(turned_round.ahead, inside)
    np.testing.assert_allclose(turned_round.behind, outside)


def test_the_floor_of_a_deep_pit_is_seen_through_its_mouth():
    """A tube of radius 1 and length 3 that is closed below: its middle sees a cone of half angle atan(1 / 3)."""
    rng = np.random.default_rng(0)
    around, height, radius = rng.uniform(0, 2 * np.pi, 4000), rng.uniform(0, 3, 4000), np.sqrt(rng.random(4000))
    on_floor = np.arange(4000) < 600
    height[on_floor], radius[~on_floor] = 0, 1
    outward = np.stack([np.cos(around), np.sin(around), 0 * around], axis=1)
    points = radius[:, None] * outward + height[:, None] * [0, 0, 1]
    ahead, behind = open_shares(points, np.where(on_floor[:, None], [0.0, 0.0, 1.0], -outward))
    middle = on_floor & (radius < 0.2)
    assert 0 < ahead[middle].mean() < 0.25  # by cosines sin^2 of that angle, 10 %, in steps of 24 lines
    assert behind[middle].mean() > 0.95


@pytest.mark.parametrize("make", [ellipsoid, box, torus])
def test_closed_surfaces_are_seen_from_one_side(make):
    points = make(1500)[0]
    assert two_sided_share(points, estimate_normals(points)) < 0.1


def test_what_one_view_shows_is_seen_from_both_sides():
    view = directions(4, 6000)
    view = view[view[:, 2] > 0.3]  # smooth, and with a short rim
    assert two_sided_share(view, view) > 0.8
    room = walls(0)
    assert two_sided_share(room, estimate_normals(room)) > 0.4


def test_shares_turn_with_the_piece():
    points, normals = torus(1000)
    turn = Rotation.random(random_state=1).as_matrix()
    here, there = open_shares(points, normals), open_shares(7 * points @ turn.T - 3, normals @ turn.T)
    np.testing.assert_allclose(there, here, atol=1e-9)


def test_points_that_hide_each_other_take_little_memory():
    """Along its axis, all points of a rod lie on top of each other."""
    rod = np.random.default_rng(0).normal(size=(2000, 3)) * [1e-6, 1e-6, 1.0]
    tracemalloc.start()
    shares = open_shares(rod, np.tile([1.0, 0.0, 0.0], (2000, 1)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.isfinite(shares).all()
    assert peak < 25e6
