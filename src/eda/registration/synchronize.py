"""Synchronisation: from relative poses of pairs of pieces, with confidences, to poses of all pieces.

In: what is wanted of every pair, as soft rigid fits. Out: rotations by the generalised power method, translations by
one linear system per puzzle. All of it is differentiable, does not depend on the order of the pieces, and turns with
them.

Shapes: B puzzles, N pieces (padded; a piece that is not there has no confidence in any pair).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eda.lie import so3

POWER_STEPS = 6
# Added to the cross-covariance of a pair, relative to its spread: a fit that leaves a rotation open does not turn.
STIFFNESS = 1e-3
SHORT = 1e-6  # a squared length that counts as zero


@dataclass(frozen=True)
class PairSums:
    """Moments of the soft correspondences of every ordered pair (i, j), from which its rigid fit follows."""

    weight: Tensor  # (B, N, N) sum of w
    here: Tensor  # (B, N, N, 3) sum of w x, the places of i
    there: Tensor  # (B, N, N, 3) sum of w y, those of j
    here_squared: Tensor  # (B, N, N) sum of w |x|^2
    there_squared: Tensor  # (B, N, N) sum of w |y|^2
    outer: Tensor  # (B, N, N, 3, 3) sum of w y x^T

    @staticmethod
    def of(weight: Tensor, here: Tensor, there: Tensor, slot: Tensor, shape: tuple[int, int]) -> PairSums:
        """From edges: weights (E,), places (E, 3) and (E, 3), and their slot (E,) in (B, N, N). Shape is (B, N).

        A correspondence counts for (i, j) and, with its places exchanged, for (j, i).
        """
        batch, count = shape
        columns = [weight, here.square().sum(-1) * weight, there.square().sum(-1) * weight]
        flat = [torch.stack(columns, -1), here * weight[:, None], there * weight[:, None]]
        flat.append((there[:, :, None] * here[:, None, :] * weight[:, None, None]).flatten(1))
        rows = torch.cat(flat, -1)
        sums = rows.new_zeros(batch * count * count, rows.shape[-1]).index_add(0, slot, rows)
        sums = sums.reshape(batch, count, count, -1)
        back = sums.transpose(1, 2)
        outer = sums[..., 9:].unflatten(-1, (3, 3)) + back[..., 9:].unflatten(-1, (3, 3)).mT
        return PairSums(
            weight=sums[..., 0] + back[..., 0],
            here=sums[..., 3:6] + back[..., 6:9],
            there=sums[..., 6:9] + back[..., 3:6],
            here_squared=sums[..., 1] + back[..., 2],
            there_squared=sums[..., 2] + back[..., 1],
            outer=outer,
        )


@dataclass(frozen=True)
class PairFits:
    """The rigid fit of every ordered pair (i, j): y = R x + t for the places x of i and y of j, where they lie now."""

    rotation: Tensor  # (B, N, N, 3, 3)
    here: Tensor  # (B, N, N, 3) the mean of x
    there: Tensor  # (B, N, N, 3) the mean of y
    weight: Tensor  # (B, N, N) how many correspondences, softly
    spread: Tensor  # (B, N, N) the variance of x and y together
    residual: Tensor  # (B, N, N) what of it is left after the fit

    @staticmethod
    def of(sums: PairSums) -> PairFits:
        """Weighted Procrustes problems, one for every pair."""
        total = sums.weight.clamp(min=SHORT)
        here, there = sums.here / total[..., None], sums.there / total[..., None]
        covariance = sums.outer / total[..., None, None] - there[..., :, None] * here[..., None, :]
        spread = (sums.here_squared + sums.there_squared) / total
        spread = (spread - here.square().sum(-1) - there.square().sum(-1)).clamp(min=0)
        eye = torch.eye(3, dtype=total.dtype, device=total.device)
        rotation = so3.nearest(covariance + (STIFFNESS * spread + SHORT)[..., None, None] * eye, damping=0.03)
        residual = (spread - 2 * (rotation * covariance).sum((-1, -2))).clamp(min=0)
        return PairFits(rotation, here, there, sums.weight, spread, residual)


def synchronize(
    fits: PairFits, confidence: Tensor, rotation: Tensor, center: Tensor, goal: tuple[Tensor, Tensor], hold: Tensor
) -> tuple[Tensor, Tensor]:
    """Poses that agree with the fits as far as each is trusted. -> (B, N, 3, 3) and (B, N, 3).

    confidence (B, N, N), symmetric and zero on the diagonal; rotation (B, N, 3, 3) and center (B, N, 3) say where the
    pieces are; `goal`, of the same shapes, where each is to go with the weight `hold` if no fit says otherwise.
    """
    degree = confidence.sum(-1)
    # X_j^-1 X_i as the pair wants it: in the frames of the pieces, so it does not depend on where the whole lies.
    relative = rotation.mT[:, None] @ fits.rotation @ rotation[:, :, None]
    turned, kept = rotation, goal[0] * hold
    for _ in range(POWER_STEPS):
        pulled = torch.einsum("bij,bjkl,bijlm->bikm", confidence, turned, relative)
        # With its own share a piece goes half of the way: two pieces that both went all of it would miss each other.
        turned = so3.nearest(pulled + degree[..., None, None] * turned + kept, damping=0.03)
    motion = turned @ rotation.mT
    here = (motion[:, :, None] @ (fits.here - center[:, :, None])[..., None]).squeeze(-1)
    there = (motion[:, None] @ (fits.there - center[:, None])[..., None]).squeeze(-1)
    laplacian = torch.diag_embed(degree + hold) - confidence
    wanted = (confidence[..., None] * (there - here)).sum(2) + hold * goal[1]
    return turned, torch.linalg.solve(laplacian, wanted)


def follow_pairs(
    fits: PairFits, confidence: Tensor, rotation: Tensor, center: Tensor, goal: tuple[Tensor, Tensor], hold: Tensor
) -> tuple[Tensor, Tensor]:
    """Poses to which the others pull every piece from where they are now: no synchronisation, to compare with.

    Arguments and result as those of `synchronize`.
    """
    degree = confidence.sum(-1)
    pulled = torch.einsum("bij,bijkl->bikl", confidence, fits.rotation) @ rotation
    turned = so3.nearest(pulled + goal[0] * hold)
    here = (turned @ rotation.mT)[:, :, None] @ (fits.here - center[:, :, None])[..., None]
    wanted = (confidence[..., None] * (fits.there - here.squeeze(-1))).sum(2) + hold * goal[1]
    return turned, wanted / (degree + hold)[..., None]
