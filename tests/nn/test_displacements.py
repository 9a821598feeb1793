"""The way of a piece leads straight to its place in an arrangement, and is as far as for two pieces alone (ours)."""

import itertools
from dataclasses import replace

import pytest
import torch
from support.arrangements import arrangements_of, leaving, moved_on
from support.closeness import assert_near_and_nonzero
from support.oracles import haar_rotations
from support.pose_fields import far_of, pieces_of, way_of
from support.rigid_motions import random_se3

from eda import SE3
from eda.flow import Path
from eda.nn.pose_field import displacements, relative_distances

# -- the way of an arrangement -----------------------------------------------------------------------------


def test_the_ways_are_those_of_the_pieces_that_are_placed_one_by_one():
    """Puzzles of 2, 5, 1 and 3 pieces; some arrangements leave some of them."""
    arrangements, poses = arrangements_of([2, 5, 1, 3], 4), random_se3(11, 7, spread=0.7)
    arrangements = leaving(arrangements, (3, 0), (3, 1), (6, 1), (7, 2), (8, 0), (10, 3))
    found = displacements(arrangements, poses)
    assert found.shape == (11, 4, 6)
    for pieces, h in itertools.product(pieces_of(arrangements), range(4)):
        for i, way in way_of(arrangements, poses, pieces, h).items() if len(pieces) > 1 else ():
            assert_near_and_nonzero(found[i, h], torch.from_numpy(way), 1e-9)


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("left", [False, True])
def test_the_ways_lead_to_the_arrangement_at_once_and_step_by_step(count, left):
    """Up to a motion of the whole; the middle of the pieces that are placed stays. With one more that is left out."""
    arrangements, poses = arrangements_of([count + left], 1, seed=count), random_se3(count + left, 4, spread=2.0)
    arrangements = leaving(arrangements, (1, 0)) if left else arrangements
    placed, centers = arrangements.placed[:, 0], arrangements.centers
    at_once = moved_on(poses, displacements(arrangements, poses)[:, 0], centers, 1.0)
    steps, walked = 20, poses
    for step in range(steps):  # v(g, tau) = way(g) / (1 - tau)
        velocity = displacements(arrangements, walked)[:, 0] / (1 - step / steps)
        walked = moved_on(walked, velocity, centers, 1 / steps)
    for end in (at_once, walked):
        whole = end[placed] @ arrangements.poses[placed, 0].inverse()
        assert_near_and_nonzero(whole.matrix(), whole.matrix()[:1].expand(count, 4, 4), 1e-8)
        assert_near_and_nonzero(end.act(centers)[placed].mean(0), poses.act(centers)[placed].mean(0), 1e-9)


def test_pieces_that_are_arranged_already_stay():
    arrangements, whole = arrangements_of([2, 4], 1), random_se3(2, 5, spread=0.7)
    poses = whole[torch.tensor([0, 0, 1, 1, 1, 1])] @ arrangements.poses[:, 0]
    assert displacements(arrangements, poses).abs().max() < 1e-7
    assert max(float(of.max()) for of in relative_distances(arrangements, poses)) < 1e-7


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_ways_are_the_twists_of_the_training_path_where_translations_vanish(count):
    """Of the path that begins where the pieces are; that of two pieces is the same all along."""
    nowhere = torch.zeros(count, 3).double()
    noise, solution = SE3(haar_rotations(count, 3), nowhere), SE3(haar_rotations(count, 4), nowhere)
    puzzle = torch.zeros(count, dtype=torch.int64)
    arrangements = replace(arrangements_of([count], 1), poses=solution.reshape(-1, 1), centers=nowhere)
    path = Path.generated_by(noise, solution, puzzle, 1)
    for tau in (0.0, 0.3, 0.8):
        poses = path.at(torch.full((count,), tau).double())
        begun = Path.generated_by(poses, solution, puzzle, 1)
        assert_near_and_nonzero(displacements(arrangements, poses)[:, 0], begun.twist, 1e-9)
        if count == 2 or not tau:
            assert_near_and_nonzero(displacements(arrangements, poses)[:, 0] / (1 - tau), path.twist, 1e-6)


def test_the_ways_turn_with_the_whole_and_do_not_see_the_frames():
    """Neither the own ones of the pieces, nor the one that an arrangement is in."""
    arrangements, poses = leaving(arrangements_of([4, 2], 3), (1, 1)), random_se3(6, 3, spread=0.7)
    expected = displacements(arrangements, poses)
    whole, frames, other = (
        random_se3(1, 5, spread=0.7),
        random_se3(6, 6, spread=3.0),
        random_se3(6, 7, spread=0.7).reshape(2, 3),
    )
    turned = displacements(arrangements, SE3(whole.rotation.expand(6, 3, 3), whole.translation.expand(6, 3)) @ poses)
    seen = arrangements.placed[..., None]
    assert_near_and_nonzero(
        turned * seen, (expected.unflatten(-1, (2, 3)) @ whole.rotation[0].T).flatten(-2) * seen, 1e-9
    )
    puzzle = torch.tensor([0, 0, 0, 0, 1, 1])
    moved = replace(
        arrangements,
        poses=other[puzzle] @ arrangements.poses @ frames.inverse().reshape(-1, 1),
        centers=frames.act(arrangements.centers),
    )
    assert_near_and_nonzero(displacements(moved, poses @ frames.inverse()) * seen, expected * seen, 1e-9)


# -- how far it is -----------------------------------------------------------------------------------------


def test_distances_are_those_of_two_pieces_alone():
    arrangements, poses = arrangements_of([3, 1, 2, 4], 3), random_se3(10, 2, spread=2.0)
    turned, moved = relative_distances(arrangements, poses)
    assert turned.shape == moved.shape == (10, 3)
    for q, h in itertools.product(range(10), range(3)):
        expected = far_of(arrangements, poses, q, h)
        assert (float(turned[q, h]), float(moved[q, h])) == pytest.approx(expected, abs=1e-9)
    assert turned.max() <= 1
    assert turned.std() > 0.05
    assert moved.std() > 0.05


def test_distances_do_not_depend_on_which_piece_comes_first_or_on_any_frame():
    arrangements, poses = arrangements_of([4], 3), random_se3(4, 2, spread=0.7)
    expected = relative_distances(arrangements, poses)
    back = replace(arrangements, first=arrangements.second, second=arrangements.first)
    whole, frames = random_se3(1, 5, spread=0.7), random_se3(4, 6, spread=0.7)
    moved = replace(
        arrangements,
        poses=random_se3(3, 9, spread=0.7).reshape(1, 3) @ arrangements.poses @ frames.inverse().reshape(-1, 1),
        centers=frames.act(arrangements.centers),
    )
    everywhere = SE3(whole.rotation.expand(4, 3, 3), whole.translation.expand(4, 3))
    for found in (relative_distances(back, poses), relative_distances(moved, everywhere @ poses @ frames.inverse())):
        for one, other in zip(found, expected, strict=True):
            assert_near_and_nonzero(one, other, 1e-9)
