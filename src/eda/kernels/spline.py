"""Learnable functions of an edge's length: cubic B-splines in a coordinate that reaches to infinity."""

import torch
from torch import Tensor


def spline_basis(lengths: Tensor, num_knots: int) -> Tensor:
    """The weights of `num_knots` control values at every length (in units of the reach). (...) -> (..., num_knots).

    The spline is uniform in x = r / (r + 1), so the resolution is finest below the reach and every length, however
    large, has its place: far pieces still see each other, and nothing needs a cut-off. Four weights are not zero;
    they are positive and sum to one.
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
