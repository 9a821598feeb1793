"""Pieces: the user's units and back, solutions, batches and motions."""

import numpy as np
import pytest
import torch
from support.closeness import assert_near
from support.lumpy_shapes import lumpy_pieces, lumpy_puzzle, two_puzzles
from support.oracles import haar_rotations
from support.rigid_motions import random_se3
from support.user_clouds import GEOREFERENCED, clouds_of, normals_of

from eda import SE3, Pieces, Puzzle

# -- from the user and back --------------------------------------------------------------------------------


def test_pieces_are_centred_and_of_unit_size():
    pieces = Pieces.from_clouds(clouds_of(), dtype=torch.float64)
    assert_near(pieces.centroids(), torch.zeros(3, 3, dtype=torch.float64), 1e-14)
    squares = [cloud.square().sum(1).mean() for cloud in pieces.points.split(pieces.sizes.tolist())]
    assert_near(sum(squares), torch.tensor(1.0, dtype=torch.float64))


@pytest.mark.parametrize("scale", [1e-6, 0.3, 1e4])
@pytest.mark.parametrize("shift", [0.0, 50.0])
def test_the_users_unit_and_places_do_not_matter(scale, shift):
    clouds = clouds_of()
    other = [scale * (cloud + shift * (i - 0.5)) for i, cloud in enumerate(clouds)]
    one, two = (Pieces.from_clouds(c, dtype=torch.float64) for c in (clouds, other))
    assert_near(one.points, two.points, 1e-12)
    assert_near(two.scales, scale * one.scales, 1e-10 * scale)


def test_the_number_of_points_does_not_matter():
    clouds = clouds_of()
    one, two = (Pieces.from_clouds(c) for c in (clouds, [clouds[0], np.repeat(clouds[1], 5, axis=0), clouds[2]]))
    assert_near(one.scales, two.scales)


def test_a_turned_cloud_gives_the_turned_piece():
    clouds, normals, R = clouds_of(), normals_of(), haar_rotations(3)
    one = Pieces.from_clouds(clouds, normals, dtype=torch.float64)
    turned = [[a @ r.numpy().T for a, r in zip(arrays, R, strict=True)] for arrays in (clouds, normals)]
    two = Pieces.from_clouds(*turned, dtype=torch.float64)
    expected = one.move(SE3(R, torch.zeros(3, 3, dtype=torch.float64)))
    assert_near(two.points, expected.points)
    assert_near(two.normals, expected.normals)


def test_normals_become_unit_vectors_and_keep_their_direction():
    pieces = Pieces.from_clouds(clouds_of(), [7 * n for n in normals_of()], dtype=torch.float64)
    assert_near(pieces.normals, torch.from_numpy(np.concatenate(normals_of())))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, "list", "tensor", "tensor with gradient"])
def test_clouds_may_be_of_any_real_kind(kind):
    clouds = [np.round(100 * cloud) for cloud in clouds_of()]
    if kind == "list":
        given = [cloud.tolist() for cloud in clouds]
    elif kind in ("tensor", "tensor with gradient"):
        given = [torch.from_numpy(cloud).requires_grad_(kind != "tensor") for cloud in clouds]
    else:
        given = [cloud.astype(kind) for cloud in clouds]
    assert torch.equal(Pieces.from_clouds(given).points, Pieces.from_clouds(clouds).points)


def test_the_users_clouds_are_not_changed():
    clouds, normals = clouds_of(), [3 * n for n in normals_of()]
    before = [a.copy() for a in clouds + normals]
    Pieces.from_clouds(clouds, normals)
    assert all(np.array_equal(a, b) for a, b in zip(before, clouds + normals, strict=True))


