"""The rotation nearest to a matrix, and its gradient, which a damping bounds where that rotation is hardly unique."""

import pytest
import torch
from scipy.linalg import polar
from scipy.spatial.transform import Rotation
from support.closeness import assert_near, assert_near_and_nonzero
from support.oracles import haar_rotations
from support.soft_matches import drawn
from torch import Tensor

from eda.lie import so3

DAMPING = 0.03
of_all_dampings = pytest.mark.parametrize("damping", [0.0, DAMPING, 1.0])


def with_values(values: list[float], seed: int = 0) -> Tensor:
    """A matrix of these singular values; if the last one is negative, of negative determinant."""
    left, right = haar_rotations(2, seed)
    return left @ torch.diag(torch.tensor(values).double()) @ right


def slope(matrix: Tensor, damping: float, seed: int = 1) -> Tensor:
    matrix = matrix.clone().requires_grad_()
    value = (so3.nearest(matrix, damping) * drawn(3, 3, seed=seed).to(matrix)).sum()
    return torch.autograd.grad(value, matrix)[0]


@of_all_dampings
def test_the_value_is_the_nearest_rotation_whatever_the_damping(damping):
    matrices = drawn(40, 3, 3)
    found = so3.nearest(matrices, damping)
    assert torch.equal(found, so3.nearest(matrices))
    for one, matrix in zip(found, matrices.numpy(), strict=True):
        theirs = Rotation.align_vectors(matrix.T, torch.eye(3).double().numpy())[0].as_matrix()
        assert_near_and_nonzero(one, torch.from_numpy(theirs), 1e-9)
    proper = torch.linalg.det(matrices) > 0
    assert 5 < int(proper.sum()) < 35
    factors = torch.stack([torch.from_numpy(polar(matrix)[0]) for matrix in matrices[proper].numpy()])
    assert_near_and_nonzero(found[proper], factors, 1e-9)
    assert_near_and_nonzero(torch.linalg.det(found), torch.ones(40).double(), 1e-12)


@pytest.mark.parametrize("values", [[3.0, 2.0, 1.0], [3.0, 2.0, -1.0], [2.0, 2.0, 2.0], [1.0, 0.5, 0.0]])
def test_the_gradient_without_damping_is_that_of_finite_differences(values):
    """Also where singular values are equal, so that the SVD itself has no gradient."""
    assert torch.autograd.gradcheck(so3.nearest, with_values(values).requires_grad_(), eps=1e-6, atol=1e-6)


def test_less_and_less_damping_leaves_the_gradient_as_it_is():
    for values in ([3.0, 2.0, 1.0], [3.0, 2.0, -1.0], [1.0, 0.1, 0.01]):
        matrix = with_values(values)
        exact = slope(matrix, 0.0)
        gaps = [float((slope(matrix, damping) - exact).norm() / exact.norm()) for damping in (1e-1, 1e-2, 1e-3, 1e-6)]
        assert gaps == sorted(gaps, reverse=True)
        assert gaps[0] > 0
        assert gaps[-1] < 1e-6
    assert slope(with_values([3.0, 2.0, 1.0]), DAMPING).norm() > 0.99 * slope(with_values([3.0, 2.0, 1.0]), 0.0).norm()


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-8, 1e-12, 0.0])
@pytest.mark.parametrize("values", [[2.0, 1.0, -1.0], [2.0, 0.0, 0.0]])
def test_a_damped_gradient_is_bounded_where_the_rotation_is_hardly_unique(values, gap):
    """Those of two singular values that cancel, or are none, by `gap`: undamped it grows as the inverse of that."""
    matrix = with_values([values[0], values[1] + gap, values[2]])
    bound = 6 / (DAMPING * values[0])  # what comes in is no longer than six
    assert drawn(3, 3, seed=1).norm() < 6
    for seed in range(1, 5):
        assert slope(matrix, DAMPING, seed).norm() < bound
    if 1e-7 < gap < 1e-3:  # nearer than that, rounding decides what an undamped gradient is
        assert slope(matrix, 0.0).norm() > 10 * bound


@of_all_dampings
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_matrix_of_zeros_teaches_nothing_and_no_matrix_anything_infinite(damping, dtype):
    assert not slope(torch.zeros(3, 3, dtype=dtype), damping).any()
    for values in ([1e-30, 0.0, 0.0], [1.0, 1.0, -1.0], [1e-12, 1e-12, 1e-12], [1.0, 1e-20, -1e-20]):
        found = slope(with_values(values).to(dtype), damping)
        assert found.isfinite().all() or damping == 0, values


@of_all_dampings
def test_the_gradient_turns_with_the_matrix_and_is_smaller_for_a_larger_one(damping):
    """Damping is relative to the matrix."""
    matrix, (left, right), weights = with_values([2.0, 1.0, -0.99]), haar_rotations(2, 9), drawn(3, 3, seed=1)
    expected = slope(matrix, damping)
    turned = (left @ matrix @ right).requires_grad_()
    value = (so3.nearest(turned, damping) * (left @ weights @ right)).sum()
    assert_near_and_nonzero(torch.autograd.grad(value, turned)[0], left @ expected @ right, 1e-7)
    assert_near(50 * slope(50 * matrix, damping), expected, 1e-6)
