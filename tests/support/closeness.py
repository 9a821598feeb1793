"""For tests: tensors that agree up to a tolerance. Shapes and dtypes must agree as well."""

import torch
from torch import Tensor


def assert_near(found: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    """No entry differs by more than the tolerance."""
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


def assert_near_and_nonzero(found: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    """No entry differs by more than the tolerance, and some entry is not small: zero would satisfy every law."""
    assert expected.abs().max() > 1e-3
    assert_near(found, expected, tolerance)


def assert_near_to_scale(found: Tensor, expected: Tensor, tolerance: float, smallest_scale: float = 0.0) -> None:
    """No entry differs by more than the tolerance times the largest expected entry, or times the smallest scale."""
    largest = float(expected.detach().abs().max()) if expected.numel() else 0.0
    assert_near(found, expected, tolerance * max(smallest_scale, largest))
