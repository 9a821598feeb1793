"""Layers that act on every point by itself. Features are (P, M, C): degree l in rows l^2 .. (l+1)^2 - 1.

All of them commute with rotations: they mix channels, never the orders of a degree, and look at invariants only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from eda.kernels import may_read, pointwise
from eda.lie.wigner import degree_rows
from eda.nn.chunks import in_chunks


@dataclass(frozen=True)
class Time:
    """tau, embedded: one row per puzzle, and which puzzle every point belongs to."""

    embedding: Tensor  # (B, E)
    puzzle: Tensor  # (P,)
    _gains: dict[nn.Module, Tensor] = field(default_factory=dict)

    def gain(self, layer: nn.Linear) -> Tensor:
        """1 + layer(embedding) for every point, (P, C): kept, since stages of a Runge-Kutta step share their tau."""
        if layer not in self._gains:
            self._gains[layer] = (1 + layer(self.embedding))[self.puzzle]
        return self._gains[layer]


class DegreeLinear(nn.Module):
    """A linear map of the channels, one matrix per degree; only degree 0 may have a bias.

    With first_degree > 0 the lower degrees are left out of the output.
    """

    def __init__(
        self,
        max_degree: int,
        inputs: int,
        outputs: int,
        *,
        bias: bool = True,
        gain: float = 1.0,
        first_degree: int = 0,
    ) -> None:
        super().__init__()
        degrees = max_degree + 1 - first_degree
        self.first_degree = first_degree
        self.weight = nn.Parameter(torch.randn(degrees, inputs, outputs) * gain / math.sqrt(inputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias and first_degree == 0 else None

    def forward(self, features: Tensor) -> Tensor:
        """(P, M, inputs) -> (P, M, outputs), or the rows from `first_degree` on."""
        # Without gradients the call of an autograd function would cost as much as the product of a few tokens.
        multiply = _PerDegreeProduct.apply if torch.is_grad_enabled() else _product
        return multiply(features, self.weight, self.bias, self.first_degree)


class _PerDegreeProduct(torch.autograd.Function):
    """`_product` with its gradients."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, first_degree: int) -> Tensor:
        ctx.save_for_backward(features, weight)
        ctx.first_degree, ctx.has_bias = first_degree, bias is not None
        return _product(features, weight, bias, first_degree)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None]:
        features, weight = ctx.saved_tensors
        skipped = ctx.first_degree**2
        d_weight = [
            torch.bmm(_by_row(features, rows).mT, _by_row(gradient, rows, skipped)).sum(0)
            for _, rows in _with_rows(weight, ctx.first_degree)
        ]
        d_bias = gradient[:, 0].sum(0) if ctx.has_bias else None
        return _product_backward(gradient, weight, ctx.first_degree), torch.stack(d_weight), d_bias, None


def _product_backward(gradient: Tensor, weight: Tensor, first_degree: int) -> Tensor:
    """The gradient of `_product` by its features: (P, M - skipped rows, outputs) -> (P, M, inputs)."""
    if first_degree == 0:
        return _product(gradient, weight.mT, None, 0)
    skipped = first_degree**2
    d_features = gradient.new_zeros(len(gradient), gradient.shape[1] + skipped, weight.shape[1])
    for matrix, rows in _with_rows(weight, first_degree):
        torch.bmm(_by_row(gradient, rows, skipped), _for_rows(matrix.mT, rows), out=_by_row(d_features, rows))
    return d_features


def _product(features: Tensor, weight: Tensor, bias: Tensor | None, first_degree: int) -> Tensor:
    """features[:, row] @ weight[degree of row], for all rows, and a bias on the first.

    A row of all points is a matrix with a stride, which a batched product reads and writes in place: no degree is ever
    copied out or put back together. This is 2.5 times as fast as slicing, multiplying and concatenating.
    """
    if may_read(features) and pointwise.can_multiply(features, weight, first_degree):
        return pointwise.product(features, weight, bias, first_degree)
    skipped = first_degree**2
    mapped = features.new_empty(len(features), features.shape[1] - skipped, weight.shape[2])
    for matrix, rows in _with_rows(weight, first_degree):
        torch.bmm(_by_row(features, rows), _for_rows(matrix, rows), out=_by_row(mapped, rows, skipped))
    if bias is not None:
        mapped[:, 0] += bias
    return mapped


def _with_rows(weight: Tensor, first_degree: int) -> Iterator[tuple[Tensor, slice]]:
    """Every matrix with the rows of its degree."""
    return ((matrix, degree_rows(degree)) for degree, matrix in enumerate(weight, start=first_degree))


def _by_row(features: Tensor, rows: slice, skipped: int = 0) -> Tensor:
    """(P, M, C) -> a view (rows, P, C), where the first `skipped` rows are not there."""
    return features[:, rows.start - skipped : rows.stop - skipped].transpose(0, 1)


