"""Regression of poses: the learned baselines of the Breaking Bad benchmark as small networks of our own.

Each stands in the place of f, eq. (5), and learns by the same loop, but at tau = 0 alone: from pieces at random poses
to the motion that takes them to their places, in one step. No author's code was used; the ideas are those of

    GLO   a feature of every piece and one of the whole (Schor et al. 2019, Li et al. 2020)
    DGL   pieces that exchange messages in rounds (Zhan et al. 2020)
    LEV   features that turn with the pieces (Wu et al. 2023, on vector neurons of Deng et al. 2021)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn

from eda.model_config import EdaConfig
from eda.nn.protocol import NETWORKS, CustomNetwork, register_network
from eda.pieces import Pieces
from eda.segment import segment_max, segment_mean
from eda.train import DataConfig, OptimizerConfig, TrainConfig


def _mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.SiLU()]
    return nn.Sequential(*layers[:-1])


def _arms(pieces: Pieces) -> tuple[Tensor, Tensor]:
    """The points (P, 3) from the centroids of their pieces, and the normals, zero where there are none."""
    arms = pieces.points - pieces.centroids()[pieces.piece_of_point]
    return arms, torch.zeros_like(arms) if pieces.normals is None else pieces.normals


def _velocity(turn_and_place: Tensor, pieces: Pieces) -> Tensor:
    """(w, u) from a turn and a place (N, 6) relative to the middle of the pieces: the centroid moves to its place."""
    centers, puzzle = pieces.centroids(), pieces.puzzle_of_piece
    middle = segment_mean(centers, puzzle, pieces.num_puzzles)[puzzle]
    return torch.cat([turn_and_place[:, :3], turn_and_place[:, 3:] + middle - centers], dim=-1)


class GlobalRegression(nn.Module):
    """GLO: the motion of a piece from a feature of its own and the mean of all."""

    rounds = 0

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.config = {"width": width}
        self.encoder = _mlp(6, width, width, width)
        self.messages = nn.ModuleList(_mlp(2 * width, width, width) for _ in range(self.rounds))
        self.head = _mlp(2 * width, width, 6)

    def forward(self, pieces: Pieces, tau: Tensor) -> Tensor:
        """(w, u) of every piece. (N, 6)."""
        puzzle, count = pieces.puzzle_of_piece, pieces.num_puzzles
        points = self.encoder(torch.cat(_arms(pieces), dim=-1))
        features = segment_max(points, pieces.piece_of_point, pieces.num_pieces)
        for message in self.messages:
            others = segment_mean(features, puzzle, count)[puzzle]
            features = features + message(torch.cat([features, others], dim=-1))
        whole = segment_mean(features, puzzle, count)[puzzle]
        return _velocity(self.head(torch.cat([features, whole], dim=-1)), pieces)


class GraphRegression(GlobalRegression):
    """DGL: the same after three rounds in which the pieces of a puzzle exchange messages."""

    rounds = 3


class EquivariantRegression(nn.Module):
    """LEV: vectors that turn with the pieces, mixed by weights that are made of invariants."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.config = {"width": width}
        self.lift, self.mix = nn.Linear(3, width, bias=False), nn.Linear(width, width, bias=False)
        self.gates = nn.ModuleList(_mlp(width, width, width) for _ in range(2))
        self.weights = _mlp(2 * width, 2 * width, 6 * width)

    def forward(self, pieces: Pieces, tau: Tensor) -> Tensor:
        """(w, u) of every piece, which turn with the whole. (N, 6)."""
        puzzle, count = pieces.puzzle_of_piece, pieces.num_puzzles
        arms, normals = _arms(pieces)
        vectors = torch.stack([arms, normals, torch.linalg.cross(arms, normals, dim=-1)], dim=-1)  # (P, 3, channels)
        for linear, gate in zip((self.lift, self.mix), self.gates, strict=True):
            vectors = linear(vectors)
            vectors = vectors * torch.sigmoid(gate(_lengths(vectors)))[:, None]
        own = segment_mean(vectors, pieces.piece_of_point, pieces.num_pieces)
        whole = segment_mean(own, puzzle, count)[puzzle]
        invariants = torch.cat([_lengths(own), (own * whole).sum(dim=1)], dim=-1)
        weights = self.weights(invariants).unflatten(-1, (2, -1))  # of the turn, of the place
        mixed = torch.cat([own, whole, torch.linalg.cross(own, whole, dim=1)], dim=-1)
        moved = torch.einsum("nkc,nxc->nkx", weights, mixed)
        return _velocity(moved.flatten(1), pieces)


def _lengths(vectors: Tensor) -> Tensor:
    """The lengths of vectors (..., 3, C), with a gradient at zero. -> (..., C)."""
    return (vectors.square().sum(dim=-2) + 1e-12).sqrt()


REGRESSIONS: dict[str, Callable[..., nn.Module]] = {
    "GLO": GlobalRegression,
    "DGL": GraphRegression,
    "LEV": EquivariantRegression,
}


def regression_config(name: str, data: str, *, points: int, steps: int, seed: int = 0) -> TrainConfig:
    """A run of a baseline on a dataset, with its network under the name `regression-glo` and so on."""
    network = f"regression-{name.lower()}"
    if network not in NETWORKS:
        register_network(network, REGRESSIONS[name])
    return TrainConfig(
        EdaConfig(CustomNetwork(network), noise_std=0.5, tau_sampler="start", num_points=points),
        OptimizerConfig(steps=steps, lr=3e-3, final_lr=0.02, warmup=max(1, steps // 20), ema=0.99),
        DataConfig(train=data, points_per_batch=16 * points, draws=4),
        seed=seed,
    )
