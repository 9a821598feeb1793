"""Layers that act on every point by itself. Features are (P, M, C): degree l in rows l^2 .. (l+1)^2 - 1.

All of them commute with rotations: they mix channels, never the orders of a degree, and look at invariants only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from eda.lie.wigner import degree_rows


@dataclass(frozen=True)
class Time:
    """tau, embedded: one row per puzzle, and which puzzle every point belongs to."""

    embedding: Tensor  # (B, E)
    puzzle: Tensor  # (P,)


class DegreeLinear(nn.Module):
    """A linear map of the channels, one matrix per degree; only degree 0 may have a bias."""

    def __init__(self, max_degree: int, inputs: int, outputs: int, *, bias: bool = True, gain: float = 1.0) -> None:
        super().__init__()
        std = gain / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.randn(max_degree + 1, inputs, outputs) * std)
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(self, features: Tensor) -> Tensor:
        """(P, M, inputs) -> (P, M, outputs)."""
        parts = [features[:, degree_rows(l)] @ weight for l, weight in enumerate(self.weight)]
        if self.bias is not None:
            parts[0] = parts[0] + self.bias
        return torch.cat(parts, dim=1)


class EquivariantGELU(nn.Module):
    """Elu of Sec. 5.2, as F Phi(<F, unit(W F)>): the printed form maps a vector to a scalar. GELU itself at degree 0."""

    def __init__(self, max_degree: int, channels: int) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.randn(max_degree, channels, channels) / math.sqrt(channels))

    def forward(self, features: Tensor) -> Tensor:
        """(P, M, C) -> (P, M, C)."""
        scalar = features[:, :1]
        parts = [scalar * torch.special.ndtr(scalar)]
        for l, weight in enumerate(self.direction, start=1):
            vector = features[:, degree_rows(l)]
            toward = vector @ weight
            # The epsilon makes the gate smooth where W F vanishes.
            length = (toward.square().sum(1, keepdim=True) + 1e-6).sqrt()
            projection = (vector * toward).sum(1, keepdim=True) / length
            parts.append(vector * torch.special.ndtr(projection))
        return torch.cat(parts, dim=1)


def _rms(features: Tensor) -> Tensor:
    """sigma of Sec. 5.2, degree 0 included: the mean over degrees of the mean square of their entries. -> (P, 1, 1)."""
    degrees = math.isqrt(features.shape[1])
    powers = [features[:, degree_rows(l)].square().mean((1, 2)) for l in range(degrees)]
    return (torch.stack(powers).mean(0) + 1e-6).sqrt()[:, None, None]


class EquivariantNorm(nn.Module):
    """F / sigma times a learned gain per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(channels))

    def forward(self, features: Tensor, time: Time | None = None) -> Tensor:
        """(P, M, C) -> (P, M, C). It does not look at the time."""
        return features / _rms(features) * self.gain


class AdaptiveNorm(nn.Module):
    """AN of Sec. 5.2: F / sigma times a gain per channel that depends on tau; one at the start of training."""

    def __init__(self, channels: int, time_channels: int) -> None:
        super().__init__()
        self.gain = nn.Linear(time_channels, channels)

    def forward(self, features: Tensor, time: Time) -> Tensor:
        """(P, M, C) -> (P, M, C)."""
        gain = 1 + self.gain(time.embedding)
        return features / _rms(features) * gain[time.puzzle][:, None]


class FeedForward(nn.Module):
    """The transformer's feed-forward layer, equivariant."""

    def __init__(self, max_degree: int, channels: int, expansion: int) -> None:
        super().__init__()
        hidden = channels * expansion
        self.widen = DegreeLinear(max_degree, channels, hidden)
        self.activation = EquivariantGELU(max_degree, hidden)
        # At half strength the residual stream, not the layers, sets the scale of an untrained network.
        self.narrow = DegreeLinear(max_degree, hidden, channels, gain=0.5)

    def forward(self, features: Tensor) -> Tensor:
        """(P, M, C) -> (P, M, C)."""
        return self.narrow(self.activation(self.widen(features)))


class TimeEmbedding(nn.Module):
    """tau in [0, 1] as a vector: waves of many lengths, then an MLP."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        # Wavelengths from 4 (monotone on [0, 1]) down to 4 / 64.
        self.register_buffer("frequency", math.pi / 2 * 2 ** torch.linspace(0, 6, channels // 2), persistent=False)
        self.mlp = nn.Sequential(nn.Linear(2 * (channels // 2), channels), nn.SiLU(), nn.Linear(channels, channels))

    def forward(self, tau: Tensor) -> Tensor:
        """(B,) -> (B, channels)."""
        phase = tau[:, None] * self.frequency
        return nn.functional.silu(self.mlp(torch.cat([phase.sin(), phase.cos()], dim=-1)))
