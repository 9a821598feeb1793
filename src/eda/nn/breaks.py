"""BreakHead: which points lie on a break surface, read off the encoder (ours; the paper has no such head).

Every finest point asks the nearest point of the encoder's first levels how its normal and its place look from there.
All it uses are inner products of features and harmonics of the same degree, so the answer does not turn with the piece.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from eda.graph import Pyramid, nearest_rows
from eda.lie.wigner import degree_rows, harmonics
from eda.nn.config import NetworkConfig
from eda.nn.layers import EquivariantNorm
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

    def _views(self, asked: Tensor, offset: Tensor, normals: Tensor | None, depth: int) -> Tensor:
        """The invariants of every point and the features of the point it asks. -> (P, views * C)."""
        reach = self.config.reach(depth + 1)
        offset = offset / (torch.linalg.vector_norm(offset, dim=-1, keepdim=True) + reach)
        # Split once: the gradient of a split is one concatenation, that of a slice a large tensor of zeros.
        by_degree = asked.split([2 * l + 1 for l in range(self.config.max_degree + 1)], dim=1)
        views = [by_degree[0].squeeze(1), *_products(by_degree, offset, range(1, self.config.max_degree + 1))]
        if normals is not None:
            views += _products(by_degree, normals, self.config.normal_degrees[1:])
        return torch.cat(views, dim=-1)


def _products(by_degree: Sequence[Tensor], directions: Tensor, degrees: range) -> list[Tensor]:
    """<Y^l(direction), F^l> for every channel, at some degrees. (P, 2l + 1, C) each, (P, 3) -> (P, C) each."""
    if not degrees:
        return []
    spheres = harmonics(directions, degrees[-1])[..., None]
    return [(spheres[:, degree_rows(l)] * by_degree[l]).sum(1) for l in degrees]
