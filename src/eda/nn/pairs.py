"""What two pieces can know of each other before either has a pose (ours; the paper has no such path).

In: the encoder's features, each piece in its own frame. Out: `Pairs`, made once per puzzle by `PairEncoder`; and from
these, at any poses, a part of the velocity of every piece and what its tokens are told, by `PairPath`.

Cross-attention of eq. (5) sees another piece along the edges to it, which say nothing while the pieces still lie at
random. To turn a break towards its counterpart takes products of two pieces' vectors, such as the cross product of
their directions. Which places match does not depend on poses at all: it is found from invariants, by attention of
ordinary transformers. A pair then keeps a few `contacts`: places, softly chosen, that seem to touch, each with where it
lies and how it looks in the frames of both pieces. At given poses these are vectors in one space, whose products
are equivariant and whose Gram matrix is invariant.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from eda.graph import Across, Level, Pyramid
from eda.lie import SE3
from eda.nn.config import NetworkConfig
from eda.nn.invariants import described, described_width
from eda.nn.layers import EquivariantNorm
from eda.nn.transformer import Attention, look_around
from eda.segment import ranges, segment_softmax, segment_sum, starts

NUM_BLOCKS = 2  # the second hears what the first concluded
CONTACTS = 8  # of a pair
KEY_WIDTH = 16  # of the descriptors by which places match, for every contact
PAIR_VECTORS = 2 * CONTACTS  # where the contacts lie, and how they look
PAIR_SCALARS = 2 * CONTACTS  # what else is known of the contacts, and how well they match
STATE_VECTORS = 8  # of a piece
STATE_SCALARS = 16
PRODUCTS = 48  # of the vectors of a pair
EXTENT = 4.0  # about that of a piece, in units of the reach of the level that is matched
HIDDEN = -1e4  # the score of places of the same piece, which do not match
FAR = 3.0  # in units of the puzzle's size: no piece seems farther off, so that the field stays bounded
GRAM = 10  # mixtures of vectors of each piece whose inner products are looked at


@dataclass(frozen=True)
class Pairs:
    """The ordered pairs of different pieces of the same puzzle, and what the first knows of the second."""

    first: Tensor  # (Q,) a piece
    second: Tensor  # (Q,) another
    mirror: Tensor  # (Q,) the row of the pair (second, first)
    vectors: Tensor  # (Q, 3, PAIR_VECTORS) in the own frame of the first
    scalars: Tensor  # (Q, PAIR_SCALARS)
    centers: Tensor  # (N, 3) of all pieces, in their own frames

    @staticmethod
    def cat(batch: list[Pairs]) -> Pairs:
        """Several batches as one."""
        pieces = [0, *itertools.accumulate(len(pairs.centers) for pairs in batch)]
        rows = [0, *itertools.accumulate(len(pairs.first) for pairs in batch)]
        return Pairs(
            first=torch.cat([pairs.first + start for pairs, start in zip(batch, pieces, strict=False)]),
            second=torch.cat([pairs.second + start for pairs, start in zip(batch, pieces, strict=False)]),
            mirror=torch.cat([pairs.mirror + start for pairs, start in zip(batch, rows, strict=False)]),
            vectors=torch.cat([pairs.vectors for pairs in batch]),
            scalars=torch.cat([pairs.scalars for pairs in batch]),
            centers=torch.cat([pairs.centers for pairs in batch]),
        )


class PairState(NamedTuple):
    """What the pieces have concluded from all their pairs."""

    vectors: Tensor  # (N, 3, STATE_VECTORS)
    scalars: Tensor  # (N, STATE_SCALARS)


class PairPath(nn.Module):
    """From what pairs of pieces know to what they tell the tokens, and to a part of the velocity (ours)."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.level = config.pair_level - 1
        self.encoder = PairEncoder(config)
        self.blocks = nn.ModuleList(PairBlock(config, first=depth == 0) for depth in range(NUM_BLOCKS))
        self.scalars = nn.Linear(STATE_SCALARS, config.channels, bias=False)
        self.vectors = nn.Linear(STATE_VECTORS, config.channels, bias=False)
        self.output = nn.Linear(STATE_VECTORS, 2, bias=False)

    def encode(self, pyramid: Pyramid, levels: list[Tensor]) -> Pairs:
        """What does not depend on poses."""
        pieces = pyramid.pieces
        return self.encoder(pyramid.levels[self.level], levels[self.level], pieces.centroids(), pieces.counts)

    def forward(self, pairs: Pairs, poses: SE3, time: Tensor) -> PairState:
        """What pieces conclude at their poses (N,), with tau embedded for every piece (N, E)."""
        state = None
        for block in self.blocks:
            state = block(pairs, poses, state, time)
        assert state is not None
        return state

    def told(self, state: PairState, rows: int) -> Tensor:
        """As features of every piece: (N, M, C) with degrees 0 and 1."""
        low = torch.cat([self.scalars(state.scalars)[:, None], self.vectors(state.vectors)], dim=1)
        return nn.functional.pad(low, (0, 0, 0, rows - low.shape[1]))

    def velocity(self, state: PairState) -> Tensor:
        """(N, 6): added to (w, u) of the tokens."""
        return self.output(state.vectors).mT.flatten(1)


