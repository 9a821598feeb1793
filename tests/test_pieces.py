"""Pieces: the user's units and back, batches, motions, and a clear error for what cannot be a piece."""

import dataclasses

import numpy as np
import pytest
import torch
from reference import haar_rotations
from shapes import lumpy_cloud, lumpy_pieces, lumpy_puzzle

from eda import SE3, Eda, EdaConfig, InputError, NetworkConfig, Pieces, Puzzle

GEOREFERENCED = np.array([6e6, 4.5e6, 120.0])


def clouds_of(count: int = 3, size: int = 40) -> list[np.ndarray]:
    """Blobs of different sizes, each somewhere else."""
    rng = np.random.default_rng(0)
    return [(1 + i) * lumpy_cloud(i, size + i)[0] + 3 * rng.normal(size=3) for i in range(count)]


def normals_of(count: int = 3, size: int = 40) -> list[np.ndarray]:
    return [lumpy_cloud(i, size + i)[1] for i in range(count)]


def poses_of(count: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> SE3:
    places = torch.randn(count, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return SE3(haar_rotations(count, seed), places).to(dtype)


def two_puzzles() -> Pieces:
    return Pieces.collate([lumpy_pieces(3, 10), lumpy_pieces(2, 14, seed=1)])


def assert_near(a: torch.Tensor, b: torch.Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=tolerance)


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
    expected = one.moved(SE3(R, torch.zeros(3, 3, dtype=torch.float64)))
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
    poses = poses_of(5)
    back, forth = pieces.from_user(pieces.to_user(poses)), pieces.to_user(pieces.from_user(poses))
    assert_near(back.matrix(), poses.matrix())
    assert_near(forth.matrix(), poses.matrix())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_users_frame_is_float64_both_ways(dtype):
    pieces, poses = Pieces.from_clouds(clouds_of(3), dtype=dtype), poses_of(3, dtype=dtype)
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
    poses = poses_of(5)
    moved = pieces.moved(poses).points.split(pieces.sizes.tolist())
    users = pieces.to_user(poses)
    for i, cloud in enumerate(clouds):
        scale = pieces.scales[0 if i < 3 else 1]
        assert_near(users[i].act(torch.from_numpy(cloud)) / scale, moved[i], 1e-11)


def test_to_user_takes_several_samples_at_once():
    pieces = Pieces.from_clouds(clouds_of(), dtype=torch.float64)
    many = poses_of(6).reshape(2, 3)
    for k in range(2):
        assert_near(pieces.to_user(many)[k].matrix(), pieces.to_user(many[k]).matrix())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_georeferenced_coordinates_keep_their_shape(dtype):
    near = Pieces.from_clouds(clouds_of(), dtype=dtype)
    far = Pieces.from_clouds([cloud + GEOREFERENCED for cloud in clouds_of()], dtype=dtype)
    assert_near(far.points, near.points, 1e-6)


def test_georeferenced_coordinates_are_assembled_exactly():
    clouds = [cloud + GEOREFERENCED for cloud in clouds_of()]
    pieces, poses = Pieces.from_clouds(clouds, dtype=torch.float32), poses_of(3, dtype=torch.float32)
    users = pieces.to_user(poses)
    moved = pieces.moved(poses).points.split(pieces.sizes.tolist())
    for i, cloud in enumerate(clouds):
        assert_near(users[i].act(torch.from_numpy(cloud)), pieces.scales * moved[i].double(), 1e-5)


# -- puzzles -----------------------------------------------------------------------------------------------


def misplaced(puzzle: Puzzle, clouds: list[np.ndarray]) -> float:
    """How far the assembled pieces are from the clouds, up to a common translation, in units of the size."""
    pieces = puzzle.pieces
    assembled = pieces.moved(puzzle.solution).points.double().split(pieces.sizes.tolist())
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
    pieces, order = two_puzzles(), torch.tensor([2, 0, 1, 4, 3])
    permuted = pieces.permuted(order)
    before, after = (p.points.split(p.sizes.tolist()) for p in (pieces, permuted))
    for i, source in enumerate(order.tolist()):
        assert torch.equal(after[i], before[source])
        assert torch.equal(permuted.centers[i], pieces.centers[source])
    again = permuted.permuted(torch.argsort(order))
    for name in ("points", "normals", "sizes", "counts", "centers"):
        assert torch.equal(getattr(again, name), getattr(pieces, name))


# -- motions -----------------------------------------------------------------------------------------------


def test_moved_moves_points_and_turns_normals():
    pieces, poses = two_puzzles(), poses_of(5)
    moved = pieces.moved(poses)
    for row, piece in enumerate(pieces.piece_of_point.tolist()):
        R, t = poses.rotation[piece], poses.translation[piece]
        assert_near(moved.points[row], R @ pieces.points[row] + t, 1e-14)
        assert_near(moved.normals[row], R @ pieces.normals[row], 1e-14)


def test_moving_twice_is_moving_by_the_product():
    pieces, g, h = two_puzzles(), poses_of(5), poses_of(5, seed=1)
    assert_near(pieces.moved(g).moved(h).points, pieces.moved(h @ g).points)


def test_the_centroid_moves_with_the_piece():
    pieces, poses = two_puzzles(), poses_of(5)
    assert_near(pieces.moved(poses).centroids(), poses.translation)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_to_keeps_the_users_frame_in_float64(dtype):
    pieces = two_puzzles().to(dtype=dtype)
    assert pieces.points.dtype == pieces.normals.dtype == dtype
    assert pieces.centers.dtype == pieces.scales.dtype == torch.float64


# -- what cannot be a piece --------------------------------------------------------------------------------


def spoiled(value: float) -> np.ndarray:
    cloud = clouds_of()[1]
    cloud[5, 1] = value
    return cloud


BAD_CLOUDS = {
    "NaN": (spoiled(np.nan), "piece 1 .*NaN"),
    "infinity": (spoiled(-np.inf), "piece 1 .*infinite"),
    "no point": (np.zeros((0, 3)), "piece 1 has 0 points"),
    "one point": (np.ones((1, 3)), "piece 1 has 1 points"),
    "three points": (np.eye(3), "piece 1 has 3 points"),
    "coincident points": (np.ones((9, 3)), "piece 1.*coincide"),
    "coincident points at the origin": (np.zeros((9, 3)), "piece 1.*coincide"),
    "coincident georeferenced points": (np.tile(GEOREFERENCED, (9, 1)), "piece 1.*coincide"),
    "plane points": (np.ones((9, 2)), r"piece 1.*\(n, 3\)"),
    "a flat array": (np.ones(9), r"piece 1.*\(n, 3\)"),
    "a stack of clouds": (np.ones((2, 9, 3)), r"piece 1.*\(n, 3\)"),
    "complex numbers": (clouds_of()[1] + 1j, "piece 1.*real"),
    "truth values": (np.ones((9, 3), dtype=bool), "piece 1.*real"),
    "words": (np.full((9, 3), "a"), "piece 1.*real"),
    "nothing": (None, "piece 1"),
}


@pytest.mark.parametrize("name", BAD_CLOUDS)
def test_a_bad_cloud_is_an_input_error_that_names_the_piece(name):
    cloud, message = BAD_CLOUDS[name]
    with pytest.raises(InputError, match=message):
        Pieces.from_clouds([clouds_of()[0], cloud])


def test_ragged_rows_are_an_input_error():
    with pytest.raises(InputError):
        Pieces.from_clouds([clouds_of()[0], [[0.0, 0.0, 1.0], [1.0, 2.0]]])


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_pieces_are_an_input_error(count):
    with pytest.raises(InputError, match=f"at least 2 pieces, got {count}"):
        Pieces.from_clouds(clouds_of()[:count])


def spoiled_normals(value: object) -> list[np.ndarray]:
    normals = normals_of()
    normals[1][3] = value
    return normals


BAD_NORMALS = {
    "too few": (normals_of()[:2], "3 pieces but normals for 2"),
    "of another piece": (normals_of()[::-1], "piece 0"),
    "of wrong shape": ([n[:, :2] for n in normals_of()], "piece 0"),
    "zero": (spoiled_normals(0.0), "piece 1 has 1 normals"),
    "NaN": (spoiled_normals(np.nan), "piece 1 has 1 normals"),
    "infinite": (spoiled_normals([np.inf, 0, 0]), "piece 1 has 1 normals"),
    "missing": ([None] * 3, "piece 0"),
}


@pytest.mark.parametrize("name", BAD_NORMALS)
def test_bad_normals_are_an_input_error(name):
    normals, message = BAD_NORMALS[name]
    with pytest.raises(InputError, match=message):
        Pieces.from_clouds(clouds_of(), normals)


BAD_BATCHES = {
    "no pieces": (lambda: [], "empty"),
    "two precisions": (lambda: [lumpy_pieces(), lumpy_pieces(dtype=torch.float32)], "dtype"),
    "with and without normals": (lambda: [lumpy_pieces(), lumpy_pieces(normals=False)], "normals"),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_a_bad_batch_is_an_input_error(name):
    batch, message = BAD_BATCHES[name]
    with pytest.raises(InputError, match=message):
        Pieces.collate(batch())


@pytest.mark.parametrize("change", ["points", "sizes", "counts"])
def test_numbers_that_do_not_add_up_are_an_input_error(change):
    pieces = two_puzzles()
    with pytest.raises(InputError, match="add up"):
        dataclasses.replace(pieces, **{change: getattr(pieces, change)[:-1]})


def test_points_of_wrong_shape_are_an_input_error():
    pieces = two_puzzles()
    with pytest.raises(InputError, match="shape"):
        dataclasses.replace(pieces, points=pieces.points[:, :2])


def test_permuting_across_puzzles_is_an_input_error():
    with pytest.raises(InputError, match="another puzzle"):
        two_puzzles().permuted(torch.tensor([0, 1, 3, 2, 4]))


def test_an_order_that_is_no_permutation_is_an_input_error():
    with pytest.raises(InputError):
        two_puzzles().permuted(torch.tensor([0, 0, 1, 3, 4]))


# -- poses that do not fit ---------------------------------------------------------------------------------

SMALL = NetworkConfig(
    num_levels=2,
    num_blocks=1,
    num_neighbors=4,
    cross_neighbors=3,
    channels=4,
    num_heads=2,
    num_knots=5,
    spacing=0.2,
)


def model_of(**options: object) -> Eda:
    return Eda(EdaConfig(dataclasses.replace(SMALL, **options)))


BAD_POSES = {
    "too few": (lambda: poses_of(2), "3"),
    "too many": (lambda: poses_of(4), "3"),
    "a batch": (lambda: poses_of(3).reshape(1, 3), "3"),
    "of another precision": (lambda: poses_of(3, dtype=torch.float32), "float32"),
}


@pytest.mark.parametrize("use", ["moved", "velocity"])
@pytest.mark.parametrize("name", BAD_POSES)
def test_poses_that_do_not_fit_are_an_input_error(name, use):
    poses, message = BAD_POSES[name]
    pieces = lumpy_pieces(3, 10)
    with pytest.raises(InputError, match=message):
        pieces.moved(poses()) if use == "moved" else model_of().double().velocity(pieces, poses(), 0.5)


@pytest.mark.parametrize(
    "name",
    [
        "too few",
        "too many",
        "of another precision",
    ],
)
def test_noise_that_does_not_fit_is_an_input_error(name):
    pieces, poses = lumpy_pieces(3, 10), BAD_POSES[name][0]()
    with pytest.raises(InputError):
        model_of().double().sample(pieces, noise=poses.reshape(1, -1), steps=1)


def test_poses_for_the_user_that_do_not_fit_are_an_input_error():
    with pytest.raises(InputError):
        lumpy_pieces(3, 10).to_user(poses_of(2))


def test_pieces_of_another_precision_than_the_model_are_an_input_error():
    with pytest.raises(InputError, match="float64"):
        model_of().sample(lumpy_pieces(2, 10, dtype=torch.float64), steps=1)


# -- degenerate pieces -------------------------------------------------------------------------------------


def degenerate_clouds() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    cloud = lumpy_cloud(0, 40)[0]
    return {
        "four points": cloud[:4],
        "four distinct points many times": np.repeat(cloud[:4], 15, axis=0),
        "two places": np.repeat(cloud[:2], 20, axis=0),
        "all but one coincident": np.concatenate([np.repeat(cloud[:1], 30, axis=0), cloud[1:2]]),
        "on a line": np.outer(rng.normal(size=40), [1.0, 2.0, -1.0]),
        "on the y axis": np.outer(rng.normal(size=40), [0.0, 1.0, 0.0]),
        "in a plane": cloud * [1.0, 1.0, 0.0],
        "on a grid": np.stack(np.meshgrid(*[np.arange(3.0)] * 3), axis=-1).reshape(-1, 3),
        "tiny": 1e-7 * cloud,
        "one point far away": np.concatenate([cloud, [[1e5, 0.0, 0.0]]]),
    }


DEGENERATE = degenerate_clouds()
in_all_degeneracies = pytest.mark.parametrize("name", DEGENERATE)


def degenerate_pieces(name: str) -> Pieces:
    clouds = [DEGENERATE[name], lumpy_cloud(1, 30)[0], DEGENERATE[name]]
    return Pieces.from_clouds(clouds, [np.tile([0.0, 0.0, 1.0], (len(c), 1)) for c in clouds])


@in_all_degeneracies
def test_degenerate_pieces_are_assembled_without_nan(name):
    poses = model_of().sample(degenerate_pieces(name), 2, steps=2, generator=torch.Generator().manual_seed(0))
    assert poses.isfinite()


@in_all_degeneracies
def test_degenerate_pieces_give_finite_gradients(name):
    model, pieces = model_of(), degenerate_pieces(name)
    puzzle = Puzzle(pieces, SE3.identity(3))
    model.loss(puzzle, generator=torch.Generator().manual_seed(0)).total.backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), parameter_name


def test_coincident_pieces_are_assembled_without_nan():
    """Two copies of one piece exactly on top of each other: every edge across has a twin of length zero."""
    cloud, normals = lumpy_cloud(0, 20)
    pieces = Pieces.from_clouds([cloud, cloud], [normals, normals])
    noise = SE3.identity(1, 2)
    assert model_of(cross_neighbors=1).sample(pieces, noise=noise, steps=2).isfinite()
