"""What cannot be a piece, or a pose of one, is an input error that says why; degenerate pieces stay finite."""

import dataclasses

import numpy as np
import pytest
import torch
from support.lumpy_shapes import TINY_NETWORK, lumpy_cloud, lumpy_pieces, two_puzzles
from support.rigid_motions import random_se3
from support.user_clouds import GEOREFERENCED, clouds_of, normals_of

from eda import SE3, Eda, EdaConfig, InputError, Pieces, Puzzle

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


# -- what cannot be a batch --------------------------------------------------------------------------------

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
    pieces = two_puzzles(10, 14)
    with pytest.raises(InputError, match="add up"):
        dataclasses.replace(pieces, **{change: getattr(pieces, change)[:-1]})


def test_points_of_wrong_shape_are_an_input_error():
    pieces = two_puzzles(10, 14)
    with pytest.raises(InputError, match="shape"):
        dataclasses.replace(pieces, points=pieces.points[:, :2])


def test_permuting_across_puzzles_is_an_input_error():
    with pytest.raises(InputError, match="another puzzle"):
        two_puzzles(10, 14).permute(torch.tensor([0, 1, 3, 2, 4]))


def test_an_order_that_is_no_permutation_is_an_input_error():
    with pytest.raises(InputError):
        two_puzzles(10, 14).permute(torch.tensor([0, 0, 1, 3, 4]))


# -- poses that do not fit ---------------------------------------------------------------------------------

SMALL = dataclasses.replace(TINY_NETWORK, channels=4)


def model_of(**options: object) -> Eda:
    return Eda(EdaConfig(dataclasses.replace(SMALL, **options)))


BAD_POSES = {
    "too few": (lambda: random_se3(2), "3"),
    "too many": (lambda: random_se3(4), "3"),
    "a batch": (lambda: random_se3(3).reshape(1, 3), "3"),
    "of another precision": (lambda: random_se3(3).to(torch.float32), "float32"),
}


@pytest.mark.parametrize("use", ["moved", "velocity"])
@pytest.mark.parametrize("name", BAD_POSES)
def test_poses_that_do_not_fit_are_an_input_error(name, use):
    poses, message = BAD_POSES[name]
    pieces = lumpy_pieces(3, 10)
    with pytest.raises(InputError, match=message):
        pieces.move(poses()) if use == "moved" else model_of().double().velocity(pieces, poses(), 0.5)


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
        lumpy_pieces(3, 10).to_user(random_se3(2))


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
