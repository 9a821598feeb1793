"""r*, the rotation of the solution that brings it nearest to the noise, eq. (6), and its distribution."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation
from support.lumpy_shapes import lumpy_pieces
from support.oracles import haar_p_value
from support.rigid_motions import random_motions, random_se3

from eda.flow import rotation_correction, sample_noise
from eda.lie import SE3
from eda.segment import ranges

COUNTS = (2, 3, 5, 1)
SEEDS = range(5)


def correction(noise: SE3, solution: SE3) -> torch.Tensor:
    """r* of one puzzle. -> (3, 3)."""
    return rotation_correction(noise, solution, torch.zeros(len(noise), dtype=torch.long), 1)[0]


def gap(rotation: np.ndarray, noise: SE3, solution: SE3) -> np.ndarray:
    """|r g~_1 - g_0|_F^2 with homogeneous matrices, for rotations (..., 3, 3). -> (...)."""
    whole = np.zeros((*rotation.shape[:-2], 1, 4, 4))
    whole[..., 0, :3, :3], whole[..., 0, 3, 3] = rotation, 1
    return np.square(whole @ solution.matrix().numpy() - noise.matrix().numpy()).sum((-3, -2, -1))


def mirrored(seed: int) -> tuple[SE3, SE3]:
    """The solution's places mirror those of the noise: the best orthogonal matrix is no rotation."""
    noise, solution = random_se3(5, seed), random_se3(5, seed + 50)
    places = 4 * noise.translation
    return (
        SE3(noise.rotation, places),
        SE3(solution.rotation, places * torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)),
    )


def generic(seed: int) -> tuple[SE3, SE3]:
    return random_se3(3, seed), random_se3(3, seed + 50)


both_kinds = pytest.mark.parametrize("kind", [generic, mirrored])


@both_kinds
@pytest.mark.parametrize("seed", SEEDS)
def test_no_rotation_is_better(kind, seed):
    """Brute force over the group, then a descent from the best found: it ends at r*."""
    noise, solution = kind(seed)
    ours = correction(noise, solution).numpy()
    tried = Rotation.random(3000, np.random.default_rng(seed))
    gaps = gap(tried.as_matrix(), noise, solution)
    assert gap(ours, noise, solution) <= gaps.min()
    best = tried[int(gaps.argmin())]

    def descended(w: np.ndarray) -> float:
        return float(gap((Rotation.from_rotvec(w) * best).as_matrix(), noise, solution))

    end = minimize(descended, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13})
    found = (Rotation.from_rotvec(end.x) * best).as_matrix()
    np.testing.assert_allclose(found, ours, rtol=0, atol=1e-5)


@both_kinds
@pytest.mark.parametrize("seed", SEEDS)
def test_agrees_with_scipy(kind, seed):
    """The columns of g_0 and g~_1 are vectors to be aligned."""
    noise, solution = kind(seed)
    ours = correction(noise, solution).numpy()
    columns = [g.matrix()[:, :3].mT.reshape(-1, 3).numpy() for g in (noise, solution)]
    theirs, _ = Rotation.align_vectors(*columns)
    np.testing.assert_allclose(ours, theirs.as_matrix(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_never_a_reflection(seed):
    noise, solution = mirrored(seed)
    products = noise.matrix()[:, :3] @ solution.matrix()[:, :3].mT
    assert torch.linalg.det(products.sum(0)) < 0, "the case must be one where a reflection would be nearer"
    rotation = correction(noise, solution)
    torch.testing.assert_close(rotation @ rotation.mT, torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-14)
    assert torch.linalg.det(rotation) > 0


def test_one_rotation_per_puzzle_and_none_sees_the_others():
    noise, solution = random_se3(sum(COUNTS), 0), random_se3(sum(COUNTS), 1)
    together = rotation_correction(noise, solution, ranges(torch.tensor(COUNTS)), len(COUNTS))
    assert together.shape == (len(COUNTS), 3, 3)
    for b, rows in enumerate(torch.split(torch.arange(sum(COUNTS)), COUNTS)):
        torch.testing.assert_close(together[b], correction(noise[rows], solution[rows]), rtol=0, atol=1e-13)


def test_pieces_of_a_puzzle_need_not_be_adjacent():
    noise, solution = random_se3(sum(COUNTS), 0), random_se3(sum(COUNTS), 1)
    puzzle = ranges(torch.tensor(COUNTS))
    order = torch.randperm(len(puzzle), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        rotation_correction(noise[order], solution[order], puzzle[order], len(COUNTS)),
        rotation_correction(noise, solution, puzzle, len(COUNTS)),
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_solution_that_is_only_turned_is_turned_back(seed):
    solution = random_se3(4, seed)
    turn = random_se3(1, seed + 10).rotation[0]
    noise = SE3(turn, torch.zeros(3, dtype=torch.float64)) @ solution
    torch.testing.assert_close(correction(noise, solution), turn, rtol=0, atol=1e-13)


@both_kinds
@pytest.mark.parametrize("seed", SEEDS)
def test_turning_the_whole_conjugates(kind, seed):
    """r*(r g_0, r g~_1) = r r* r^-1."""
    noise, solution = kind(seed)
    whole = random_se3(1, seed + 20, spread=0)[0]
    r = whole.rotation
    torch.testing.assert_close(
        correction(whole @ noise, whole @ solution),
        r @ correction(noise, solution) @ r.mT,
        rtol=0,
        atol=1e-12,
    )


@both_kinds
@pytest.mark.parametrize("seed", SEEDS)
def test_turning_the_pieces_does_nothing(kind, seed):
    """r*(g_0 r^-1, g~_1 r^-1) = r*, each piece with a rotation of its own."""
    noise, solution = kind(seed)
    back = SE3.from_matrix(random_motions(len(noise), seed + 30, spread=0)).inverse()
    turned = correction(noise @ back, solution @ back)
    torch.testing.assert_close(turned, correction(noise, solution), rtol=0, atol=1e-12)


@pytest.mark.parametrize("fixed", [0, 1])
@pytest.mark.parametrize("num_pieces", [2, 4])
def test_is_haar_for_a_given_solution(num_pieces, fixed):
    """Prop. "rotation correction". Haar is the one law that no rotation from either side changes."""
    samples = 2000
    pieces = lumpy_pieces(num_pieces, 8, normals=False)
    noise = sample_noise(pieces, 0.7, samples=samples, generator=torch.Generator().manual_seed(fixed))
    solution = SE3.cat([random_se3(num_pieces, fixed)] * samples)
    puzzle = ranges(torch.full((samples,), num_pieces))
    drawn = rotation_correction(noise.reshape(-1), solution, puzzle, samples)
    assert haar_p_value(drawn) > 0.01
    for left, right in random_se3(6, 9).rotation.reshape(3, 2, 3, 3):
        assert haar_p_value(left @ drawn @ right) > 0.01
