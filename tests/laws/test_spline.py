"""The radial functions are uniform cubic B-splines in x = r / (r + 1)."""

import numpy as np
import pytest
import torch
from support.oracles import cubic_spline

from eda.kernels.spline import spline_basis

KNOTS = [4, 5, 8, 16]
with_any_knots = pytest.mark.parametrize("num_knots", KNOTS)


def lengths(count: int = 200) -> torch.Tensor:
    """From 1e-4 to 1e4 of the reach, evenly in the logarithm, and zero."""
    return torch.cat([torch.zeros(1), torch.logspace(-4, 4, count)]).double()


def at_coordinate(x: torch.Tensor, num_knots: int) -> torch.Tensor:
    return spline_basis(x / (1 - x), num_knots)


@with_any_knots
def test_weights_sum_to_one(num_knots):
    total = spline_basis(lengths(), num_knots).sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-14)


@with_any_knots
def test_weights_are_not_negative(num_knots):
    assert (spline_basis(lengths(), num_knots) >= 0).all()


@with_any_knots
def test_four_adjacent_weights_are_not_zero(num_knots):
    inside = (torch.arange(num_knots - 3).double() + 0.37) / (num_knots - 3)  # one coordinate per interval
    nonzero = at_coordinate(inside, num_knots) > 0
    first = torch.arange(num_knots - 3)[:, None]
    expected = torch.zeros_like(nonzero).scatter(1, first + torch.arange(4), True)
    assert torch.equal(nonzero, expected)


@with_any_knots
def test_it_is_scipys_spline(num_knots):
    control = np.random.default_rng(0).normal(size=(num_knots, 2))
    got = spline_basis(lengths(60), num_knots) @ torch.from_numpy(control)
    expected = torch.stack([cubic_spline(torch.from_numpy(control), float(r)) for r in lengths(60)])
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-13)


@with_any_knots
def test_equal_control_values_give_a_constant_and_linear_ones_a_line(num_knots):
    x = torch.linspace(0, 0.999, 50).double()
    control = torch.stack([torch.full((num_knots,), 3.0), torch.arange(num_knots).float()], dim=-1).double()
    got = at_coordinate(x, num_knots) @ control
    expected = torch.stack([torch.full_like(x, 3.0), 1 + x * (num_knots - 3)], dim=-1)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("num_knots", [5, 8, 16])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_it_is_twice_continuously_differentiable_across_knots(num_knots, order):
    """Finite differences in x on both sides of every inner knot; the third derivative does jump."""
    intervals = num_knots - 3
    knots = torch.arange(1, intervals).double() / intervals
    h = 1e-3 / intervals
    stencil = h * torch.arange(4).double()
    control = torch.from_numpy(np.random.default_rng(1).normal(size=(num_knots, 1)))

    def derivatives(side: int) -> torch.Tensor:
        """Of the cubic through four values on one side, at the knot: orders 0 .. 3."""
        values = (at_coordinate(knots[:, None] + side * stencil, num_knots) @ control).squeeze(-1)
        cubic = torch.linalg.solve(torch.vander(side * stencil, increasing=True), values.mT).mT
        return cubic * torch.tensor([1.0, 1.0, 2.0, 6.0]).double() / intervals ** torch.arange(4).double()

    left, right = derivatives(-1), derivatives(+1)
    torch.testing.assert_close(left[:, order], right[:, order], rtol=0, atol=1e-6)
    assert (left[:, 3] - right[:, 3]).abs().min() > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@with_any_knots
def test_it_begins_at_length_zero(num_knots, dtype):
    expected = torch.zeros(num_knots, dtype=dtype)
    expected[:3] = torch.tensor([1 / 6, 4 / 6, 1 / 6], dtype=dtype)
    torch.testing.assert_close(spline_basis(torch.zeros((), dtype=dtype), num_knots), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("length", [1e6, 1e12, 1e30])
@with_any_knots
def test_it_ends_in_a_constant_at_huge_lengths(num_knots, length, dtype):
    expected = torch.zeros(num_knots, dtype=dtype)
    expected[-3:] = torch.tensor([1 / 6, 4 / 6, 1 / 6], dtype=dtype)
    got = spline_basis(torch.tensor([length], dtype=dtype), num_knots)[0]
    torch.testing.assert_close(got, expected, rtol=0, atol=2e-5)


def test_every_shape_of_lengths_is_kept():
    assert spline_basis(torch.rand(2, 3, 4), 7).shape == (2, 3, 4, 7)
