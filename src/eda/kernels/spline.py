"""Learnable functions of an edge's length: cubic B-splines in a coordinate that covers all lengths."""

import torch
from torch import Tensor


def spline_basis(lengths: Tensor, num_knots: int) -> Tensor:
    """The weights of `num_knots` control values at every length (in units of the reach). (...) -> (..., num_knots).

    The knots are uniform in x = r / (r + 1). So the resolution is finest below the reach, and there is no cut-off:
    pieces that are far apart still see each other. At most four weights are not zero; they are positive and sum to one.
    """
    intervals = num_knots - 3
    position = lengths / (lengths + 1) * intervals
    first = position.floor().clamp(max=intervals - 1)
    f = position - first
    weights = torch.stack(
        [(1 - f) ** 3, 3 * f**3 - 6 * f**2 + 4, 1 + 3 * f + 3 * f**2 - 3 * f**3, f**3], dim=-1
    ).div(6)  # fmt: skip
    index = first.long()[..., None] + torch.arange(4, device=lengths.device)
    return torch.zeros(*lengths.shape, num_knots, dtype=lengths.dtype, device=lengths.device).scatter(
        -1, index, weights
    )
