"""MatchGraph: the likeliest correspondences of every place, and how far they agree with each other.

In: `MatchScores`. Out: for the places of a puzzle that most likely have a counterpart, their best candidates, with
votes: two correspondences of the same two pieces support each other if their places are as far apart on one piece as on
the other, and their normals lie alike. All of it is made of invariants, once per puzzle, before any pose is known.

Shapes: B puzzles, S places and N pieces (padded), K candidates of a place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from eda.nn.correspondences import MatchScores
from eda.segment import padded_rows, ranges, starts

# Places of a puzzle: as many as this, or as this for each piece, up to a bound.
PLACES, PLACES_PER_PIECE, MOST_PLACES = 256, 56, 448
NUM_CANDIDATES = 8  # K
NUM_VOTERS = 3  # of the candidates of a place, those that vote
VOTE_ROUNDS = 2
LEAST_FIT = -12.0  # the logarithm of a weight that counts as none
LENGTH_TOLERANCE = 0.4  # within which two lengths agree, in units of the places' reach
NORMAL_TOLERANCE = 0.4  # within which cosines of normals agree
LEAST_VOTE = 1e-2


@dataclass(frozen=True)
class MatchGraph:
    """Places with their candidates, puzzle by puzzle."""

    points: Tensor  # (B, S, 3) in the own frames of their pieces
    normals: Tensor | None  # (B, S, 3)
    piece: Tensor  # (B, S) the piece of every place, counted within its puzzle
    present: Tensor  # (B, S) which places are not padding
    shared: Tensor  # (B, S) how likely a place has a counterpart
    fit: Tensor  # (B, S, S) the logarithm of how surely two places correspond, at least `LEAST_FIT`
    mates: Tensor  # (B, S, K) the candidates of every place
    votes: Tensor  # (B, S, K, VOTE_ROUNDS) the logarithm of their support by others
    rows: Tensor  # (B, N) the pieces of every puzzle among all pieces
    has: Tensor  # (B, N) which of these are not padding
    centers: Tensor  # (B, N, 3) the centroids of the pieces, in their own frames
    reach: float  # the unit of length

    @staticmethod
    def of(scores: MatchScores, centers: Tensor, *, complementary: bool) -> MatchGraph:
        """The graph of matched places, of pieces with these centroids (N, 3).

        Normals of complementary places are opposed; those of places that show the same surface are alike, up to sign.
        """
        rows, has = padded_rows(scores.counts)
        across, piece = scores.across, ranges(scores.sizes)
        certain = scores.log_choices() + logsigmoid(scores.shared)[across.rows][:, :, None]
        fit = (certain + certain.mT).masked_fill(~scores.pairs, LEAST_FIT).clamp(min=LEAST_FIT)
        best = fit.amax(-1).masked_fill(~across.present, -torch.inf)
        quota = (PLACES_PER_PIECE * scores.counts).clamp(PLACES, MOST_PLACES)
        ranked = best.argsort(dim=1, descending=True)[:, : int(quota.max())]
        within = torch.arange(ranked.shape[1], device=quota.device) < quota[:, None]
        chosen, order = ranked.sort(1)
        present = across.present.gather(1, chosen) & within.gather(1, order)
        fit = _gather_rows(_gather_rows(fit, chosen).mT, chosen).mT
        fit = fit.masked_fill(~(present[:, :, None] & present[:, None, :]), LEAST_FIT)
        places = across.rows.gather(1, chosen)
        local = piece - starts(scores.counts)[ranges(scores.counts)][piece]
        graph = MatchGraph(
            points=scores.points[places],
            normals=None if scores.normals is None else scores.normals[places],
            piece=local[places],
            present=present,
            shared=torch.sigmoid(scores.shared)[places] * present,
            fit=fit,
            mates=fit.detach().topk(min(NUM_CANDIDATES, fit.shape[-1]), dim=-1).indices,
            votes=fit,  # not yet
            rows=rows,
            has=has,
            centers=centers[rows],
            reach=scores.reach,
        )
        return replace(graph, votes=graph.count_votes(complementary))

    @staticmethod
    def cat(batch: list[MatchGraph]) -> MatchGraph:
        """Several graphs of equal shapes as one: the same puzzles several times, for several samples."""
        offsets, total = [], 0
        for graph in batch:
            offsets.append(graph.rows + total)
            total += int(graph.has.sum())
        names = ("points", "piece", "present", "shared", "fit", "mates", "votes", "has", "centers")
        joined = {name: torch.cat([getattr(graph, name) for graph in batch]) for name in names}
        normals = [graph.normals for graph in batch if graph.normals is not None]
        return MatchGraph(
            **joined,
            normals=torch.cat(normals) if normals else None,
            rows=torch.cat(offsets),
            reach=batch[0].reach,
        )

    def of_places(self, values: Tensor) -> Tensor:
        """Values of pieces (B, N, ...) at their places. -> (B, S, ...)."""
        index = self.piece.reshape(*self.piece.shape, *[1] * (values.ndim - 2)).expand(-1, -1, *values.shape[2:])
        return values.gather(1, index)

    def count_votes(self, complementary: bool) -> Tensor:
        """The logarithm of the support of every candidate, round by round: in a later one the supported have more
        weight. -> (B, S, K, VOTE_ROUNDS).
        """
        # One puzzle at a time: its tables fit into memory that is used again.
        return torch.cat([self._one(b)._count_votes(complementary) for b in range(len(self.piece))])

    def _one(self, puzzle: int) -> MatchGraph:
        names = ("points", "normals", "piece", "present", "shared", "fit", "mates")
        values = {name: getattr(self, name) for name in names}
        alone: dict[str, Any] = {name: None if of is None else of[puzzle, None] for name, of in values.items()}
        return replace(self, **alone)

    def _count_votes(self, complementary: bool) -> Tensor:
        agree = self._agreement(complementary)  # (B, S K, S V)
        fit = self.fit.gather(2, self.mates)
        weight, rounds = fit.exp(), []
        for _ in range(VOTE_ROUNDS):
            voters = weight[..., :NUM_VOTERS].flatten(1)
            votes = (agree @ voters[..., None]).reshape(weight.shape) + LEAST_VOTE
            rounds.append(votes.log())
            weight = (fit + votes.log()).softmax(-1) * self.shared[..., None]
        return torch.stack(rounds, -1)

    @torch.no_grad()
    def _agreement(self, complementary: bool) -> Tensor:
        """(B, S K, S V) how well a candidate agrees with a voter; zero unless both join the same two pieces."""
        batch, places, count = self.mates.shape
        mates, voters = self.mates.flatten(1), self.mates[..., :NUM_VOTERS].flatten(1)
        grid = (batch, places, count, places, len(voters[0]) // places)
        here = self._invariants(None, None)
        there = self._invariants(mates, voters)
        badness = torch.zeros(grid, dtype=here[0].dtype, device=here[0].device)
        # A bump of one piece is a dent of the other; the signs of other normals are not known.
        for number, (mine, theirs) in enumerate(zip(here, there, strict=True)):
            if number > 0 and not complementary:
                mine, theirs = mine.square(), theirs.square()
            mine = -mine if number > 1 and complementary else mine
            tolerance = LENGTH_TOLERANCE * self.reach if number == 0 else NORMAL_TOLERANCE
            badness += (theirs.reshape(grid) - mine[:, :, None, :, None]).mul_(1 / tolerance).square_()
        # Places side by side always agree, which says nothing.
        apart = here[0].square()
        same = self.piece[:, :, None] == self.piece[:, None, :]
        apart = apart / (apart + self.reach**2) * (same & self.present[:, :, None] & self.present[:, None, :])
        agree = badness.mul_(-0.5).exp_().mul_(apart[:, :, None, :, None]).reshape(batch, -1, voters.shape[1])
        of_mates, of_voters = self.piece.gather(1, mates), self.piece.gather(1, voters)
        return agree.mul_(of_mates[:, :, None] == of_voters[:, None, :])

    def _invariants(self, rows: Tensor | None, columns: Tensor | None) -> list[Tensor]:
        """The distances of places (B, P) from places (B, Q), in the frame of one piece, and how their normals lie.

        The cosine of the two normals, and the rise of each place above the tangent plane of the other, by distance.
        None means all places.
        """
        first, second = self._picked(self.points, rows), self._picked(self.points, columns)
        square = first.square().sum(-1)[:, :, None] + second.square().sum(-1)[:, None, :]
        length = (square - 2 * first @ second.mT).clamp(min=0).add(1e-12).sqrt()
        if self.normals is None:
            return [length]
        facing, other = self._picked(self.normals, rows), self._picked(self.normals, columns)
        unit = length + 0.5 * self.reach
        rise = (facing @ second.mT - (facing * first).sum(-1)[:, :, None]) / unit
        back = (first @ other.mT - (second * other).sum(-1)[:, None, :]) / unit
        return [length, facing @ other.mT, rise, back]

    @staticmethod
    def _picked(values: Tensor, rows: Tensor | None) -> Tensor:
        return values if rows is None else _gather_rows(values, rows)


def _gather_rows(table: Tensor, chosen: Tensor) -> Tensor:
    """Some rows (B, S') of tables (B, S, T). -> (B, S', T)."""
    return table.gather(1, chosen[..., None].expand(-1, -1, table.shape[-1]))
