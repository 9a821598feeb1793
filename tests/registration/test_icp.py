"""Surfaces settle on each other where they agree, by the steps that solvers of scipy have (ours)."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.linalg import expm
from scipy.optimize import least_squares
from support.closeness import assert_near_and_nonzero
from support.rigid_motions import random_se3
from support.surface_pairs import (
    SHAPES,
    SPACING,
    bumps,
    cases,
    exact,
    in_all_cases,
    meetings,
    moved,
    nearness,
    of_both_shapes,
    overlap,
    pair_of,
    plane,
    registered,
    skew,
    slightly,
)

from eda import SE3
from eda.registration import icp
from eda.registration.icp import Correspondences, Surface, two_body_equations
from eda.registration.overlap import PARALLEL_SHARE
from eda.registration.rigid import act, move_about

# -- where surfaces settle ---------------------------------------------------------------------------------


def assert_off(motion: SE3, true: SE3, degrees: float, spacings: float) -> None:
    """By at most so much, as the middle of the shapes sees it."""
    apart = (motion @ true.inverse().reshape(1)).matrix().numpy()
    turned = [math.degrees(math.acos(min((np.trace(one[:3, :3]) - 1) / 2, 1))) for one in apart]
    gone = motion.translation - true.translation
    assert max(turned) < degrees
    assert float(gone.norm(dim=1).max()) < spacings * SPACING


@of_both_shapes
def test_samples_of_one_surface_settle_on_each_other_from_five_degrees_and_one_spacing_off(shape):
    here, there, off, true = pair_of(shape, count=12)
    with pytest.raises(AssertionError):
        assert_off(off, true, 4.9, 0.9)
    found = registered(here, there, off)
    assert_off(found, true, 0.1, 0.05)
    assert (overlap(here, there, found)[:, PARALLEL_SHARE] > overlap(here, there, off)[:, PARALLEL_SHARE] + 0.1).all()


def test_samples_that_share_only_a_part_settle_there():
    """One shows all but the right, the other all but the left."""
    here, there = bumps(0, 800), bumps(1, 800)
    sides = (here.points[:, 0] < 0.4, there.points[:, 0] > -0.4)
    here, there = (
        replace(of, points=of.points[rows], normals=of.normals[rows])
        for of, rows in zip((here, there), sides, strict=True)
    )
    assert_off(registered(here, there, slightly(8)), SE3.identity(dtype=torch.float64), 0.5, 0.2)


@of_both_shapes
def test_the_true_motion_of_the_same_points_stays(shape):
    here, true = SHAPES[shape](0), random_se3(3, seed=5, spread=2.0)
    for k in range(3):
        there = moved(here, true[k])
        assert_near_and_nonzero(registered(here, there, true[k : k + 1]).matrix(), true[k : k + 1].matrix(), 1e-12)


def test_a_plane_settles_flat_and_slides_nowhere():
    """Nothing pulls along it, or turns it about its normal: what was off there stays off, to second order."""
    tilt = SE3.exp(exact([[0.06, -0.05, 0.0, 0.0, 0.0, 0.07]]))
    aside = SE3.exp(exact([[0.0, 0.0, 0.1, 0.03, -0.02, 0.0]]))
    found = registered(plane(0), plane(1), tilt @ aside)
    flat = found.matrix()[0]
    assert_near_and_nonzero(flat[2], exact([0.0, 0.0, 1.0, 0.0]), 1e-6)
    kept = aside.matrix()[0]
    torch.testing.assert_close(flat[:2, :2], kept[:2, :2], rtol=0, atol=0.01)
    torch.testing.assert_close(flat[:2, 3], kept[:2, 3], rtol=0, atol=0.02)
    still = registered(plane(0), plane(1), aside)
    assert_near_and_nonzero(still.matrix(), aside.matrix(), 1e-12)


@of_both_shapes
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_large_and_small_surfaces_settle_alike(shape, scale):
    """Not by the same steps, since what keeps a motion still has a unit; but to the same place."""
    here, there, motion, _ = pair_of(shape)
    large = [replace(of, points=scale * of.points, spacing=scale * of.spacing) for of in (here, there)]
    found = registered(*large, SE3(motion.rotation, scale * motion.translation))
    expected = registered(here, there, motion)
    assert_near_and_nonzero(found.rotation, expected.rotation, 1e-4)
    assert_near_and_nonzero(found.translation / scale, expected.translation, 1e-4)


# -- one step, by scipy ------------------------------------------------------------------------------------


def stepped(here: Surface, there: Surface, motion: np.ndarray, reach: float) -> np.ndarray:
    """The motion after a step: the twist (w, t) about the middle of what meets for which the weighted squares of what
    is left of all heights, and of the twist itself, are least.
    """
    every = meetings(here, there, motion)
    weight = np.array([nearness(one, reach) * one.parallel**2 for one in every])
    first, second, normal = (np.stack([getattr(one, of) for one in every]) for of in ("first", "second", "plane"))
    between = (first + second) / 2
    center = weight @ between / weight.sum()

    def left(twist: np.ndarray) -> np.ndarray:
        going = np.cross(twist[:3], between - center) + twist[3:]
        heights = ((second - first - going) * normal).sum(1)
        return np.concatenate([np.sqrt(weight) * heights, math.sqrt(1e-3 * (1 + weight.sum())) * twist])

    twist = least_squares(left, np.zeros(6), xtol=1e-15, ftol=1e-15, gtol=1e-15).x
    generator, shift = np.zeros((4, 4)), np.eye(4)
    generator[:3, :3], generator[:3, 3], shift[:3, 3] = skew(twist[:3]), twist[3:], center
    return shift @ expm(generator) @ np.linalg.inv(shift) @ motion


@in_all_cases
@pytest.mark.parametrize("reach", [1.7, 1.0, 0.4])
def test_a_step_is_the_least_of_weighted_squares_by_scipy(case, reach, monkeypatch):
    monkeypatch.setattr(icp, "RADII", (reach,))
    here, there, motion = cases()[case]
    found = registered(here, there, motion)
    expected = np.stack([stepped(here, there, one, reach) for one in motion.matrix().numpy()])
    assert_near_and_nonzero(found.matrix(), torch.from_numpy(expected), 1e-7)
    assert (found.matrix() - motion.matrix()).abs().amax((1, 2)).min() > 1e-4


@in_all_cases
def test_motions_settle_step_by_step_by_scipy(case):
    here, there, motion = cases()[case]
    expected = []
    for one in motion.matrix().numpy()[:2]:
        for reach in (1.7, 1.7, 1.0, 1.0, 1.0, 1.0):
            one = stepped(here, there, one, reach)
        expected.append(one)
    assert_near_and_nonzero(registered(here, there, motion[:2]).matrix(), torch.from_numpy(np.stack(expected)), 1e-6)


@of_both_shapes
def test_a_step_follows_the_slope_of_what_is_left_of_heights(shape, monkeypatch):
    """By finite differences: that of the squares of heights, of the same meetings as the first piece moves on."""
    monkeypatch.setattr(icp, "RADII", (1.0,))
    here, there, motion, _ = pair_of(shape, 2)
    for begin, end in zip(motion.matrix().numpy(), registered(here, there, motion).matrix().numpy(), strict=True):
        every, going = meetings(here, there, begin), end @ np.linalg.inv(begin)
        weight = np.array([nearness(one, 1.0) * one.parallel**2 for one in every])

        def left(share: float, every=every, weight=weight, going=going) -> float:
            """After a share of the step, all along the way straight on."""
            heights = [
                float(
                    (one.second - one.first - share * (going[:3, :3] @ one.first + going[:3, 3] - one.first))
                    @ one.plane
                )
                for one in every
            ]
            return float(weight @ np.square(heights))

        assert (left(1e-4) - left(0)) / 1e-4 < -0.5 * left(0)
        assert left(1.0) < 0.5 * left(0.0)


def test_the_rounding_of_rotations_is_taken_out():
    here, there, motion, _ = pair_of("bumps")
    rough = SE3(motion.rotation * (1 + 1e-6), motion.translation)
    found = registered(here, there, rough).rotation
    assert_near_and_nonzero(found @ found.mT, torch.eye(3).double().expand(4, 3, 3), 1e-10)


# -- where both ends of a correspondence move -------------------------------------------------------------


def test_the_equations_of_two_bodies_are_those_of_their_residuals():
    """Half the gradient and half the Hessian of the cost, by differences of the cost of moved points."""
    rng = np.random.default_rng(0)
    points, targets, normals = rng.normal(size=(3, 1, 7, 3))
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    pairs = Correspondences(points, targets, normals, rng.random((1, 7)))
    centers, slide = rng.normal(size=(2, 1, 3)), 0.3

    def residuals(twist: np.ndarray) -> np.ndarray:
        moves = [
            move_about(np.eye(4)[None], center, part[None])
            for center, part in zip(centers, (twist[:6], twist[6:]), strict=True)
        ]
        offset = act(moves[0], points) - act(moves[1], targets)
        along = (offset * normals).sum(axis=2, keepdims=True)
        return (np.sqrt(pairs.weights)[..., None] * np.concatenate([along, np.sqrt(slide) * offset], axis=2)).ravel()

    step = 1e-6
    jacobian = np.stack([(residuals(step * e) - residuals(-step * e)) / (2 * step) for e in np.eye(12)], axis=1)
    JTJ, JTr = two_body_equations(pairs, *centers, slide)
    np.testing.assert_allclose(JTJ[0], jacobian.T @ jacobian, atol=1e-8)
    np.testing.assert_allclose(JTr[0], jacobian.T @ residuals(np.zeros(12)), atol=1e-8)
