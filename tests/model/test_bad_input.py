"""From raw arrays to poses: what cannot be a puzzle is refused, all else gives finite poses. Never NaN."""

import dataclasses

import numpy as np
import pytest
import torch
from support.lumpy_shapes import TINY_NETWORK, lumpy_cloud

from eda import SE3, Eda, EdaConfig, InputError, Pieces

TINY = dataclasses.replace(TINY_NETWORK, normals="absent")
BARE = Eda(EdaConfig(TINY))
WITH_NORMALS = Eda(EdaConfig(TINY_NETWORK))
SAMPLES = 2


def blob(seed: int = 0, size: int = 20) -> np.ndarray:
    return lumpy_cloud(seed, size)[0]


def assembled(clouds: list, normals: list | None = None, *, noise: SE3 | None = None) -> SE3:
    """Motions (SAMPLES, N) of the user's clouds, made with fixed noise."""
    pieces = Pieces.from_clouds(clouds, normals)
    model = BARE if normals is None else WITH_NORMALS
    generator = torch.Generator().manual_seed(0)
    return pieces.to_user(model.sample(pieces, SAMPLES, steps=1, noise=noise, generator=generator))


def assert_sound(poses: SE3, clouds: list) -> None:
    """Finite rigid motions that send every point somewhere finite."""
    assert poses.shape == (SAMPLES, len(clouds))
    assert poses.isfinite()
    eye = torch.eye(3, dtype=torch.float64)
    assert (poses.rotation @ poses.rotation.mT - eye).abs().max() < 1e-5
    for i, cloud in enumerate(clouds):
        assert poses[:, i : i + 1].act(torch.from_numpy(np.array(cloud, dtype=np.float64, order="C"))).isfinite().all()


# -- refused -----------------------------------------------------------------------------------------------


def spoiled(value: float, rows: int = 1) -> np.ndarray:
    cloud = blob(1)
    cloud[:rows, 2] = value
    return cloud


