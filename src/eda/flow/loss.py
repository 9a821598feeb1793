"""The flow matching loss, eq. (2), on SE(3)^N.

|v_X(h) - dh/dtau|_F^2 = |(f - xi) h|_F^2 for the predicted twist f and the path's twist xi. In terms of the
velocity u = t + w x c of a piece's centre c instead of the twist's translation t, it is 2 |dw|^2 + |du|^2 for a centred
piece, which does not depend on where the origin is.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eda.segment import segment_mean


@dataclass(frozen=True)
class Loss:
    """Means over the pieces of a puzzle, then over puzzles."""

    rotation: Tensor  # |dw|^2
    translation: Tensor  # |du|^2
    total: Tensor  # what is minimised


def center_velocity(twist: Tensor, center: Tensor) -> Tensor:
    """(w, t) -> (w, u): u = t + w x c, the velocity of the point c. (N, 6), (N, 3) -> (N, 6)."""
    return torch.cat([twist[..., :3], twist[..., 3:] + torch.linalg.cross(twist[..., :3], center)], dim=-1)


def spatial_twist(velocity: Tensor, center: Tensor) -> Tensor:
    """(w, u) -> (w, t): the inverse of `center_velocity`."""
    return torch.cat([velocity[..., :3], velocity[..., 3:] - torch.linalg.cross(velocity[..., :3], center)], dim=-1)


def rotate_velocity(velocity: Tensor, rotation: Tensor) -> Tensor:
    """Both vectors of (w, u) turned. (N, 6), (N, 3, 3) -> (N, 6)."""
    return (velocity.unflatten(-1, (2, 3)) @ rotation.mT).flatten(-2)


def flow_loss(
    predicted: Tensor, target: Tensor, puzzle: Tensor, num_puzzles: int, translation_weight: float = 1.0
) -> Loss:
    """2 |dw|^2 + translation_weight |du|^2 between (w, u) of shape (N, 6); weight 1 is the paper's Frobenius norm."""
    square = (predicted - target).square()
    parts = torch.stack([square[:, :3].sum(-1), square[:, 3:].sum(-1)], dim=-1)
    rotation, translation = segment_mean(parts, puzzle, num_puzzles).mean(0)
    return Loss(rotation, translation, 2 * rotation + translation_weight * translation)
