"""How surfaces settle and agree does not see frames, order, signs of normals, or what is far away (ours)."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from support.closeness import assert_near_and_nonzero
from support.lumpy_shapes import seeded
from support.rigid_motions import random_se3
from support.soft_matches import drawn
from support.surface_pairs import (
    SPACING,
    cases,
    exact,
    in_all_cases,
    moved,
    overlap,
    pair_of,
    plane,
    random_surface,
    registered,
)
from torch import Tensor

from eda import SE3
from eda.registration.icp import DAMPING, MAX_DISTANCE, RADII, Surface
from eda.registration.overlap import (
    CLOSE,
    MEANS,
    MIN_CURVATURE,
    MIN_SHARE,
    NEAR,
    NUM_FEATURES,
    PARALLEL_SHARE,
    SCALES,
)

NOTHING = math.log(1e-3)  # the log of no share


def both(here: Surface, there: Surface, motion: SE3) -> tuple[SE3, Tensor]:
    """Settled motions, and the agreement before."""
    return registered(here, there, motion), overlap(here, there, motion)


def test_the_numbers_of_settling_and_of_agreement_are_as_they_were_chosen():
    """What is learned depends on all of these."""
    assert RADII == (1.7, 1.7, 1.0, 1.0, 1.0, 1.0)
    assert (NEAR, CLOSE, MAX_DISTANCE, DAMPING, MIN_SHARE, MIN_CURVATURE) == (1.0, 0.5, 3.0, 1e-3, 1e-3, 1e-5)
    assert (NUM_FEATURES, PARALLEL_SHARE) == (12, 1)
    assert len(MEANS) == len(SCALES) == NUM_FEATURES
    assert min(SCALES) > 0, "more stays more"


# -- what does not matter ----------------------------------------------------------------------------------


@in_all_cases
@pytest.mark.parametrize("which", [(True, False), (False, True), (True, True)])
def test_motions_follow_the_frames_of_both_pieces(case, which):
    here, there, motion = cases()[case]
    frames = [
        random_se3(1, seed=11 + k, spread=3.0)[0] if yes else random_se3(1, 0, 0.0)[0] for k, yes in enumerate(which)
    ]
    forth, back = frames[1].reshape(1), frames[0].inverse().reshape(1)
    expected, numbers = both(here, there, motion)
    found, others = both(moved(here, frames[0]), moved(there, frames[1]), forth @ motion @ back)
    assert_near_and_nonzero((forth.inverse() @ found @ back.inverse()).matrix(), expected.matrix(), 1e-10)
    assert_near_and_nonzero(others, numbers, 1e-9)


@in_all_cases
def test_the_way_back_settles_as_the_inverse_and_agrees_alike(case):
    here, there, motion = cases()[case]
    expected, numbers = both(here, there, motion)
    found, others = both(there, here, motion.inverse())
    assert_near_and_nonzero(found.inverse().matrix(), expected.matrix(), 1e-11)
    assert_near_and_nonzero(others, numbers, 1e-10)


@in_all_cases
def test_signs_of_normals_and_the_order_of_points_do_not_matter(case):
    here, there, motion = cases()[case]
    expected, numbers = both(here, there, motion)
    flipped = [
        replace(of, normals=of.normals * np.sign(drawn(len(of.points), 1, seed=k).numpy()))
        for k, of in enumerate((here, there))
    ]
    assert (flipped[0].normals != here.normals).any()
    shuffled = []
    for of in (here, there):
        order = torch.randperm(len(of.points), generator=seeded(3)).numpy()
        shuffled.append(replace(of, points=of.points[order], normals=of.normals[order]))
    for pair in ((flipped[0], there), (here, flipped[1]), tuple(flipped), tuple(shuffled)):
        found, others = both(*pair, motion)
        assert_near_and_nonzero(found.matrix(), expected.matrix(), 1e-11)
        assert_near_and_nonzero(others, numbers, 1e-10)


@in_all_cases
def test_motions_do_not_see_each_other(case):
    """Also one that brings nothing near, among others."""
    here, there, motion = cases()[case]
    away = SE3(motion.rotation[:1], motion.translation[:1] + 50)
    motion = SE3.cat([motion[:2], away, motion[2:]])
    found, numbers = both(here, there, motion)
    for k in range(len(motion)):
        one, others = both(here, there, motion[k : k + 1])
        assert_near_and_nonzero(found[k : k + 1].matrix(), one.matrix(), 1e-12)
        assert_near_and_nonzero(numbers[k : k + 1], others, 1e-12)
    none, nothing = both(here, there, motion[:0])
    assert none.shape == (0,)
    assert nothing.shape == (0, 12)


def test_rotations_stay_rotations():
    here, there, motion, _ = pair_of("bumps")
    found = registered(here, there, motion)
    assert_near_and_nonzero(found.rotation @ found.rotation.mT, torch.eye(3).double().expand(4, 3, 3), 1e-15)


# -- where there is nothing to settle on -------------------------------------------------------------------


def test_without_normals_nothing_settles():
    here, there, motion, _ = pair_of("bumps")
    bare = [replace(of, normals=np.zeros_like(of.normals)) for of in (here, there)]
    for pair in ((bare[0], there), (here, bare[1]), tuple(bare)):
        found, numbers = both(*pair, motion)
        assert_near_and_nonzero(found.matrix(), motion.matrix(), 1e-13)
        assert numbers.isfinite().all()
        near = overlap(here, there, motion)
        torch.testing.assert_close(numbers[:, [0, 2]], near[:, [0, 2]], rtol=0, atol=1e-12)
        assert (numbers[:, [1, 3, 7, 8]] - NOTHING).abs().max() < 1e-9, "what is near is parallel to nothing"
        assert (numbers[:, [5, 6]] == 0).all()
        assert (numbers[:, 9:] - math.log(1e-5)).abs().max() < 1e-9


def test_where_nothing_is_near_a_motion_stays_and_its_numbers_are_those_of_nothing():
    here, there, motion, _ = pair_of("corner")
    away = SE3(motion.rotation, motion.translation + 9)
    found, numbers = both(here, there, away)
    assert_near_and_nonzero(found.matrix(), away.matrix(), 1e-13)
    expected = [NOTHING] * 4 + [0.0] * 3 + [NOTHING] * 2 + [math.log(1e-5)] * 3
    assert_near_and_nonzero(numbers, exact(expected).expand(4, 12), 1e-12)


@pytest.mark.parametrize(("height", "seen"), [(2.99, True), (3.01, False)])
def test_what_is_three_spacings_off_does_not_count(height, seen):
    """Two equal planes, one over the other: every point looks for the nearest straight ahead."""
    here, lift = plane(0), SE3.exp(exact([[0, 0, 0, 0, 0, height * SPACING]]))
    distance, row = here.closest(lift.act(torch.from_numpy(here.points)).numpy())
    assert np.isfinite(distance).all() == seen
    np.testing.assert_array_equal(row, np.arange(400) if seen else np.zeros(400))
    share = math.exp(-(height**2) / 2) if seen else 0.0
    found = overlap(here, here, lift)[0]
    assert_near_and_nonzero(found[:2], exact([math.log(share + 1e-3)] * 2), 1e-9)
    assert float(found[4]) == pytest.approx(height * share * 800 / max(share * 800, 1), abs=1e-9)
    stays = registered(here, here, lift).translation[0, 2] == lift.translation[0, 2]
    assert bool(stays) == (not seen)


# -- the nearest point -------------------------------------------------------------------------------------


def test_the_nearest_point_is_that_of_all_distances_in_any_shape():
    surface, points = random_surface(50, 1), 0.4 * drawn(3, 5, 7, 3)
    found, row = surface.closest(points.numpy())
    assert found.shape == row.shape == (3, 5, 7)
    distance = cdist(points.reshape(-1, 3).numpy(), surface.points)
    near = distance.min(1) < 3 * SPACING
    assert 0.2 < near.mean() < 0.95
    assert (np.isfinite(found).ravel() == near).all()
    np.testing.assert_allclose(found.ravel()[near], distance.min(1)[near], atol=1e-12)
    assert (row.ravel()[near] == distance.argmin(1)[near]).all()
    assert row.min() >= 0
    assert row.max() < 50
    assert surface.tree is surface.tree