REFUSED = {
    "NaN": ([blob(), spoiled(np.nan)], "piece 1 has 1 points with NaN.*remove"),
    "many NaN": ([blob(), spoiled(np.nan, 7)], "piece 1 has 7 points with NaN"),
    "all NaN": ([np.full((9, 3), np.nan), blob()], "piece 0 has 9 points with NaN"),
    "infinity": ([blob(), spoiled(np.inf)], "piece 1 has 1 points .*infinite"),
    "minus infinity": ([blob(), spoiled(-np.inf)], "piece 1 has 1 points .*infinite"),
    "one piece": ([blob()], "at least 2 pieces, got 1"),
    "no pieces": ([], "at least 2 pieces, got 0"),
    "an empty piece": ([blob(), np.zeros((0, 3))], "piece 1 has 0 points"),
    "an empty list": ([blob(), []], "piece 1"),
    "a piece of one point": ([blob(), np.ones((1, 3))], "piece 1 has 1 points; at least 4"),
    "a piece of three points": ([np.eye(3), blob()], "piece 0 has 3 points; at least 4"),
    "a point": ([blob(), np.ones(3)], r"piece 1: .*\(n, 3\), got \(3,\)"),
    "coincident points": ([blob(), np.full((30, 3), 0.1)], "piece 1: all of its 30 points coincide"),
    "coincident points far away": ([blob(), np.full((30, 3), 1e7)], "piece 1: all of its 30 points coincide"),
    "coincident points at zero": ([np.zeros((30, 3)), blob()], "piece 0: all of its 30 points coincide"),
    "points of the plane": ([blob(), np.ones((9, 2))], r"piece 1: .*\(n, 3\), got \(9, 2\)"),
    "points with normals": ([blob(), np.ones((9, 6))], r"piece 1: .*\(n, 3\), got \(9, 6\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_a_puzzle_is_refused(name):
    clouds, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        assembled(clouds)


def test_the_first_bad_piece_is_named():
    with pytest.raises(InputError, match="piece 2 "):
        assembled([blob(), blob(1), spoiled(np.nan), spoiled(np.inf)])


def test_nothing_is_changed_in_the_users_arrays():
    clouds, normals = zip(*[lumpy_cloud(i, 20) for i in range(2)], strict=True)
    clouds, normals = [c + 5 for c in clouds], [3 * n for n in normals]
    before = [array.copy() for array in (*clouds, *normals)]
    assembled(clouds, normals)
    for array, copy in zip((*clouds, *normals), before, strict=True):
        assert np.array_equal(array, copy)


# -- degenerate, but finite --------------------------------------------------------------------------------

LINE = np.outer(np.linspace(-1, 1, 20), [1.0, 2.0, -1.0])
FLAT = blob() * [1.0, 1.0, 0.0]

FINITE = {
    "plain": [blob(), blob(1)],
    "on a line": [LINE, blob(1)],
    "all on one line": [LINE, LINE + np.array([5.0, 10.0, -5.0])],
    "on the axes": [np.outer(np.linspace(-1, 1, 20), axis) for axis in np.eye(3)],
    "flat": [FLAT, blob(1)],
    "all flat": [FLAT, FLAT[::-1] * 2, FLAT + 1],
    "a square": [np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.0]]), blob()],
    "a sphere": [lumpy_cloud(0, 20)[1], lumpy_cloud(1, 30)[1]],
    "a grid": [np.stack(np.meshgrid(*[np.arange(3.0)] * 3), axis=-1).reshape(-1, 3)] * 2,
    "every point twice": [np.repeat(blob(), 2, axis=0), blob(1)],
    "every point thirty times": [np.tile(blob()[:5], (30, 1)), blob(1)],
    "two places": [np.repeat(blob()[:2], 20, axis=0), blob(1)],
    "all but one coincide": [np.concatenate([np.ones((30, 3)), blob()[:1]]), blob(1)],
    "only duplicates": [np.repeat(blob(i)[:2], 10, axis=0) for i in range(3)],
    "almost coincident": [1e-6 * blob() + 1, blob(1)],
    "four points each": [blob(i, 4) for i in range(5)],
    "four points beside many": [blob(0, 4), blob(1, 2000), blob(2, 4)],
    "identical": [blob()] * 4,
    "identical but for their order": [blob(), blob()[::-1]],
    "identical tetrahedra": [np.concatenate([np.eye(3), np.zeros((1, 3))])] * 3,
    "mirrored": [blob(), -blob()],
    "many": [blob(i, 8) for i in range(30)],
    "an outlier": [np.concatenate([blob(), [[1e6, 0, 0]]]), blob(1)],
    "sizes from 1e-6 to 1e6": [1e-6 * blob(), blob(1), 1e6 * blob(2)],
    "sizes from 1e-30 to 1e30": [1e-30 * blob(), blob(1), 1e30 * blob(2)],
    "far apart": [blob() - 1e7, blob(1) + 1e7],
    "1e9 away": [blob() + 1e3, blob(1) + 1e3 * np.array([1e5, 0, 0])],
}


@pytest.mark.parametrize("name", FINITE)
def test_degenerate_pieces_give_finite_poses(name):
    clouds = FINITE[name]
    assert_sound(assembled(clouds), clouds)


@pytest.mark.parametrize("name", ["on a line", "all flat", "only duplicates", "four points beside many", "identical"])
def test_degenerate_pieces_with_normals_give_finite_poses(name):
    clouds = FINITE[name]
    normals = [np.tile([0.0, 0.0, 2.0], (len(cloud), 1)) for cloud in clouds]
    assert_sound(assembled(clouds, normals), clouds)


@pytest.mark.parametrize(
    "name", ["identical", "all on one line", "a grid", "identical but for their order", "two places"]
)
def test_pieces_that_begin_on_top_of_each_other_give_finite_poses(name):
    clouds = FINITE[name]
    assert_sound(assembled(clouds, noise=SE3.identity(SAMPLES, len(clouds))), clouds)


