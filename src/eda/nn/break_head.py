"""BreakHead: which points lie on a break surface, read off the encoder (ours; the paper has no such head).

Every finest point asks the nearest point of the encoder's first levels how its normal and its place look from there.
All it uses are inner products of features and harmonics of the same degree, so the answer does not turn with the piece.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eda.graph import Pyramid, nearest_rows
from eda.nn.invariants import bounded_offset, by_degree, products
from eda.nn.layers import EquivariantNorm
from eda.nn.network_config import NetworkConfig
from eda.pieces import Pieces

# Levels that are asked: the first sees the roughness around a point, the second the form of its surroundings.
NUM_LEVELS = 2


class BreakHead(nn.Module):
    """From the features of the encoder's levels to one logit per finest point."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.num_levels = min(NUM_LEVELS, config.num_levels)
        channels, views = config.channels, len(config.normal_degrees) + config.max_degree
        self.norms = nn.ModuleList(EquivariantNorm(channels) for _ in range(self.num_levels))
        self.answers = nn.ModuleList(nn.Linear(views * channels, channels) for _ in range(self.num_levels))
        self.judge = nn.Sequential(nn.SiLU(), nn.Linear(channels, channels), nn.SiLU(), nn.Linear(channels, 1))

    def forward(self, pyramid: Pyramid, levels: list[Tensor], at: Pieces | None = None) -> Tensor:
        """Features (P', M, C) of the encoder's levels -> logits (P,) of the pyramid's points.

        Or of other points: `at` are the same pieces, in the same frames, at any density.
        """
        pieces = pyramid.pieces if at is None else at
        answers = []
        for depth, level in enumerate(pyramid.levels[: self.num_levels]):
            nearest = level.nearest if at is None else nearest_rows(level, at)
            assert nearest is not None, "Eda.pyramid builds what a network with this head needs"
            features = self.norms[depth](levels[depth])[nearest]
            offset = pieces.points - level.points[nearest]
            answers.append(self.answers[depth](self._views(features, offset, pieces.normals, depth)))
        return self.judge(torch.stack(answers).sum(0)).squeeze(-1)

    def _views(self, features: Tensor, offset: Tensor, normals: Tensor | None, depth: int) -> Tensor:
        """The invariants of every point and the features of the point it asks. -> (P, views * C)."""
        degrees = by_degree(features)
        offset = bounded_offset(offset, self.config.reach(depth + 1))
        views = [degrees[0].squeeze(1), *products(degrees, offset, range(1, self.config.max_degree + 1))]
        if normals is not None:
            views += products(degrees, normals, self.config.normal_degrees[1:])
        return torch.cat(views, dim=-1)