def _for_rows(matrix: Tensor, rows: slice) -> Tensor:
    return matrix.expand(rows.stop - rows.start, -1, -1)


def equivariant_gelu(features: Tensor, toward: Tensor) -> Tensor:
    """Elu of Sec. 5.2 as F Phi(<F, unit(W F)>), since the printed form maps a vector to a scalar. GELU at degree 0.

    features (P, M, C), toward (P, M - 1, C): W F of the degrees above 0. -> (P, M, C).
    """
    if may_read(features) and pointwise.can_gate(features, toward):
        return pointwise.gelu(features, toward)
    projections = [features[:, :1]]
    for l in range(1, math.isqrt(features.shape[1])):
        vector, direction = features[:, degree_rows(l)], toward[:, l**2 - 1 : (l + 1) ** 2 - 1]
        # The epsilon makes the gate smooth where W F vanishes.
        length = (direction.square().sum(1, keepdim=True) + 1e-6).sqrt()
        projections.append((vector * direction).sum(1, keepdim=True) / length)
    gates = torch.special.ndtr(torch.cat(projections, dim=1)).split(1, dim=1)
    return torch.cat([features[:, degree_rows(l)] * gate for l, gate in enumerate(gates)], dim=1)


def _inverse_rms(features: Tensor) -> Tensor:
    """1 / sigma of Sec. 5.2, degree 0 included: sigma^2 is the mean over degrees of their mean square. -> (P, 1)."""
    degrees, channels = math.isqrt(features.shape[1]), features.shape[2]
    share = torch.cat([features.new_full((2 * l + 1,), 1 / (2 * l + 1)) for l in range(degrees)])
    squares = torch.linalg.vector_norm(features, dim=-1).square() @ (share / (degrees * channels))
    return (squares + 1e-6).rsqrt()[:, None]


def _normed(features: Tensor, gain: Tensor) -> Tensor:
    """features (P, M, C) / sigma * gain, which is (P, C) or (C,)."""
    if may_read(features) and pointwise.can_norm(features, gain):
        return pointwise.norm(features, gain)
    return features * (gain * _inverse_rms(features))[:, None]


class EquivariantNorm(nn.Module):
    """F / sigma times a learned gain per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(channels))

    def forward(self, features: Tensor, time: Time | None = None) -> Tensor:
        """(P, M, C) -> (P, M, C). It does not look at the time."""
        return _normed(features, self.gain)


class AdaptiveNorm(nn.Module):
    """AN of Sec. 5.2: F / sigma times a gain per channel that depends on tau; about one at the start of training."""

    def __init__(self, channels: int, time_channels: int) -> None:
        super().__init__()
        self.gain = nn.Linear(time_channels, channels)

    def forward(self, features: Tensor, time: Time) -> Tensor:
        """(P, M, C) -> (P, M, C)."""
        return _normed(features, time.gain(self.gain))


class FeedForward(nn.Module):
    """The transformer's feed-forward layer, equivariant.

    The W F of the activation acts on F = A x, so it is learned as one map of x: as expressive, at half the cost.
    """

    def __init__(self, max_degree: int, channels: int, expansion: int) -> None:
        super().__init__()
        hidden = channels * expansion
        self.widen = DegreeLinear(max_degree, channels, hidden)
        self.direction = DegreeLinear(max_degree, channels, hidden, first_degree=1)
        # At half strength the residual stream, not the layers, sets the scale of an untrained network.
        self.narrow = DegreeLinear(max_degree, hidden, channels, gain=0.5)

    def forward(self, features: Tensor) -> Tensor:
        """(P, M, C) -> (P, M, C)."""
        return in_chunks(lambda rows: self._transformed(features[rows]), len(features))

    def _transformed(self, features: Tensor) -> Tensor:
        return self.narrow(equivariant_gelu(self.widen(features), self.direction(features)))


class TimeEmbedding(nn.Module):
    """tau in [0, 1] as a vector: waves of many lengths, then an MLP."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.waves = channels // 2
        self.mlp = nn.Sequential(nn.Linear(2 * self.waves, channels), nn.SiLU(), nn.Linear(channels, channels))

    def forward(self, tau: Tensor) -> Tensor:
        """(B,) -> (B, channels)."""
        phase = tau[:, None] * _frequencies(self.waves, tau.dtype, tau.device)
        return nn.functional.silu(self.mlp(torch.cat([phase.sin(), phase.cos()], dim=-1)))


@lru_cache(maxsize=8)
def _frequencies(waves: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Wavelengths from 4 (monotone on [0, 1]) down to 4 / 64."""
    return math.pi / 2 * 2 ** torch.linspace(0, 6, waves, dtype=dtype, device=device)
