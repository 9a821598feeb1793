"""For every edge, a rotation of its direction onto the y axis, the polar axis of the feature basis."""

import torch
from torch import Tensor

from eda.lie.precision import full_precision


@full_precision
def edge_frames(direction: Tensor) -> Tensor:
    """R with R d = (0, 1, 0), for unit vectors d. (..., 3) -> (..., 3, 3).

    It depends on d alone: nothing is random, and the same edge always gets the same frame. Every such function is
    discontinuous somewhere on the sphere. Attention does not notice, because it commutes with rotations about the edge.
    The construction is the branch-free one of Duff et al. (2017), orthonormal to rounding for all d.
    """
    x, y, z = direction.unbind(-1)
    sign = torch.where(y >= 0, 1.0, -1.0).to(direction.dtype)
    a = -1 / (sign + y)
    b = z * x * a
    first = torch.stack([sign + x * x * a, -x, b], dim=-1)
    last = torch.stack([sign * b, -sign * z, 1 + sign * z * z * a], dim=-1)
    return torch.stack([first, direction, last], dim=-2)
