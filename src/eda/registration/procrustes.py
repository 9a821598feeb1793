"""Weighted Procrustes: the rigid motion that brings points nearest to others, in closed form (Kabsch, Umeyama).

    minimise sum_c w_c |R x_c + t - y_c|^2:   R = nearest rotation to sum_c w_c (y_c - y) (x_c - x)^T,   t = y - R x

where x and y are the weighted means. In torch, for batches on any device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eda.lie import SE3, so3


def weighted_procrustes(weights: Tensor, source: Tensor, target: Tensor) -> tuple[SE3, Tensor]:
    """T_target_source (Q, K) of points (Q, C, 3), by weights (Q, K, C).

    Also the second singular value (Q, K) of the weighted covariance: zero where the points lie on a line, about which
    no rotation is determined.
    """
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)
    x, y = weights @ source, weights @ target
    products = (target[..., :, None] * source[..., None, :]).flatten(-2)  # once, and not for every motion
    covariance = (weights @ products).unflatten(-1, (3, 3)) - y[..., :, None] * x[..., None, :]
    rotation = so3.nearest(covariance)
    motion = SE3(rotation, y - (rotation @ x[..., None]).squeeze(-1))
    return motion, torch.linalg.svdvals(covariance)[..., 1]
