"""Correspondences between pieces, found before any has a pose (ours; the paper has no such path).

In: the encoder's features, each piece in its own frame. Out: `MatchScores`, made once per puzzle by `Matcher`.

Scans of one room show some of its places twice; sherds meet along breaks, where a bump of one fills a dent of the
other. A place is described by invariants, attends to its own piece and to the others, and gets a descriptor of what it
looks like (and, where complementary places are matched, of what would fit it). Places that choose each other among
those of all other pieces correspond. What is right is known in training from the solution (`matching_loss`), so this
learns much faster than through velocities.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from eda.graph import Across, Pyramid
from eda.lie import SE3
from eda.nn.invariants import describe, descriptor_width
from eda.nn.layers import EquivariantNorm
from eda.nn.network_config import NetworkConfig
from eda.nn.transformer import Attention, look_around
from eda.registration.soft_correspondences import SAME_PLACE, SoftCorrespondences
from eda.segment import padded_rows, ranges

DESCRIPTOR = 64  # numbers by which places are compared
EXTENT = 4.0  # about that of a piece, in units of the level's reach
HIDDEN = -1e4  # the score of what is no pair of places of two pieces


@dataclass(frozen=True)
class MatchScores:
    """How well the places of all pieces go together, puzzle by puzzle."""

    points: Tensor  # (T, 3) the places, in the own frames of their pieces
    normals: Tensor | None  # (T, 3) where there are any
    sizes: Tensor  # (N,) places of each piece
    counts: Tensor  # (B,) pieces of each puzzle
    shared: Tensor  # (T,) the logit that the place has a counterpart on another piece
    scores: Tensor  # (B, S, S) how well two places of a puzzle go together; symmetric
    across: Across  # which of these are pairs of places of two pieces
    reach: float  # the unit of length of the places' level

    @property
    def pairs(self) -> Tensor:
        """(B, S, S) which entries of the scores are of places of two pieces."""
        return self.across.foreign & self.across.present[:, :, None]

    def log_choices(self) -> Tensor:
        """(B, S, S) the log of how likely a place chooses another among those of all other pieces."""
        return self.scores.log_softmax(-1)

    def weights(self) -> Tensor:
        """(B, S, S) how surely two places correspond: each is the other's choice, and both have a counterpart."""
        certain = self.log_choices() + logsigmoid(self.shared)[self.across.rows][:, :, None]
        return (certain + certain.mT).exp().masked_fill(~self.pairs, 0)

    def puzzles(self) -> Iterator[SoftCorrespondences]:
        """One after the other, piece by piece."""
        weights, pieces, places = self.weights(), self.counts.tolist(), self.across.present.sum(1).tolist()
        every = [self.sizes, self.points, torch.sigmoid(self.shared)]
        sizes, points, shared = (of.split(by) for of, by in zip(every, [pieces, places, places], strict=True))
        normals = [None] * len(pieces) if self.normals is None else self.normals.split(places)
        for b, size in enumerate(sizes):
            rows, present = padded_rows(size)
            first, second = pairs_of_pieces(size)
            both = present[first][:, :, None] & present[second][:, None, :]
            block = weights[b][rows[first][:, :, None], rows[second][:, None, :]]
            facing = normals[b]
            yield SoftCorrespondences(
                points[b][rows],
                present,
                None if facing is None else facing[rows],
                shared[b][rows] * present,
                first,
                second,
                block.masked_fill(~both, 0),
                self.reach,
            )


class Matcher(nn.Module):
    """Describes the places of all pieces by invariants and compares those of different pieces."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        channels, width = config.channels, config.match_width
        self.level = config.match_level - 1
        self.sees_normals = config.normals != "absent"
        self.reach = config.reach(config.match_level)
        self.norm = EquivariantNorm(channels)
        self.embedding = nn.Linear(descriptor_width(config.max_degree, channels), width)
        self.inside = nn.ModuleList(Attention(width) for _ in range(config.match_layers))
        self.across = nn.ModuleList(Attention(width) for _ in range(config.match_layers))
        self.looks = nn.Linear(width, DESCRIPTOR)
        # Likeness is greatest with oneself, so by itself it cannot say that a bump fits a dent and not a bump.
        self.fits = nn.Linear(width, DESCRIPTOR) if config.is_complementary else None
        self.shared = nn.Linear(width, 1)

    def forward(self, pyramid: Pyramid, levels: list[Tensor]) -> MatchScores:
        """The levels (T, M, C) of the encoder's features."""
        level, features = pyramid.levels[self.level], levels[self.level]
        counts, piece = pyramid.pieces.counts, ranges(level.sizes)
        offset = (level.points - pyramid.pieces.centroids()[piece]) / (EXTENT * self.reach)
        across = Across.between(piece, ranges(counts)[piece])
        places = look_around(self.embedding(describe(self.norm(features), offset)), across, self.inside, self.across)
        looks = self._project(self.looks, places, across)
        if self.fits is None:
            scores = looks @ looks.mT
        else:
            scores = looks @ self._project(self.fits, places, across).mT
            scores = scores + scores.mT
        return MatchScores(
            points=level.points,
            normals=_normals(pyramid, self.level) if self.sees_normals else None,
            sizes=level.sizes,
            counts=counts,
            shared=self.shared(places).squeeze(-1),
            scores=scores.masked_fill(~across.foreign, HIDDEN),
            across=across,
            reach=self.reach,
        )

    @staticmethod
    def _project(by: nn.Linear, places: Tensor, across: Across) -> Tensor:
        """The descriptors of places (T, width), puzzle by puzzle. -> (B, S, DESCRIPTOR)."""
        return (by(places) / DESCRIPTOR**0.25)[across.rows]


def _normals(pyramid: Pyramid, depth: int) -> Tensor | None:
    """Of the points of a level, where the pieces have normals."""
    if pyramid.pieces.normals is None:
        return None
    rows = pyramid.levels[depth].parent
    for level in reversed(pyramid.levels[:depth]):
        rows = level.parent[rows]
    return pyramid.pieces.normals[rows]


def pairs_of_pieces(sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The pieces (Q,) and (Q,) of every pair of a puzzle with pieces of these sizes (N,), each pair once."""
    rows = list(itertools.combinations(range(len(sizes)), 2))
    first, second = torch.tensor(rows, dtype=torch.int64, device=sizes.device).reshape(-1, 2).unbind(1)
    return first, second


def matching_loss(matching: MatchScores, solution: SE3, own: Tensor | None = None) -> Tensor:
    """How badly places are matched, where the solution (N,) brings them: a cross-entropy in nats.

    A place ought to choose among those of other pieces that come to lie within `2 SAME_PLACE` of it, the nearer the
    rather; and to know whether there are any. Pieces that are not the puzzle's `own` (N,) share nothing.
    """
    across, near, piece = matching.across, SAME_PLACE * matching.reach, ranges(matching.sizes)
    placed, pairs = solution[piece].act(matching.points)[across.rows], matching.pairs
    if own is not None:
        known = own[piece][across.rows]
        pairs = pairs & known[:, :, None] & known[:, None, :]
    distance = torch.cdist(placed, placed).masked_fill(~pairs, torch.inf)
    wanted = torch.exp(-(distance**2) / (2 * near**2)) * (distance < 2 * near)
    total = wanted.sum(-1)
    chosen = -(wanted * matching.log_choices()).sum(-1) / total.clamp(min=1e-12)
    met = (distance.amin(-1) < 1.5 * near).to(placed.dtype)
    shared = binary_cross_entropy_with_logits(matching.shared, met[across.present])
    return chosen.sum() / (total > 0).sum().clamp(min=1) + shared
