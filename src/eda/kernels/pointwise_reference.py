"""Layers that act on each point alone, in plain torch: the definitions that the compiled ones must equal.

Features are (P, M, C): degree l in rows l^2 .. (l+1)^2 - 1. Every function here commutes with rotations: it mixes
channels, never the orders of a degree, and its nonlinear parts see only invariants.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from eda.lie.wigner import degree_rows

# Added below square roots, so that they are smooth where their argument vanishes.
FLOOR = 1e-6


def degree_product(features: Tensor, weight: Tensor, bias: Tensor | None, first_degree: int) -> Tensor:
    """features[:, row] @ weight[degree of row] for the rows from `first_degree` on, plus a bias on the first row.

    One row of all points is a matrix with a stride. A batched product reads and writes it in place, so no degree is
    copied out or concatenated. This is 2.5 times as fast as slicing, multiplying and concatenating.
    """
    skipped = first_degree**2
    mapped = features.new_empty(len(features), features.shape[1] - skipped, weight.shape[2])
    for matrix, rows in _with_rows(weight, first_degree):
        torch.bmm(_by_row(features, rows), _for_rows(matrix, rows), out=_by_row(mapped, rows, skipped))
    if bias is not None:
        mapped[:, 0] += bias
    return mapped


def degree_product_d_features(gradient: Tensor, weight: Tensor, first_degree: int) -> Tensor:
    """The gradient of `degree_product` by its features. (P, M - first_degree^2, outputs) -> (P, M, inputs)."""
    skipped = first_degree**2
    d_features = gradient.new_zeros(len(gradient), gradient.shape[1] + skipped, weight.shape[1])
    for matrix, rows in _with_rows(weight, first_degree):
        torch.bmm(_by_row(gradient, rows, skipped), _for_rows(matrix.mT, rows), out=_by_row(d_features, rows))
    return d_features


def degree_product_d_weight(gradient: Tensor, features: Tensor, weight: Tensor, first_degree: int) -> Tensor:
    """The gradient of `degree_product` by its weight, (degrees, inputs, outputs)."""
    skipped = first_degree**2
    return torch.stack(
        [
            torch.bmm(_by_row(features, rows).mT, _by_row(gradient, rows, skipped)).sum(0)
            for _, rows in _with_rows(weight, first_degree)
        ]
    )


def _with_rows(weight: Tensor, first_degree: int) -> Iterator[tuple[Tensor, slice]]:
    """Every matrix with the rows of its degree."""
    return ((matrix, degree_rows(degree)) for degree, matrix in enumerate(weight, start=first_degree))


def _by_row(features: Tensor, rows: slice, skipped: int = 0) -> Tensor:
    """A view (rows, P, C) of features (P, M, C) that lack the first `skipped` rows."""
    return features[:, rows.start - skipped : rows.stop - skipped].transpose(0, 1)


def _for_rows(matrix: Tensor, rows: slice) -> Tensor:
    return matrix.expand(rows.stop - rows.start, -1, -1)


def equivariant_norm(features: Tensor, gain: Tensor) -> Tensor:
    """F / sigma times a gain, which is (P, C) or (C,). (P, M, C) -> (P, M, C)."""
    return features * (gain * _inverse_rms(features))[:, None]


def _inverse_rms(features: Tensor) -> Tensor:
    """1 / sigma of Sec. 5.2, degree 0 included: sigma^2 is the mean over degrees of their mean square. -> (P, 1)."""
    degrees, channels = math.isqrt(features.shape[1]), features.shape[2]
    share = torch.cat([features.new_full((2 * l + 1,), 1 / (2 * l + 1)) for l in range(degrees)])
    squares = torch.linalg.vector_norm(features, dim=-1).square() @ (share / (degrees * channels))
    return (squares + FLOOR).rsqrt()[:, None]


def equivariant_gelu(features: Tensor, toward: Tensor) -> Tensor:
    """Elu of Sec. 5.2 as F Phi(<F, unit(W F)>), since the printed form maps a vector to a scalar. GELU at degree 0.

    features (P, M, C), toward (P, M - 1, C): W F of the degrees above 0. -> (P, M, C).
    """
    projections = [features[:, :1]]
    for l in range(1, math.isqrt(features.shape[1])):
        vector, direction = features[:, degree_rows(l)], toward[:, l**2 - 1 : (l + 1) ** 2 - 1]
        length = (direction.square().sum(1, keepdim=True) + FLOOR).sqrt()
        projections.append((vector * direction).sum(1, keepdim=True) / length)
    gates = torch.special.ndtr(torch.cat(projections, dim=1)).split(1, dim=1)
    return torch.cat([features[:, degree_rows(l)] * gate for l, gate in enumerate(gates)], dim=1)