class PairEncoder(nn.Module):
    """Matches the places of all pairs of pieces by their invariants."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        channels, width = config.channels, config.pair_width
        self.reach = config.reach(config.pair_level)
        self.norm = EquivariantNorm(channels)
        self.embedding = nn.Linear(described_width(config.max_degree, channels), width)
        self.inside = nn.ModuleList(Attention(width) for _ in range(config.pair_layers))
        self.across = nn.ModuleList(Attention(width) for _ in range(config.pair_layers))
        self.match = nn.Linear(width, 2 * CONTACTS * KEY_WIDTH)
        self.looks = nn.Linear(channels, CONTACTS, bias=False)
        self.gate = nn.Linear(width, CONTACTS)
        self.scalars = nn.Linear(width, CONTACTS)

    def forward(self, level: Level, features: Tensor, centers: Tensor, counts: Tensor) -> Pairs:
        """features (T, M, C) of a level of the pyramid, centers (N, 3) of the pieces, counts (B,) of each puzzle."""
        piece = ranges(level.sizes)
        across = Across.between(piece, ranges(counts)[piece])
        features, offset = self.norm(features), (level.points - centers[piece]) / (EXTENT * self.reach)
        places = self._described(features, offset, across)
        evidence = self._evidence(places, piece - starts(counts)[ranges(counts)[piece]], across, int(counts.max()))
        weight = segment_softmax(evidence, piece, len(centers))  # (T, K, n): a place of a contact with each partner
        looks = self.looks(features[:, 1:4]) * torch.tanh(self.gate(places))[:, None]
        seen = torch.cat([offset[..., None].expand(-1, -1, CONTACTS), looks], dim=-1)
        both = weight.repeat(1, 2, 1)
        first, second, mirror, partner = _ordered_pairs(counts)
        vectors = segment_sum(seen[..., None] * both[:, None], piece, len(centers))[first, :, :, partner]
        known = torch.cat([self.scalars(places)[..., None].expand_as(evidence), evidence], dim=1)
        scalars = segment_sum(known * both, piece, len(centers))[first, :, partner]
        return Pairs(first, second, mirror, vectors, scalars, centers)

    def _described(self, features: Tensor, offset: Tensor, across: Across) -> Tensor:
        """Descriptors (T, width) of every place, after looking around in its own piece and in the others."""
        return look_around(self.embedding(described(features, offset)), across, self.inside, self.across)

    def _evidence(self, places: Tensor, local: Tensor, across: Across, most: int) -> Tensor:
        """How well a place matches the best places of each partner, for each contact. -> (T, K, n).

        The log of the sum over the partner's places of exp(score), where scores are the same both ways: its softmax
        over the places of a piece is the marginal of one distribution over the pairs of places of both.
        """
        query, key = self.match(places)[across.rows].unflatten(-1, (2, CONTACTS, KEY_WIDTH)).movedim(-3, 0)
        scores = torch.einsum("bukd,bvkd->bkuv", query, key) / KEY_WIDTH**0.5
        scores = (scores + scores.mT).masked_fill(~across.foreign[:, None], HIDDEN)
        evidence = _logsumexp(scores, local[across.rows][:, None, None].expand_as(scores), most)
        return evidence.transpose(1, 2)[across.present]


def _logsumexp(values: Tensor, group: Tensor, count: int) -> Tensor:
    """log sum exp over groups of the last axis, each relative to its own largest. (..., S) twice -> (..., count)."""
    empty = values.new_full((*values.shape[:-1], count), HIDDEN)
    largest = empty.scatter_reduce(-1, group, values.detach(), reduce="amax")
    sums = torch.zeros_like(empty).scatter_add(-1, group, torch.exp(values - largest.gather(-1, group)))
    return largest + torch.log(sums.clamp(min=1))  # one is the largest itself, so only a group of nobody has less


class PairBlock(nn.Module):
    """Every piece looks at its partners at their poses, and concludes."""

    def __init__(self, config: NetworkConfig, *, first: bool) -> None:
        super().__init__()
        width = 2 * config.pair_width
        # The contacts, the way to the other piece, and what the pieces concluded before.
        vectors = PAIR_VECTORS + 1 + (0 if first else STATE_VECTORS)
        scalars = 2 * PAIR_SCALARS + (0 if first else 2 * STATE_SCALARS) + config.channels
        self.mine, self.theirs = (nn.Linear(vectors, GRAM + 2 * PRODUCTS, bias=False) for _ in range(2))
        self.judge = nn.Sequential(
            nn.Linear(3 * GRAM**2 + scalars, width),
            nn.SiLU(),
            nn.Linear(width, width),
            nn.SiLU(),
            nn.Linear(width, 3 * PRODUCTS + STATE_SCALARS + 1),
        )
        self.output = nn.Linear(3 * PRODUCTS, STATE_VECTORS, bias=False)

    def forward(self, pairs: Pairs, poses: SE3, state: PairState | None, time: Tensor) -> PairState:
        """poses (N,), time (N, E): the embedding of tau for every piece."""
        centers = poses.act(pairs.centers)
        way = (centers[pairs.second] - centers[pairs.first])[..., None]
        way = way / (1 + way.square().sum(1, keepdim=True) / FAR**2).sqrt()
        vectors = poses.rotation[pairs.first] @ pairs.vectors
        mine, theirs = [vectors, way], [vectors[pairs.mirror], way]
        known = [pairs.scalars, pairs.scalars[pairs.mirror], time[pairs.first]]
        if state is not None:
            mine.append(state.vectors[pairs.first])
            theirs.append(state.vectors[pairs.second])
            known += [state.scalars[pairs.first], state.scalars[pairs.second]]
        return self._concluded(self.mine(torch.cat(mine, -1)), self.theirs(torch.cat(theirs, -1)), known, pairs)

    def _concluded(self, mine: Tensor, theirs: Tensor, known: list[Tensor], pairs: Pairs) -> PairState:
        split = [GRAM, PRODUCTS, PRODUCTS]
        (a, left, own), (b, right, other) = mine.split(split, -1), theirs.split(split, -1)
        grams = [(x.mT @ y).flatten(1) for x, y in ((a, b), (a, a), (b, b))]
        judged = self.judge(torch.cat([*grams, *known], dim=-1))
        gates, scalars, logit = judged.split([3 * PRODUCTS, STATE_SCALARS, 1], dim=-1)
        terms = torch.cat([torch.linalg.cross(left, right, dim=1), own, other], dim=-1) * gates[:, None]
        weight = segment_softmax(logit, pairs.first, len(pairs.centers))
        concluded = torch.cat([self.output(terms).flatten(1), scalars], dim=-1) * weight
        vectors, scalars = segment_sum(concluded, pairs.first, len(pairs.centers)).split(
            [3 * STATE_VECTORS, STATE_SCALARS], dim=-1
        )
        return PairState(vectors.unflatten(-1, (3, STATE_VECTORS)), scalars)


def _ordered_pairs(counts: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """first, second, mirror and the second's number in its puzzle, (Q,) each, of puzzles with `counts` pieces."""
    of_puzzle = ranges(counts)
    first = ranges(counts[of_puzzle] - 1)
    rank = torch.arange(len(first), device=counts.device) - starts(counts[of_puzzle] - 1)[first]
    local, size = first - starts(counts)[of_puzzle[first]], counts[of_puzzle[first]]
    partner = rank + (rank >= local)
    begin = starts(counts * (counts - 1))[of_puzzle[first]]
    mirror = begin + partner * (size - 1) + local - (local > partner).to(local.dtype)
    return first, first - local + partner, mirror, partner
