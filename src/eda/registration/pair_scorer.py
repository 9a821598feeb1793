"""Pair scorers: what speaks for a relative pose of two pieces, as numbers that a network can weigh.

In: pairs of pieces of a puzzle and relative poses (R, K) of these. Out: features of each, the same whichever piece
comes first. Scans lie on each other where they fit: `OverlapScorer`. Sherds face each other along their breaks, nothing
of one is inside the other, and the outer surface goes on where they meet: `ContactScorer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eda.lie import SE3
from eda.registration import contact, overlap
from eda.registration.contact import contact_features
from eda.registration.icp import Surface
from eda.registration.overlap import overlap_features
from eda.registration.soft_correspondences import SoftCorrespondences, gaussian_weight, squared_residuals

NUM_SUPPORT = 3  # features that say how correspondences support a pose
TINY = 1e-6


class PairScorer(Protocol):
    """What is known of a puzzle, by which any relative pose of two of its pieces can be scored."""

    @property
    def matches(self) -> SoftCorrespondences:
        """The correspondences between its pieces."""

    def features(self, pair: Tensor, T_second_first: SE3) -> Tensor:
        """Of the pairs (R,) at relative poses (R, K). -> (R, K, num_features)."""


def num_features(complementary: bool) -> int:
    """How many features a `ContactScorer` gives, or an `OverlapScorer`."""
    return NUM_SUPPORT + contact.NUM_FEATURES if complementary else overlap.NUM_FEATURES


@dataclass(frozen=True)
class OverlapScorer:
    """Of scans: the surfaces of all pieces. Correspondences are not asked again: places of rooms that were learned from
    are matched so much more surely that a network would trust them too much.
    """

    matches: SoftCorrespondences
    surfaces: tuple[Surface, ...]

    def of_pair(self, pair: int) -> tuple[Surface, Surface]:
        """The surfaces of its first and second piece."""
        return self.surfaces[int(self.matches.first[pair])], self.surfaces[int(self.matches.second[pair])]

    @torch.no_grad()
    def features(self, pair: Tensor, T_second_first: SE3) -> Tensor:
        """Of the pairs (R,) at relative poses (R, K). -> (R, K, 12)."""
        found = T_second_first.translation.new_zeros(*T_second_first.shape, overlap.NUM_FEATURES)
        matrices = T_second_first.to(torch.float64).matrix().cpu()
        for one in pair.unique().tolist():
            rows = (pair == one).nonzero().squeeze(1).cpu()
            numbers = overlap_features(*self.of_pair(one), matrices[rows].reshape(-1, 4, 4).numpy())
            found[rows] = torch.from_numpy(numbers).reshape(len(rows), -1, overlap.NUM_FEATURES).to(found)
        return (found - found.new_tensor(overlap.MEANS)) / found.new_tensor(overlap.SCALES)


@dataclass(frozen=True)
class ContactScorer:
    """Of sherds: the correspondences, the strongest of every pair of pieces, and what supports the best pose."""

    matches: SoftCorrespondences
    weights: Tensor  # (Q, C) of the strongest
    source: Tensor  # (Q, C, 3) their places on the first piece of a pair
    target: Tensor  # (Q, C, 3) and on the second
    radius: float  # within which a pose has to bring them together
    best_support: Tensor  # (Q,) the weight of the correspondences that support the best pose of a pair

    def features(self, pair: Tensor, T_second_first: SE3) -> Tensor:
        """Of the pairs (R,) at relative poses (R, K). -> (R, K, 15)."""
        return torch.cat(
            [self._support(pair, T_second_first), contact_features(self.matches, pair, T_second_first)], dim=-1
        )

    def _support(self, pair: Tensor, T_second_first: SE3) -> Tensor:
        """(R, K, 3): the log of the weight of the inliers of a pose, its share of all, and how far behind the best."""
        squared = squared_residuals(T_second_first, self.source[pair], self.target[pair])
        support = (self.weights[pair][:, None] * gaussian_weight(squared, self.radius)).sum(-1)
        logs, total = torch.log(support + TINY), self.weights[pair].sum(-1)[:, None]
        behind = logs - torch.log(self.best_support[pair] + TINY)[:, None]
        return torch.stack([logs, support / (total + TINY), behind], dim=-1)
