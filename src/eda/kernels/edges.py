"""The geometry that edge attention works on."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

# Edges shorter than this, in units of their level's reach, have no direction: it would depend on rounding.
COINCIDENT = 1e-5


@dataclass(frozen=True)
class Edges:
    """Every receiver u with its k neighbours v. Positions come from data: no gradient flows through geometry."""

    neighbors: Tensor  # (U, k) rows of the senders, -1 where there is none
    vectors: Tensor  # (U, k, 3) from u to v, in units of the level's reach

    @staticmethod
    def between(receivers: Tensor, senders: Tensor, neighbors: Tensor, reach: float) -> Edges:
        """The edges from points (U, 3) to their neighbours among points (S, 3)."""
        ends = senders[neighbors.clamp(min=0)]
        return Edges(neighbors, ((ends - receivers[:, None]) / reach).detach())

    def rotated(self, rotation: Tensor) -> Edges:
        """The same edges with every receiver's neighbourhood rotated by its rotation (U, 3, 3)."""
        return Edges(self.neighbors, self.vectors @ rotation.mT)

    def __getitem__(self, receivers: slice) -> Edges:
        return Edges(self.neighbors[receivers], self.vectors[receivers])
