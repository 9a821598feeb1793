"""The focus of pieces, and pieces in fewer or other points: what follows the points and what stays."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.break_caps import cap_of, shuffled_points
from support.closeness import assert_near
from support.lumpy_shapes import lumpy_pieces, two_puzzles
from support.rigid_motions import random_se3
from support.user_clouds import GEOREFERENCED, clouds_of, normals_of

from eda import InputError, Pieces


def focused(pieces: Pieces, share: float = 0.3) -> Pieces:
    return replace(pieces, focus=cap_of(pieces, share))


# -- the mask ----------------------------------------------------------------------------------------------


def test_pieces_have_no_focus_unless_they_are_given_one():
    pieces = lumpy_pieces()
    assert pieces.focus is None
    assert pieces.focus_mask.dtype == torch.bool
    assert pieces.focus_mask.tolist() == [False] * len(pieces.points)
    given = focused(pieces)
    assert 0 < given.focus.sum() < len(given.focus)
    assert torch.equal(given.focus_mask, cap_of(pieces, 0.3))


@pytest.mark.parametrize("shape", [(0,), (5,), (189, 1), (190,)])
def test_a_focus_of_other_points_is_refused(shape):
    pieces = lumpy_pieces(3, 60)
    assert len(pieces.points) == 189
    with pytest.raises(InputError, match="189 points but a focus of shape"):
        replace(pieces, focus=torch.zeros(shape, dtype=torch.bool))


def test_the_focus_stays_with_points_that_move():
    pieces = focused(two_puzzles())
    moved = pieces.move(random_se3(5))
    assert torch.equal(moved.focus, pieces.focus)
    single = pieces.to(dtype=torch.float32)
    assert single.focus.dtype == torch.bool
    assert torch.equal(single.focus, pieces.focus)


# -- batches and orders ------------------------------------------------------------------------------------


def test_pieces_with_and_without_a_focus_collate():
    plain, given = lumpy_pieces(2, 20), focused(lumpy_pieces(3, 30, seed=1))
    nowhere = torch.zeros(len(plain.points), dtype=torch.bool)
    for batch, expected in [
        ([plain, given], [nowhere, given.focus]),
        ([given, plain, given], [given.focus, nowhere, given.focus]),
    ]:
        assert torch.equal(Pieces.collate(batch).focus, torch.cat(expected))
    assert Pieces.collate([plain, plain]).focus is None


def test_a_focus_that_is_nowhere_is_still_a_focus():
    plain = lumpy_pieces(2, 20)
    nowhere = replace(plain, focus=torch.zeros(len(plain.points), dtype=torch.bool))
    assert Pieces.collate([plain, nowhere]).focus.tolist() == [False] * 2 * len(plain.points)


def test_the_focus_follows_the_order_of_points():
    pieces = focused(two_puzzles())
    order = shuffled_points(pieces)
    other = pieces.reorder(order)
    for row, source in enumerate(order.tolist()):
        assert torch.equal(other.points[row], pieces.points[source])
        assert torch.equal(other.normals[row], pieces.normals[source])
        assert other.focus[row] == pieces.focus[source]
    assert two_puzzles().reorder(order).focus is None
    assert torch.equal(other.reorder(torch.argsort(order)).focus, pieces.focus)


def test_the_focus_follows_the_order_of_pieces():
    pieces, order = two_puzzles(), [2, 0, 1, 4, 3]
    pieces = replace(pieces, focus=torch.rand(len(pieces.points), generator=torch.Generator().manual_seed(0)) < 0.3)
    parts = pieces.focus.split(pieces.sizes.tolist())
    permuted = pieces.permute(torch.tensor(order))
    assert torch.equal(permuted.focus, torch.cat([parts[i] for i in order]))
    assert not torch.equal(permuted.focus, pieces.focus)


# -- fewer points, and other points ------------------------------------------------------------------------


@pytest.mark.parametrize("normals", [True, False])
def test_some_of_the_points_are_kept_in_the_same_frames(normals):
    pieces = focused(two_puzzles(normals=normals))
    rows = torch.from_numpy(np.flatnonzero(np.random.default_rng(0).random(len(pieces.points)) < 0.4))
    few, owners = pieces.keep(rows), pieces.piece_of_point[rows].tolist()
    assert few.sizes.tolist() == [owners.count(i) for i in range(5)]
    assert few.piece_of_point.tolist() == owners
    assert torch.equal(few.points, pieces.points[rows])
    assert torch.equal(few.focus, pieces.focus[rows])
    assert (few.normals is None) if not normals else torch.equal(few.normals, pieces.normals[rows])
    for name in ("counts", "centers", "scales"):
        assert torch.equal(getattr(few, name), getattr(pieces, name))


def test_keeping_every_point_changes_nothing():
    pieces = two_puzzles()
    same = pieces.keep(torch.arange(len(pieces.points)))
    assert same.focus is None
    for name in ("points", "normals", "sizes", "counts", "centers", "scales"):
        assert torch.equal(getattr(same, name), getattr(pieces, name))


def test_a_pose_means_the_same_for_fewer_points():
    """Also where these are far from the middle of the piece: the frames are not centred anew."""
    pieces, poses = two_puzzles(), random_se3(5)
    rows = cap_of(pieces, 0.3).nonzero().squeeze(1)
    few = pieces.keep(rows)
    assert few.centroids().norm(dim=1).min() > 0.05
    assert torch.equal(few.move(poses).points, pieces.move(poses).points[rows])
    assert torch.equal(few.to_user(poses).matrix(), pieces.to_user(poses).matrix())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("place", [0.0, GEOREFERENCED])
def test_other_points_are_in_the_frames_and_the_unit_of_the_pieces(dtype, place):
    """A pose takes both to the same place in the user's frame."""
    few, many = ([cloud + place for cloud in clouds] for clouds in (clouds_of(3, 20), clouds_of(3, 90)))
    pieces = Pieces.from_clouds(few, dtype=dtype)
    dense = focused(pieces).resample(many, None)
    assert dense.points.dtype == dtype
    assert dense.sizes.tolist() == [len(cloud) for cloud in many]
    assert dense.focus is None
    poses = random_se3(3).to(dtype)
    users, moved = pieces.to_user(poses), dense.move(poses).points.double().split(dense.sizes.tolist())
    for i, cloud in enumerate(many):
        assert_near(users[i].act(torch.from_numpy(cloud)), pieces.scales * moved[i], 1e-5)
    for name in ("counts", "centers", "scales"):
        assert torch.equal(getattr(dense, name), getattr(pieces, name))


def test_the_same_points_again_are_the_same_pieces():
    pieces = Pieces.from_clouds(clouds_of(), normals_of(), dtype=torch.float64)
    again = pieces.resample(clouds_of(), normals_of())
    assert_near(again.points, pieces.points, 1e-15)
    assert_near(again.normals, pieces.normals, 1e-15)
    assert pieces.resample(clouds_of(), None).normals is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exact_clouds_are_the_points_of_every_piece_in_float64(dtype):
    pieces = two_puzzles().to(dtype=dtype)
    pieces = replace(pieces, points=pieces.points.requires_grad_())
    clouds = pieces.exact_clouds()
    assert [len(cloud) for cloud in clouds] == pieces.sizes.tolist()
    assert all(cloud.dtype == np.float64 for cloud in clouds)
    assert np.concatenate(clouds).tolist() == pieces.points.tolist()
