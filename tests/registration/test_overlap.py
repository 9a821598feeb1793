"""The agreement of surfaces is that of a loop over points, and by hand that of planes, pipes and corners (ours)."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.closeness import assert_near_and_nonzero
from support.surface_pairs import (
    SPACING,
    bumps,
    cases,
    corner,
    exact,
    in_all_cases,
    meetings,
    nearness,
    overlap,
    pipe,
    plane,
    skew,
    surface_of,
)

from eda import SE3
from eda.registration.icp import Surface

# -- point by point ----------------------------------------------------------------------------------------


def overlap_by_loop(here: Surface, there: Surface, motion: np.ndarray) -> list[float]:
    every = meetings(here, there, motion)
    total = {"near": 0.0, "near alike": 0.0, "close": 0.0, "close alike": 0.0}
    plane_gap = parallel = 0.0
    middle, spread = np.zeros(3), np.zeros((3, 3))
    for one in every:
        alike, near, close = one.parallel**8, nearness(one, 1.0), nearness(one, 0.5)
        for name, amount in zip(total, (near, near * alike, close, close * alike), strict=True):
            total[name] += amount
        plane_gap += near * abs(float((one.first - one.second) @ one.plane)) / SPACING
        parallel += near * one.parallel
        middle += near * alike * (one.first + one.second) / 2
        spread += near * alike * np.outer(one.plane, one.plane)
    middle /= max(total["near alike"], 1e-12)
    resisted = np.zeros((6, 6))
    for one in every:  # by how much the point leaves the plane, twist by twist
        twists = np.eye(6)
        leaves = [(skew(w[:3]) @ ((one.first + one.second) / 2 - middle) + w[3:]) @ one.plane for w in twists]
        resisted += nearness(one, 1.0) * one.parallel**8 * np.outer(leaves, leaves) / len(every)
    of_normals = np.sort(np.linalg.eigvals(spread / max(total["near alike"], 1)).real)
    of_twists = np.sort(np.linalg.eigvals(resisted).real)
    return [
        *(math.log(amount / len(every) + 1e-3) for amount in total.values()),
        *(amount / max(total["near"], 1) for amount in (plane_gap, parallel, total["near alike"])),
        *(math.log(max(value, 0) + 1e-3) for value in of_normals[:2]),
        *(math.log(max(value, 0) + 1e-5) for value in of_twists[:3]),
    ]


@in_all_cases
def test_agreement_is_that_of_a_loop_over_points(case):
    here, there, motion = cases()[case]
    found = overlap(here, there, motion)
    assert found.shape == (3, 12)
    expected = [overlap_by_loop(here, there, one) for one in motion.matrix().numpy()]
    assert_near_and_nonzero(found, torch.tensor(expected, dtype=torch.float64), 1e-9)
    assert found.std(0).min() > 1e-5, "every number tells motions apart"


def test_the_little_that_is_hardly_near_says_little():
    """One point of each piece, two spacings apart: less than a point is near, and means are not those of so little."""
    here = surface_of(np.zeros((1, 3)), np.array([[0.0, 0.0, 1.0]]))
    lift = SE3.exp(exact([[0, 0, 0, 0, 0, 2 * SPACING]]))
    found, near = overlap(here, here, lift)[0], 2 * math.exp(-2)
    assert_near_and_nonzero(found[4:7], exact([2 * near, near, near]), 1e-9)
    assert_near_and_nonzero(found, exact(overlap_by_loop(here, here, lift.matrix()[0].numpy())), 1e-9)


# -- by hand -----------------------------------------------------------------------------------------------


def test_agreement_of_the_same_points_by_hand():
    """A corner with itself: all is near, close and parallel; a third of all normals along each axis."""
    here = corner(0, 300)
    found = overlap(here, here, SE3.identity(1, dtype=torch.float64))[0]
    all_of_it = math.log(1.001)
    expected = [all_of_it] * 4 + [0.0, 1.0, 1.0] + [math.log(1 / 3 + 1e-3)] * 2
    assert_near_and_nonzero(found[:9], exact(expected), 1e-12)


def test_a_turned_normal_counts_by_the_eighth_power_of_its_cosine_and_half_a_step_up_by_the_bell():
    """Two equal planes half a spacing apart, of which one has its normals turned by 30 degrees."""
    here, lift = plane(0), SE3.exp(exact([[0, 0, 0, 0, 0, 0.5 * SPACING]]))
    normals = np.tile([0.0, 0.5, math.sqrt(3) / 2], (400, 1))
    found = overlap(here, replace(here, normals=normals), lift)[0]
    near, close, alike = math.exp(-0.125), math.exp(-0.5), 0.75**4
    shares = [math.log(share + 1e-3) for share in (near, near * alike, close, close * alike)]
    height = 0.5 * (1 + math.sqrt(3) / 2) / 2  # each half of the points is seen over the other's planes
    assert_near_and_nonzero(found[:7], exact([*shares, height, math.sqrt(3) / 2, alike]), 1e-9)
    spread = [0.0, (1 - math.sqrt(3) / 2) / 2]  # half of the normals are 30 degrees from the other half
    assert_near_and_nonzero(found[7:9], exact([math.log(value + 1e-3) for value in spread]), 1e-6)


def test_agreement_falls_with_the_share_that_overlaps():
    """A plane and itself shifted by a share of its width: that share has nothing near, but for its seam."""
    here, found = plane(0, 4000), []
    for share in (0.0, 0.25, 0.5, 0.75):
        shift = SE3.exp(exact([[0, 0, 0, 2 * share, 0, 0]]))
        here_again = plane(1, 4000)
        found.append(overlap(replace(here, spacing=0.03), replace(here_again, spacing=0.03), shift)[0])
    near = (torch.stack(found)[:, 0].exp() - 1e-3) / (float(found[0][0].exp()) - 1e-3)
    assert_near_and_nonzero(near, exact([1.0, 0.75, 0.5, 0.25]), 0.03)
    for column in (0, 1, 2, 3):
        assert (torch.stack(found)[:, column].diff() < -0.1).all()
    assert (torch.stack(found)[:, 5:7] > 0.99).all(), "what is near agrees as before"


@pytest.mark.parametrize(("shape", "free"), [(plane, 3), (pipe, 2), (bumps, 0), (corner, 0)])
def test_surfaces_could_slide_along_planes_and_pipes_and_not_along_bumps_and_corners(shape, free):
    """A plane by three twists, a pipe by two: along its axis and about it. Their logs are then about the least."""
    numbers = overlap(shape(0), shape(1), SE3.identity(1, dtype=torch.float64))[0]
    slides = numbers[9:].exp() - 1e-5
    assert (slides[:free] < 5e-4).all()
    assert (slides[free:] > 5e-3).all()
    assert (numbers[9:].diff() >= 0).all()
    spread = numbers[7:9].exp() - 1e-3
    directions = {plane: [0.0, 0.0], pipe: [0.0, 0.5], corner: [1 / 3, 1 / 3]}
    if shape in directions:
        torch.testing.assert_close(spread, exact(directions[shape]), rtol=0, atol=0.05)
    else:
        assert (spread > 0.02).all()


def test_what_three_planes_resist_by_hand():
    """Squares of half-width 1 that cross at their middle: two of three resist a turn about an axis, each by the mean of
    x^2, which is a third; one of three resists a shift, so turns are resisted least.
    """
    square, still = plane(0, 3000).points, SE3.identity(1, dtype=torch.float64)
    points = np.concatenate([square, square[:, [2, 0, 1]], square[:, [1, 2, 0]]])
    cross = Surface(points, np.eye(3)[[2, 0, 1]].repeat(3000, axis=0), SPACING)
    found = overlap(cross, cross, still)[0, 9:].exp()
    torch.testing.assert_close(found, torch.full((3,), 2 / 9).double(), rtol=0.05, atol=0)


@in_all_cases
@pytest.mark.parametrize("scale", [0.3, 4.0])
def test_all_but_the_resistance_of_twists_is_in_units_of_the_spacing(case, scale):
    """Points and their spacing grow together. Twists turn by radians and move by lengths, so they do not."""
    here, there, motion = cases()[case]
    large = [replace(of, points=scale * of.points, spacing=scale * of.spacing) for of in (here, there)]
    wide = SE3(motion.rotation, scale * motion.translation)
    found, expected = overlap(*large, wide), overlap(here, there, motion)
    assert_near_and_nonzero(found[:, :9], expected[:, :9], 1e-10)
    assert (found[:, 9:] - expected[:, 9:]).abs().max() > 1e-2
