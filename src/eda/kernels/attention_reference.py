"""Edge attention in plain torch, for any device, degree and precision: the definition that the compiled one must equal.

For a receiver u with neighbours v the appendix of the paper defines, in eq. (attention) and eq. (QKV_SO2),

    A_u^l = sum_v softmax_v(<Q_u, K_vu>) V_vu^l,      K_vu = R^T W_K (D_K R F_v),

R the Wigner matrices that turn the edge onto the y axis, D_K the 2D rotations of eq. (D_K), W_K mixing channels and
degrees. W_K acts on channels and picks degrees while R acts on the orders of one degree, so for every pair of degrees
(l, l') the rotation back can come before W_K. With Z = D R F_v and P_ll' keeping the orders |m| <= min(l, l'):

    <Q_u, K_vu> = sum_ll' < (Q_u^l W_K^ll'^T), (R^l)^T P_ll' Z^l' >     one product per node before the sum over edges,
    A_u^l = sum_l' [ sum_v alpha_v (R^l)^T P_ll' Z^l' ] W_V^ll'         one product per node after it.

The operator takes Q W_K^T and returns the bracket, both of shape (U, M, L+1, C) with the source degree l' in the third
place. The products with C x C matrices are left to the caller: one per node, none per edge. Heads split the channels
of Z.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from eda.kernels.edges import COINCIDENT, Edges
from eda.kernels.spline import spline_basis
from eda.lie.frames import edge_frames
from eda.lie.wigner import degree_rows, rotate_features, wigner

# D: from the senders in the edge's frame (U, k, M, C), the weights of the splines (U, k, T) and their control values.
Transform = Callable[[Tensor, Tensor, Tensor], Tensor]


def rotated_orders(aligned: Tensor, basis: Tensor, radial: Tensor) -> Tensor:
    """D of eq. (D_K): every pair of orders (-m, m) is multiplied by a_m + i b_m, per channel. (U, k, M, C)."""
    max_degree = math.isqrt(aligned.shape[2]) - 1
    coefficients = (basis @ radial.flatten(1)).unflatten(-1, radial.shape[1:])
    order = _orders(max_degree, aligned.device)
    mirror = torch.arange(len(order), device=aligned.device) - 2 * order
    a = coefficients[:, :, order.abs()]
    b = coefficients[:, :, torch.where(order == 0, 0, max_degree + order.abs())]
    return a * aligned + order.sign().to(aligned.dtype)[:, None] * b * aligned[:, :, mirror]


def scaled_orders(aligned: Tensor, basis: Tensor, radial: Tensor) -> Tensor:
    """A factor per order: as many parameters as D, but it does not commute with rotations about the edge."""
    max_degree = math.isqrt(aligned.shape[2]) - 1
    coefficients = (basis @ radial.flatten(1)).unflatten(-1, radial.shape[1:])
    return coefficients[:, :, _orders(max_degree, aligned.device) + max_degree] * aligned


def _orders(max_degree: int, device: torch.device) -> Tensor:
    """The order m of every row. -> (M,)."""
    return torch.cat([torch.arange(-l, l + 1, device=device) for l in range(max_degree + 1)])


def edge_attention(
    features: Tensor,
    queries: Tensor,
    edges: Edges,
    key_radial: Tensor,
    value_radial: Tensor,
    num_heads: int,
    transform: Transform = rotated_orders,
) -> Tensor:
    """The attention of U receivers to their k neighbours among S senders.

    features (S, M, C): F_v; queries (U, M, L+1, C): Q_u W_K^T; key_radial and value_radial (T, 2L+1, C): the control
    values of a_0 .. a_L, b_1 .. b_L in D_K and D_V, as functions of the edge's length.
    -> (U, M, L+1, C), to be multiplied with W_V. A receiver without neighbours gets zero.
    """
    max_degree = math.isqrt(features.shape[1]) - 1
    # Geometry in float64: it costs little next to the features, and its rounding would affect every channel.
    exact = edges.vectors.to(torch.float64)
    lengths = torch.linalg.vector_norm(exact, dim=-1)
    # An edge that is not finite has no direction either.
    visible = (edges.neighbors >= 0) & (lengths > COINCIDENT) & lengths.isfinite()
    lengths = torch.where(visible, lengths, 1.0)
    direction = torch.where(visible[..., None], exact / lengths[..., None], exact.new_tensor([0.0, 1.0, 0.0]))
    blocks = [block.to(features.dtype) for block in wigner(edge_frames(direction), max_degree)]
    basis = spline_basis(lengths, len(key_radial)).to(features.dtype)
    aligned = rotate_features(features[edges.neighbors.clamp(min=0)], blocks)

    logits = _scores(queries, transform(aligned, basis, key_radial), blocks, num_heads)
    attention = _masked_softmax(logits, visible)
    values = transform(aligned, basis, value_radial)
    weighted = values * attention.repeat_interleave(features.shape[2] // num_heads, dim=-1)[:, :, None]
    return _sum_neighbors(weighted, blocks)


def _scores(queries: Tensor, keys: Tensor, blocks: list[Tensor], num_heads: int) -> Tensor:
    """<Q_u, K_vu>: the sum over degrees, orders and the channels of a head. -> (U, k, H)."""
    per_channel = torch.zeros_like(keys[:, :, 0])
    for l, block in enumerate(blocks):
        turned = torch.einsum("ukmn,unsc->ukmsc", block, queries[:, degree_rows(l)])
        for source in range(len(blocks)):
            m = min(l, source)
            key = keys[:, :, degree_rows(source)][:, :, source - m : source + m + 1]
            per_channel = per_channel + (turned[:, :, l - m : l + m + 1, source] * key).sum(2)
    return per_channel.unflatten(-1, (num_heads, -1)).sum(-1)


def _masked_softmax(logits: Tensor, visible: Tensor) -> Tensor:
    """Softmax over the visible neighbours, zero for the others and for receivers that have none. (U, k, H)."""
    logits = logits.masked_fill(~visible[..., None], -torch.inf)
    alone = ~visible.any(1)
    weights = torch.softmax(logits.masked_fill(alone[:, None, None], 0.0), dim=1)
    return weights.masked_fill(alone[:, None, None], 0.0)


def _sum_neighbors(weighted: Tensor, blocks: list[Tensor]) -> Tensor:
    """sum_v (R^l)^T P_ll' Z^l' for all pairs of degrees. (U, k, M, C) -> (U, M, L+1, C)."""
    by_degree = []
    for l, block in enumerate(blocks):
        sources = []
        for source in range(len(blocks)):
            m = min(l, source)
            rows = weighted[:, :, degree_rows(source)][:, :, source - m : source + m + 1]
            sources.append(F.pad(rows, (0, 0, l - m, l - m)))
        by_degree.append(torch.einsum("ukmn,ukmsc->unsc", block, torch.stack(sources, dim=3)))
    return torch.cat(by_degree, dim=1)
