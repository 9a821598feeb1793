"""Layers that act on every point by itself. Features are (P, M, C): degree l in rows l^2 .. (l+1)^2 - 1.

All of them commute with rotations: they mix channels, never the orders of a degree, and look at invariants only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor, nn

from eda.kernels import degree_product, equivariant_gelu, equivariant_norm
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
        return degree_product(features, self.weight, self.bias, self.first_degree)


class EquivariantNorm(nn.Module):
    """F / sigma times a learned gain per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(channels))

    def forward(self, features: Tensor, time: Time | None = None) -> Tensor:
        """(P, M, C) -> (P, M, C). It does not look at the time."""
        return equivariant_norm(features, self.gain)


class AdaptiveNorm(nn.Module):
    """AN of Sec. 5.2: F / sigma times a gain per channel that depends on tau; about one at the start of training."""

    def __init__(self, channels: int, time_channels: int) -> None:
        super().__init__()
        self.gain = nn.Linear(time_channels, channels)

    def forward(self, features: Tensor, time: Time) -> Tensor:
        """(P, M, C) -> (P, M, C)."""
        return equivariant_norm(features, time.gain(self.gain))


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
        return in_chunks(lambda rows: self._transform(features[rows]), len(features))

    def _transform(self, features: Tensor) -> Tensor:
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
