"""BreakHead: which points lie on a break surface, read off the encoder (ours; the paper has no such head).

Every finest point asks the nearest point of the encoder's first levels how its normal and its place look from there.
All it uses are inner products of features and harmonics of the same degree, so the answer does not turn with the piece.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eda.graph import Pyramid
from eda.lie.wigner import degree_rows, harmonics
from eda.nn.config import NetworkConfig
from eda.nn.layers import EquivariantNorm

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

    def forward(self, pyramid: Pyramid, levels: list[Tensor]) -> Tensor:
        """Features (P', M, C) of the encoder's levels -> logits (P,) of the pyramid's points."""
        answers = [
            self.answers[depth](self._seen_from(pyramid, depth, self.norms[depth](levels[depth])))
            for depth in range(self.num_levels)
        ]
        return self.judge(torch.stack(answers).sum(0)).squeeze(-1)

    def _seen_from(self, pyramid: Pyramid, depth: int, features: Tensor) -> Tensor:
        """The invariants of every finest point and the point of a level nearest to it. -> (P, views * C)."""
        level, pieces = pyramid.levels[depth], pyramid.pieces
        assert level.nearest is not None, "Eda.pyramid builds what a network with this head needs"
        asked = features[level.nearest]
        offset = pieces.points - level.points[level.nearest]
        reach = self.config.reach(depth + 1)
        offset = offset / (torch.linalg.vector_norm(offset, dim=-1, keepdim=True) + reach)
        views = [asked[:, 0], *_products(asked, offset, range(1, self.config.max_degree + 1))]
        if pieces.normals is not None:
            views += _products(asked, pieces.normals, self.config.normal_degrees[1:])
        return torch.cat(views, dim=-1)


def _products(features: Tensor, directions: Tensor, degrees: range) -> list[Tensor]:
    """<Y^l(direction), F^l> for every channel, at some degrees. (P, M, C), (P, 3) -> (P, C) each."""
    if not degrees:
        return []
    spheres = harmonics(directions, degrees[-1])[..., None]
    return [(spheres[:, degree_rows(l)] * features[:, degree_rows(l)]).sum(1) for l in degrees]