def test_from_user_inverts_to_user():
    pieces = Pieces.collate([Pieces.from_clouds(clouds_of(3), dtype=torch.float64), lumpy_pieces(2, normals=False)])
    poses = random_se3(5)
    back, forth = pieces.from_user(pieces.to_user(poses)), pieces.to_user(pieces.from_user(poses))
    assert_near(back.matrix(), poses.matrix())
    assert_near(forth.matrix(), poses.matrix())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_users_frame_is_float64_both_ways(dtype):
    pieces, poses = Pieces.from_clouds(clouds_of(3), dtype=dtype), random_se3(3).to(dtype)
    for converted in (pieces.to_user(poses), pieces.from_user(poses)):
        assert converted.rotation.dtype == converted.translation.dtype == torch.float64


def test_from_user_keeps_what_lies_between_pieces_far_from_the_origin():
    clouds = [cloud + 1e6 for cloud in clouds_of(3)]
    near, far = (Pieces.from_clouds(c) for c in (clouds_of(3), clouds))
    eye = SE3.identity(3, dtype=torch.float64)
    gaps = [p.from_user(eye).translation - p.from_user(eye).translation[0] for p in (near, far)]
    assert gaps[0].abs().max() > 0.1
    assert_near(gaps[1], gaps[0], 1e-8)


def test_to_user_moves_the_users_points_as_the_poses_move_the_pieces():
    """The user's assembly is the assembly, in the user's unit; each puzzle has its own."""
    clouds = [*clouds_of(3), *[100 * cloud for cloud in clouds_of(2)]]
    pieces = Pieces.collate([Pieces.from_clouds(c, dtype=torch.float64) for c in (clouds[:3], clouds[3:])])
    poses = random_se3(5)
    moved = pieces.move(poses).points.split(pieces.sizes.tolist())
    users = pieces.to_user(poses)
    for i, cloud in enumerate(clouds):
        scale = pieces.scales[0 if i < 3 else 1]
        assert_near(users[i].act(torch.from_numpy(cloud)) / scale, moved[i], 1e-11)


def test_to_user_takes_several_samples_at_once():
    pieces = Pieces.from_clouds(clouds_of(), dtype=torch.float64)
    many = random_se3(6).reshape(2, 3)
    for k in range(2):
        assert_near(pieces.to_user(many)[k].matrix(), pieces.to_user(many[k]).matrix())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_georeferenced_coordinates_keep_their_shape(dtype):
    near = Pieces.from_clouds(clouds_of(), dtype=dtype)
    far = Pieces.from_clouds([cloud + GEOREFERENCED for cloud in clouds_of()], dtype=dtype)
    assert_near(far.points, near.points, 1e-6)


def test_georeferenced_coordinates_are_assembled_exactly():
    clouds = [cloud + GEOREFERENCED for cloud in clouds_of()]
    pieces, poses = Pieces.from_clouds(clouds, dtype=torch.float32), random_se3(3).to(torch.float32)
    users = pieces.to_user(poses)
    moved = pieces.move(poses).points.split(pieces.sizes.tolist())
    for i, cloud in enumerate(clouds):
        assert_near(users[i].act(torch.from_numpy(cloud)), pieces.scales * moved[i].double(), 1e-5)


# -- puzzles -----------------------------------------------------------------------------------------------


def misplaced(puzzle: Puzzle, clouds: list[np.ndarray]) -> float:
    """How far the assembled pieces are from the clouds, up to a common translation, in units of the size."""
    pieces = puzzle.pieces
    assembled = pieces.move(puzzle.solution).points.double().split(pieces.sizes.tolist())
    offsets = [a * pieces.scales - torch.from_numpy(c) for a, c in zip(assembled, clouds, strict=True)]
    offset = torch.cat(offsets)
    return float((offset - offset.mean(0)).abs().max() / pieces.scales)


def test_the_solution_assembles_the_clouds():
    clouds = clouds_of()
    assert misplaced(Puzzle.from_assembled(clouds, dtype=torch.float64), clouds) < 1e-12
    assert misplaced(Puzzle.from_assembled(clouds), clouds) < 1e-6


def test_the_assembled_centres_have_mean_zero():
    puzzle = Puzzle.from_assembled(clouds_of(), dtype=torch.float64)
    centres = puzzle.solution.act(puzzle.pieces.centroids())
    assert_near(centres.mean(0), torch.zeros(3, dtype=torch.float64))
    assert centres.abs().max() > 0.1


