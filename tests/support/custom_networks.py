"""For tests of networks from outside: small equivariant ones, plain and with every optional hook."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eda import SE3, Pieces, Puzzle
from eda.nn.protocol import Labels


class CentroidNetwork(nn.Module):
    """The least that a network must be: every piece is drawn along the vectors to the other centroids."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.config = {"width": width}
        self.layers = nn.Sequential(nn.Linear(2, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, pieces: Pieces, tau: Tensor) -> Tensor:
        return self.between(pieces.centroids(), pieces.puzzle_of_piece, tau)

    def between(self, centers: Tensor, puzzle: Tensor, tau: Tensor) -> Tensor:
        vectors = centers[None] - centers[:, None]
        seen = torch.stack([vectors.square().sum(-1), tau[puzzle].expand(len(centers), -1)], dim=-1)
        weights = self.layers(seen) * (puzzle[:, None] == puzzle[None])[..., None]
        return torch.einsum("ijk,ijc->ikc", weights, vectors).flatten(1)


class EncodingCentroids(CentroidNetwork):
    """The same, with the centroids computed once; `calls` counts how often."""

    calls = 0

    def forward(self, pieces: Pieces, tau: Tensor) -> Tensor:
        raise AssertionError("a network that encodes is not called on moved pieces")

    def encode(self, pieces: Pieces) -> tuple[Tensor, Tensor]:
        self.calls += 1
        return pieces.centroids(), pieces.puzzle_of_piece

    def relate(self, encoded: tuple[Tensor, Tensor], poses: SE3, tau: Tensor) -> Tensor:
        centers, puzzle = encoded
        return self.between(poses.act(centers), puzzle, tau)


class SizingCentroids(CentroidNetwork):
    """The same, with something to learn beside the flow: how many points the pieces have."""

    def __init__(self, width: int = 4) -> None:
        super().__init__(width)
        self.size = nn.Parameter(torch.zeros(()))

    def auxiliary_loss(self, puzzle: Puzzle, labels: Labels) -> Tensor:
        counted = puzzle.pieces.sizes if labels.own is None else puzzle.pieces.sizes[labels.own]
        return (self.size - counted.to(self.size.dtype)).square().mean()