def test_a_small_puzzle_does_not_notice_a_large_companion():
    small = Pieces.from_clouds([blob(0, 4), blob(1, 4)])
    large = Pieces.from_clouds([blob(2, 2000), blob(3, 4)])
    noise = SE3.identity(1, 2, dtype=torch.float32)
    noise = SE3(noise.rotation, torch.tensor([[[0.3, 0.1, 0.0], [-0.3, 0.0, 0.2]]]))
    both = SE3(noise.rotation.repeat(1, 2, 1, 1), noise.translation.repeat(1, 2, 1))
    together = BARE.sample(Pieces.collate([small, large]), noise=both, steps=2)
    assert together.isfinite()
    for part, pieces in ((together[:, :2], small), (together[:, 2:], large)):
        alone = BARE.sample(pieces, noise=noise, steps=2)
        assert (part.matrix() - alone.matrix()).abs().max() < 1e-4


# -- units and places --------------------------------------------------------------------------------------


def motions(clouds: list[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the assembly takes the clouds' means, in units of the puzzle, and how it turns them."""
    pieces, poses = Pieces.from_clouds(clouds), assembled(clouds)
    assert_sound(poses, clouds)
    means = torch.tensor(np.stack([cloud.mean(axis=0) for cloud in clouds]))
    return poses.act(means) / pieces.scales, poses.rotation


CLOUDS = [blob(i).astype(np.float32).astype(np.float64) for i in range(3)]


@pytest.fixture(scope="module")
def plain_motions() -> tuple[torch.Tensor, torch.Tensor]:
    return motions(CLOUDS)


@pytest.mark.parametrize("unit", [1e-100, 1e-9, 1e-3, 1e9, 1e100])
def test_the_unit_of_length_does_not_matter(plain_motions, unit):
    for changed, plain in zip(motions([unit * c for c in CLOUDS]), plain_motions, strict=True):
        assert (changed - plain).abs().max() < 1e-4


@pytest.mark.parametrize("offset", [1e3, 1e7, -1e7])
def test_the_place_of_the_pieces_does_not_matter(plain_motions, offset):
    moved = motions([c + offset * np.array([1.0, -0.5, 0.01]) for c in CLOUDS])
    for changed, plain in zip(moved, plain_motions, strict=True):
        assert (changed - plain).abs().max() < 1e-4


@pytest.mark.parametrize("kind", ["lists", "float32", "tensors", "one array", "tuple", "tensor that needs a gradient"])
def test_the_kind_of_array_does_not_matter(kind):
    clouds = CLOUDS
    given = {
        "lists": [c.tolist() for c in clouds],
        "float32": [c.astype(np.float32) for c in clouds],
        "tensors": [torch.from_numpy(c) for c in clouds],
        "one array": np.stack(clouds),
        "tuple": tuple(clouds),
        "tensor that needs a gradient": [torch.from_numpy(c).requires_grad_() for c in clouds],
    }[kind]
    assert torch.equal(Pieces.from_clouds(given).points, Pieces.from_clouds(clouds).points)
    assert_sound(assembled(given), clouds)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, np.float16])
def test_coarse_numbers_give_finite_poses(dtype):
    """Means and squares must not overflow in the user's type."""
    clouds = [(100 + 27 * blob(i)).astype(dtype) for i in range(3)]
    assert_sound(assembled(clouds), clouds)


EXTREME = {
    "1e-310 units": [1e-310 * blob(i) for i in range(2)],
    "1e-170 units": [1e-170 * blob(i) for i in range(2)],
    "1e160 units": [1e160 * blob(i) for i in range(2)],
    "an outlier at 1e200": [np.concatenate([blob(), [[1e200, 0, 0]]]), blob(1)],
}


@pytest.mark.parametrize("name", EXTREME)
def test_extreme_coordinates_are_refused_or_give_finite_poses(name):
    """The squares of such numbers are beyond float64."""
    try:
        poses = assembled(EXTREME[name])
    except InputError:
        return
    assert_sound(poses, EXTREME[name])


def test_small_pieces_far_away_are_not_coincident():
    """Pieces of a millimetre, 10 000 km away: half a million steps of float64 across."""
    clouds = [1e-3 * blob(i) + 1e7 for i in range(2)]
    assert len(np.unique(clouds[0], axis=0)) == len(clouds[0])
    assert_sound(assembled(clouds), clouds)
