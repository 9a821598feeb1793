"""Soft correspondences: how surely the places of two pieces correspond, for all pairs of pieces of one puzzle.

A network says it (`nn/correspondences.py`); what follows from it, hypotheses and their features, is found here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eda.lie import SE3

# In units of the places' reach: the usual distance of the nearest place of another piece where both show the surface.
SAME_PLACE = 0.6


@dataclass(frozen=True)
class SoftCorrespondences:
    """Of one puzzle of N pieces with Q pairs."""

    places: Tensor  # (N, m, 3) of every piece in its own frame, padded
    present: Tensor  # (N, m) which of these are not padding
    normals: Tensor | None  # (N, m, 3) at these places, where there are any
    shared: Tensor  # (N, m) how likely the place has a counterpart on another piece
    first: Tensor  # (Q,) a piece
    second: Tensor  # (Q,) a later one
    weights: Tensor  # (Q, m, m)
    reach: float  # the unit of length of the places' level

    def strongest(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Of every pair its `count` strongest correspondences in float64: weights (Q, C), and both places (Q, C, 3)."""
        weights, places = self.weights.double(), self.places.double()
        width = weights.shape[-1]
        weight, index = weights.flatten(1).topk(min(count, width**2))
        source = places[self.first].gather(1, (index // width)[..., None].expand(-1, -1, 3))
        target = places[self.second].gather(1, (index % width)[..., None].expand(-1, -1, 3))
        return weight, source, target


def squared_residuals(T_target_source: SE3, source: Tensor, target: Tensor) -> Tensor:
    """|T x - y|^2 of points (R, C, 3) at relative poses (R, K). -> (R, K, C)."""
    moved = source[:, None] @ T_target_source.rotation.mT + T_target_source.translation[..., None, :]
    return (moved - target[:, None]).square().sum(-1)


def gaussian_weight(squared: Tensor, radius: float) -> Tensor:
    """exp(-d^2 / 2 r^2), of squared distances."""
    return torch.exp(-squared / (2 * radius**2))