def test_the_solution_of_georeferenced_clouds_keeps_its_digits():
    clouds = [cloud + GEOREFERENCED for cloud in clouds_of()]
    assert misplaced(Puzzle.from_assembled(clouds, dtype=torch.float32), clouds) < 1e-5


def test_puzzles_collate_with_their_solutions():
    parts = [lumpy_puzzle(3, 10), lumpy_puzzle(2, 10, seed=1)]
    both = Puzzle.collate(parts)
    assert torch.equal(both.solution.matrix(), torch.cat([p.solution.matrix() for p in parts]))
    assert both.pieces.counts.tolist() == [3, 2]
    assert both.to(dtype=torch.float32).solution.rotation.dtype == torch.float32


# -- batches -----------------------------------------------------------------------------------------------


def test_collate_lays_puzzles_one_after_the_other():
    parts = [lumpy_pieces(3, 10), lumpy_pieces(2, 14, seed=1)]
    both = Pieces.collate(parts)
    for name in ("points", "normals", "sizes", "counts", "centers", "scales"):
        assert torch.equal(getattr(both, name), torch.cat([getattr(p, name) for p in parts]))
    assert (both.num_pieces, both.num_puzzles) == (5, 2)
    assert both.puzzle_of_piece.tolist() == [0, 0, 0, 1, 1]
    assert both.piece_of_point.bincount().tolist() == both.sizes.tolist() == [10, 13, 16, 14, 17]
    assert both.piece_of_point.diff().min() == 0


def test_collate_of_batches_is_collate_of_all():
    a, b, c = (lumpy_pieces(2, 8, seed=s) for s in range(3))
    nested, flat = Pieces.collate([Pieces.collate([a, b]), c]), Pieces.collate([a, b, c])
    assert torch.equal(nested.points, flat.points)
    assert torch.equal(nested.counts, flat.counts)


def test_pieces_without_normals_collate():
    assert Pieces.collate([lumpy_pieces(normals=False)] * 2).normals is None


def test_permuted_moves_whole_pieces():
    pieces, order = two_puzzles(10, 14), torch.tensor([2, 0, 1, 4, 3])
    permuted = pieces.permute(order)
    before, after = (p.points.split(p.sizes.tolist()) for p in (pieces, permuted))
    for i, source in enumerate(order.tolist()):
        assert torch.equal(after[i], before[source])
        assert torch.equal(permuted.centers[i], pieces.centers[source])
    again = permuted.permute(torch.argsort(order))
    for name in ("points", "normals", "sizes", "counts", "centers"):
        assert torch.equal(getattr(again, name), getattr(pieces, name))


# -- motions -----------------------------------------------------------------------------------------------


def test_moved_moves_points_and_turns_normals():
    pieces, poses = two_puzzles(10, 14), random_se3(5)
    moved = pieces.move(poses)
    for row, piece in enumerate(pieces.piece_of_point.tolist()):
        R, t = poses.rotation[piece], poses.translation[piece]
        assert_near(moved.points[row], R @ pieces.points[row] + t, 1e-14)
        assert_near(moved.normals[row], R @ pieces.normals[row], 1e-14)


def test_moving_twice_is_moving_by_the_product():
    pieces, g, h = two_puzzles(10, 14), random_se3(5), random_se3(5, seed=1)
    assert_near(pieces.move(g).move(h).points, pieces.move(h @ g).points)


def test_the_centroid_moves_with_the_piece():
    pieces, poses = two_puzzles(10, 14), random_se3(5)
    assert_near(pieces.move(poses).centroids(), poses.translation)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_to_keeps_the_users_frame_in_float64(dtype):
    pieces = two_puzzles(10, 14).to(dtype=dtype)
    assert pieces.points.dtype == pieces.normals.dtype == dtype
    assert pieces.centers.dtype == pieces.scales.dtype == torch.float64
