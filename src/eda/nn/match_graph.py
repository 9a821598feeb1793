"""MatchGraph: the likeliest correspondences of every place, and how far they agree with each other.

In: `MatchScores`. Out: for the places of a puzzle that most likely have a counterpart, their best candidates, with
votes: two correspondences of the same two pieces support each other if their places are as far apart on one piece as on
the other, and their normals lie alike. All of it is made of invariants, once per puzzle, before any pose is known.

Shapes: B puzzles, S places and N pieces (padded), K candidates of a place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
        fit = (certain + certain.mT).masked_fill(~scores.pairs, -torch.inf)
        best = fit.detach().amax(-1).masked_fill(~across.present, -torch.inf)
        quota = (PLACES_PER_PIECE * scores.counts).clamp(PLACES, MOST_PLACES)
        ranked = best.argsort(dim=1, descending=True)[:, : int(quota.max())]
        within = torch.arange(ranked.shape[1], device=quota.device) < quota[:, None]
        chosen, order = ranked.sort(1)
        present = across.present.gather(1, chosen) & within.gather(1, order)
        fit = _gather_rows(_gather_rows(fit, chosen).mT, chosen).mT
        fit = fit.masked_fill(~(present[:, :, None] & present[:, None, :]), -torch.inf)
        places = across.rows.gather(1, chosen)
        local = piece - starts(scores.counts)[ranges(scores.counts)][piece]
        graph = MatchGraph(
            points=scores.points[places],
            normals=None if scores.normals is None else scores.normals[places],
            piece=local[places],
            present=present,
            shared=torch.sigmoid(scores.shared)[places] * present,
            fit=fit.clamp(min=LEAST_FIT),  # not before the choices above and below, which know no ties
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
        # Only places of one piece vote on each other: one piece at a time, the tables are small.
        number = self.piece + self.has.shape[1] * torch.arange(len(self.piece), device=self.piece.device)[:, None]
        rows = torch.where(self.present, number, -1).flatten()
        groups = [(rows == piece).nonzero()[:, 0] for piece in rows[rows >= 0].unique().tolist()]
        votes = [self._votes_on(own, complementary) for own in groups]
        none = self.fit.new_full((rows.numel(), self.mates.shape[-1], VOTE_ROUNDS), LEAST_VOTE).log()
        return none.index_put((torch.cat(groups),), torch.cat(votes)).reshape(*self.mates.shape, VOTE_ROUNDS)

    def _votes_on(self, own: Tensor, complementary: bool) -> Tensor:
        """The votes on the candidates of the places (n,) of one piece, counted over all puzzles. -> (n, K, R)."""
        mates = self.mates.flatten(0, 1)[own]
        agree = self._agreement(own, mates, complementary)  # (n K, n V)
        fit = self.fit.flatten(0, 1)[own].gather(1, mates)
        there = self._are_candidates(own, mates)
        weight, rounds = fit.exp() * there, []
        for _ in range(VOTE_ROUNDS):
            voters = weight[:, :NUM_VOTERS].flatten()
            votes = (agree @ voters).reshape(weight.shape) + LEAST_VOTE
            rounds.append(votes.log())
            chosen = (fit + votes.log()).masked_fill(~there, -1e4).softmax(-1) * there
            weight = chosen * self.shared.flatten()[own, None]
        return torch.stack(rounds, -1)

    def _are_candidates(self, own: Tensor, mates: Tensor) -> Tensor:
        """(n, K) which candidates are places of other pieces: where there are too few, the list is filled up."""
        rows, piece = mates + self._first_place(own)[:, None], self.piece.flatten()
        return (piece[rows] != piece[own, None]) & self.present.flatten()[rows]

    def _first_place(self, own: Tensor) -> Tensor:
        """(n,) the first place of the puzzle of places, counted over all puzzles."""
        return own // self.piece.shape[1] * self.piece.shape[1]

    @torch.no_grad()
    def _agreement(self, own: Tensor, mates: Tensor, complementary: bool) -> Tensor:
        """(n K, n V) how well candidates agree with voters, of places (n,) of one piece; zero unless both candidates
        are of one piece.
        """
        first = self._first_place(own)
        voters = (mates[:, :NUM_VOTERS] + first[:, None]).flatten()
        mates = (mates + first[:, None]).flatten()
        grid = (len(own), len(mates) // len(own), len(own), len(voters) // len(own))
        here, there = self._invariants(own, own), self._invariants(mates, voters)
        badness = here[0].new_zeros(grid)
        # A bump of one piece is a dent of the other; the signs of other normals are not known.
        for number, (mine, theirs) in enumerate(zip(here, there, strict=True)):
            if number > 0 and not complementary:
                mine, theirs = mine.square(), theirs.square()
            mine = -mine if number > 1 and complementary else mine
            tolerance = LENGTH_TOLERANCE * self.reach if number == 0 else NORMAL_TOLERANCE
            badness += (theirs.reshape(grid) - mine[:, None, :, None]).mul_(1 / tolerance).square_()
        # Places side by side always agree, which says nothing.
        apart = here[0].square()
        apart = apart / (apart + self.reach**2)
        agree = badness.mul_(-0.5).exp_().mul_(apart[:, None, :, None]).reshape(len(mates), len(voters))
        piece = self.piece.flatten()
        return agree.mul_(piece[mates][:, None] == piece[voters][None])

    def _invariants(self, rows: Tensor, columns: Tensor) -> list[Tensor]:
        """The distances of places (P,) from places (Q,), in the frame of one piece, and how their normals lie.

        The cosine of the two normals, and the rise of each place above the tangent plane of the other, by distance.
        """
        points = self.points.flatten(0, 1)
        first, second = points[rows], points[columns]
        square = first.square().sum(-1)[:, None] + second.square().sum(-1)
        length = (square - 2 * first @ second.T).clamp(min=0).add(1e-12).sqrt()
        if self.normals is None:
            return [length]
        normals = self.normals.flatten(0, 1)
        facing, other = normals[rows], normals[columns]
        unit = length + 0.5 * self.reach
        rise = (facing @ second.T - (facing * first).sum(-1)[:, None]) / unit
        back = (first @ other.T - (second * other).sum(-1)) / unit
        return [length, facing @ other.T, rise, back]


def _gather_rows(table: Tensor, chosen: Tensor) -> Tensor:
    """Some rows (B, S') of tables (B, S, T). -> (B, S', T)."""
    return table.gather(1, chosen[..., None].expand(-1, -1, table.shape[-1]))
