"""`so3.random` draws from the Haar measure, the one law that no rotation from either side changes."""

import math

import pytest
import torch
from scipy.stats import kstest
from support.oracles import haar_p_value, unit_vectors

from eda.lie import so3

COUNT = 20000
DTYPES = [torch.float32, torch.float64]
SIDES = {"left": lambda g, r: g @ r, "right": lambda g, r: r @ g}

both_precisions = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return so3.random(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def trace(rotation: torch.Tensor) -> torch.Tensor:
    return rotation.diagonal(dim1=-2, dim2=-1).sum(-1)


def uniform_angle_rotations() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    angle = math.pi * torch.rand(COUNT, 1, generator=generator, dtype=torch.float64)
    return so3.exp(angle * unit_vectors(COUNT))


def haar_angle_rotations_about_one_axis() -> torch.Tensor:
    w = so3.log(draw(COUNT)).norm(dim=-1, keepdim=True) * torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    return so3.exp(w)


@both_precisions
def test_draws_are_rotations(dtype):
    rotation = draw(COUNT, dtype=dtype)
    rounding = 32 * torch.finfo(dtype).eps
    one = torch.eye(3, dtype=dtype).expand_as(rotation)
    torch.testing.assert_close(rotation @ rotation.mT, one, rtol=0, atol=rounding)
    torch.testing.assert_close(torch.linalg.det(rotation), one[:, 0, 0], rtol=0, atol=rounding)


@both_precisions
def test_angles_follow_haar(dtype):
    assert haar_p_value(draw(COUNT, dtype=dtype)) > 0.01


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("seed", [1, 2])
def test_angles_follow_haar_after_a_rotation_from_either_side(side, seed):
    assert haar_p_value(SIDES[side](draw(seed=seed), draw(COUNT))) > 0.01


def test_uniform_angles_fail_the_same_test():
    """The negative control: a uniform angle about a uniform axis is not Haar."""
    assert haar_p_value(uniform_angle_rotations()) < 1e-6


@pytest.mark.parametrize("side", SIDES)
def test_one_axis_fails_the_test_of_invariance(side):
    """The negative control: the angles of Haar, about one axis, pass until they are rotated."""
    rotation = haar_angle_rotations_about_one_axis()
    assert haar_p_value(rotation) > 0.01
    assert haar_p_value(SIDES[side](draw(seed=1), rotation)) < 1e-6


@both_precisions
def test_moments_are_those_of_haar(dtype):
    """E tr R = 0, E (tr R)^2 = 1, E R = 0, and E R_ij R_kl = 1/3 for equal entries, 0 for others."""
    rotation = draw(COUNT, dtype=dtype).double()
    within = 4.5 / math.sqrt(COUNT)
    assert abs(trace(rotation).mean()) < within
    assert abs(trace(rotation).square().mean() - 1) < 2 * within
    entries = rotation.flatten(-2)
    assert entries.mean(0).abs().max() < within
    assert (entries.mT @ entries / COUNT - torch.eye(9) / 3).abs().max() < within


def test_axes_are_uniform_on_the_sphere():
    """Archimedes: each coordinate of a uniform direction is uniform on [-1, 1]."""
    axis = torch.nn.functional.normalize(so3.log(draw(COUNT)), dim=-1)
    for coordinate in axis.T:
        assert kstest(coordinate.numpy(), "uniform", args=(-1, 2)).pvalue > 0.01


@both_precisions
def test_same_seed_gives_same_bits(dtype):
    assert torch.equal(draw(100, seed=3, dtype=dtype), draw(100, seed=3, dtype=dtype))
    assert not torch.equal(draw(100, seed=3, dtype=dtype), draw(100, seed=4, dtype=dtype))


def test_generator_leaves_the_global_one_alone():
    before = torch.random.get_rng_state()
    draw(100)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("shape", [(), (5,), (2, 0), (2, 3)])
@both_precisions
def test_shape_and_dtype_are_the_asked_ones(shape, dtype):
    rotation = draw(*shape, dtype=dtype)
    assert rotation.shape == (*shape, 3, 3)
    assert rotation.dtype == dtype
