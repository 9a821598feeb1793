"""EdaNetwork: f of eq. (5), from moved pieces and tau to a velocity per piece.

In: a `Pyramid`, poses and tau. Out: (w, u) per piece: its angular velocity and the velocity of its centre.

Up to the first cross-attention the network sees one rigid piece at a time. By equivariance it may look at the piece
in its own frame, and turn the resulting features by the Wigner matrices of the pose: exact, and `encode` is shared by
all poses. So f(gX) is `relate(encode(X), g)`, and the direct evaluation is the same call on the moved pieces with
poses that move nothing.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from eda.errors import InputError
from eda.graph import Across, Pyramid
from eda.kernels import Edges
from eda.lie import SE3
from eda.lie.precision import full_precision
from eda.lie.wigner import degree_rows, harmonics, rotate_features, rows_of, wigner
from eda.nn.blocks import CrocoBlock, DownBlock
from eda.nn.break_head import BreakHead
from eda.nn.correspondences import Matcher, MatchScores
from eda.nn.layers import AdaptiveNorm, Time, TimeEmbedding
from eda.nn.match_graph import MatchGraph
from eda.nn.network_config import NetworkConfig, PoseFieldKind
from eda.nn.pose_field import PoseField
from eda.nn.synchronising_field import Arrangement, SynchronisingField, velocity_to
from eda.pieces import Pieces
from eda.registration.arrangements import Arrangements, Search, arrange
from eda.registration.hypotheses import PairHypotheses, find_hypotheses
from eda.registration.icp import Surface
from eda.segment import ranges, segment_softmax, segment_sum

# What f sees of other pieces: all; correspondences of pairs without a search or synchronisation of the whole; or the
# paper's cross-attention alone.
Paths = Literal["all", "pairs", "croco"]


@dataclass(frozen=True)
class Layout:
    """Which token belongs to which piece, and which piece to which puzzle."""

    sizes: Tensor  # (N,) tokens of each piece
    counts: Tensor  # (B,) pieces of each puzzle

    @cached_property
    def piece(self) -> Tensor:
        """(T,) the piece of every token."""
        return ranges(self.sizes)

    @cached_property
    def puzzle(self) -> Tensor:
        """(T,) the puzzle of every token."""
        return ranges(self.counts)[self.piece]

    @cached_property
    def across(self) -> Across:
        """Which tokens may attend to each other across pieces."""
        return Across.between(self.piece, self.puzzle)


@dataclass(frozen=True)
class Tokens:
    """The coarse points of every piece with their features, in the piece's own frame."""

    features: Tensor  # (T, M, C)
    points: Tensor  # (T, 3)
    within: Edges  # the neighbours in the same piece
    layout: Layout
    arrangements: Arrangements | None = None  # in which they may fit, of a network that searches
    graph: MatchGraph | None = None  # their correspondences, of a network that synchronises
    time: Time | None = None  # what the features are attuned to, if they are

    @staticmethod
    def cat(batch: list[Tokens]) -> Tokens:
        """Several batches as one; the same one several times, for several samples of the same pieces."""
        offsets = [0, *itertools.accumulate(len(tokens.points) for tokens in batch)]
        neighbors = [
            torch.where(tokens.within.neighbors < 0, -1, tokens.within.neighbors + offset)
            for tokens, offset in zip(batch, offsets, strict=False)
        ]
        return Tokens(
            features=torch.cat([tokens.features for tokens in batch]),
            points=torch.cat([tokens.points for tokens in batch]),
            within=Edges(torch.cat(neighbors), torch.cat([tokens.within.vectors for tokens in batch])),
            layout=Layout(
                sizes=torch.cat([tokens.layout.sizes for tokens in batch]),
                counts=torch.cat([tokens.layout.counts for tokens in batch]),
            ),
            arrangements=Arrangements.cat([t.arrangements for t in batch if t.arrangements])
            if batch[0].arrangements
            else None,
            graph=MatchGraph.cat([t.graph for t in batch if t.graph]) if batch[0].graph else None,
        )


@dataclass(frozen=True)
class Relation:
    """What f says at some poses, part by part."""

    plain: Tensor  # (N, 6): (w, u) of every piece by the Croco path alone
    rounds: list[Arrangement]  # of the synchronising field, the last one last; none without it


class EdaNetwork(nn.Module):
    """f: SO(3)- and permutation-equivariant, and blind to translations of the whole.

    It runs in the precision of its weights, also under autocast.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = InputEmbedding(config)
        self.time = TimeEmbedding(config.channels)
        self.down = nn.ModuleList(DownBlock(config, first=depth == 0) for depth in range(config.num_levels))
        self.matcher = Matcher(config) if config.match_width else None
        searches, synchronises = (config.match_width and config.pose_field == kind for kind in get_args(PoseFieldKind))
        self.motions = PoseField(config.is_complementary) if searches else None
        self.synchronising = SynchronisingField(config.normals == "oriented") if synchronises else None
        self.croco = nn.ModuleList(CrocoBlock(config) for _ in range(config.num_blocks))
        self.head = VelocityHead(config)
        self.breaks = BreakHead(config) if config.break_head else None

    def forward(self, pyramid: Pyramid, poses: SE3, tau: Tensor) -> Tensor:
        """f(gX) at tau. poses (N,), tau (B,) -> (N, 6): (w, u) of every piece."""
        return self.relate(self.encode(pyramid, tau), poses, tau)

    def encode(
        self,
        pyramid: Pyramid,
        tau: Tensor | None,
        paths: Paths = "all",
        levels: list[Tensor] | None = None,
    ) -> Tokens:
        """All that happens inside single pieces, in their own frames. tau (B,), not used by a time-free encoder.

        With `paths="croco"`, places are not matched: the Croco path decides alone. `levels` are those of `descend`, if
        it has run already.
        """
        levels = self.descend(pyramid, tau) if levels is None else levels
        scores = None if paths == "croco" else self.match(pyramid, levels)
        if scores is None or self.synchronising:
            return self.tokens(pyramid, levels, graph=None if scores is None else self.link(pyramid, scores))
        return self.tokens(pyramid, levels, self.arrange(pyramid, self.hypothesize(pyramid, scores), paths))

    @full_precision
    def match(self, pyramid: Pyramid, levels: list[Tensor]) -> MatchScores | None:
        """From the levels of `descend`: how well places of different pieces match, where the network asks."""
        return self.matcher(pyramid, levels) if self.matcher else None

    @full_precision
    def tokens(
        self,
        pyramid: Pyramid,
        levels: list[Tensor],
        arrangements: Arrangements | None = None,
        graph: MatchGraph | None = None,
    ) -> Tokens:
        """From the levels of `descend`: the last one as tokens, with what correspondences say of their pieces."""
        level, config = pyramid.coarse, self.config
        within = Edges.between(level.points, level.points, level.within, config.reach(config.num_levels))
        matched = self.matcher.level if self.matcher else -1
        seen = [features.detach() if depth <= matched else features for depth, features in enumerate(levels)]
        layout = Layout(level.sizes, pyramid.pieces.counts)
        return Tokens(seen[-1], level.points, within, layout, arrangements, graph)

    @full_precision
    def link(self, pyramid: Pyramid, scores: MatchScores) -> MatchGraph:
        """The likeliest correspondences of every puzzle, for the synchronising field."""
        centers = pyramid.pieces.centroids()
        return MatchGraph.of(scores, centers, complementary=self.config.is_complementary)

    @full_precision
    def hypothesize(self, pyramid: Pyramid, scores: MatchScores) -> list[PairHypotheses]:
        """The relative poses by which the pieces of every puzzle may fit, from their correspondences."""
        centers = pyramid.pieces.centroids().split(scores.counts.tolist())
        every = zip(scores.puzzles(), centers, self._surfaces(pyramid.pieces), strict=True)
        return [find_hypotheses(matches, at, surfaces) for matches, at, surfaces in every]

    def _surfaces(self, pieces: Pieces) -> list[tuple[Surface, ...] | None]:
        """Of every puzzle, the surfaces of its pieces; none of complementary ones, which do not lie on each other."""
        counts = pieces.counts.tolist()
        if self.config.is_complementary:
            return [None] * len(counts)
        normals = None if self.config.normals == "absent" else pieces.normals
        normals = torch.zeros_like(pieces.points) if normals is None else normals
        sizes, spacing = pieces.sizes.tolist(), self.config.spacing
        columns = (of.detach().double().cpu().split(sizes) for of in (pieces.points, normals))
        every = (Surface(points.numpy(), facing.numpy(), spacing) for points, facing in zip(*columns, strict=True))
        return [tuple(itertools.islice(every, count)) for count in counts]

    @full_precision
    def arrange(self, pyramid: Pyramid, hypotheses: list[PairHypotheses], paths: Paths = "all") -> Arrangements:
        """The arrangements of every puzzle, from the hypotheses of its pairs: by a beam search, or greedily."""
        assert self.motions is not None
        search: Search = "beam" if paths == "all" else "greedy"
        centers = pyramid.pieces.centroids().split(pyramid.pieces.counts.tolist())
        scores, each = self.motions.pair_scores, zip(hypotheses, centers, strict=True)
        return Arrangements.cat([arrange(some, at, scores, search) for some, at in each])

    @full_precision
    def descend(self, pyramid: Pyramid, tau: Tensor | None) -> list[Tensor]:
        """The encoder: features (P', M, C) of every level, each piece in its own frame."""
        config = self.config
        embedding = self.time(tau) if config.time_in_encoder and tau is not None else None
        if config.time_in_encoder and embedding is None:
            raise InputError("the encoder of this network sees the time: it needs tau")
        features = self.embedding(pyramid)
        levels = []
        points, time = pyramid.pieces.points, _time_of(embedding, pyramid.pieces.sizes, pyramid.pieces.counts)
        for depth, (block, level) in enumerate(zip(self.down, pyramid.levels, strict=True)):
            down = Edges.between(level.points, points, level.down, config.reach(depth))
            within = Edges.between(level.points, level.points, level.within, config.reach(depth + 1))
            fine_time, time = time, _time_of(embedding, level.sizes, pyramid.pieces.counts)
            features = block(features, level, down, within, fine_time, time)
            points = level.points
            levels.append(features)
            if self.matcher and depth == self.matcher.level:
                # The flow's gradient is so much noisier that places were matched ever worse where it came through; so
                # in `tokens`, too, it stops here.
                features = features.detach()
        return levels

    @full_precision
    def break_logits(self, pyramid: Pyramid, levels: list[Tensor], at: Pieces | None = None) -> Tensor:
        """From the levels of `descend`: the logit (P,) of lying on a break, for the pyramid's points or those `at`."""
        if self.breaks is None:
            raise InputError("this network has no break head: make one with break_head=True")
        return self.breaks(pyramid, levels, at)

    @full_precision
    def attune(self, tokens: Tokens, tau: Tensor) -> Tokens:
        """The first self-attention, which sees tau but still only single pieces in their own frames. tau (B,)."""
        time = Time(self.time(tau), tokens.layout.puzzle)
        features = self.croco[0].look_inside(tokens.features, tokens.within, time)  # type: ignore[operator]
        return replace(tokens, features=features, time=time)

    @full_precision
    def relate(self, tokens: Tokens, poses: SE3, tau: Tensor, boldness: float = 1.0, paths: Paths = "all") -> Tensor:
        """All that happens between pieces at their poses. poses (N,), tau (B,) -> (N, 6): (w, u) of every piece.

        Arrangements in which pieces may fit are weighed at the inverse temperature `boldness` (`nn/pose_field.py`).
        """
        said = self.relation(tokens, poses, tau, paths)
        if self.motions and tokens.arrangements:
            return self.motions(tokens.arrangements, poses, tau, said.plain, boldness)
        if said.rounds and tokens.graph:
            return velocity_to(tokens.graph, said.rounds[-1], poses, tau)
        return said.plain

    @full_precision
    def relation(self, tokens: Tokens, poses: SE3, tau: Tensor, paths: Paths = "all") -> Relation:
        """What the Croco path says, and where the synchronising field wants the pieces, at poses (N,) and tau (B,).

        Tokens that are attuned already, which must be to this tau, save the first self-attention. With
        `paths="pairs"`, every piece follows its pairs at once, without synchronisation.
        """
        if tokens.time is None:
            tokens = self.attune(tokens, tau)
        assert tokens.time is not None
        config, layout = self.config, tokens.layout
        pose = poses[layout.piece]
        points = pose.act(tokens.points)
        neighbors = layout.across.neighbors(points, config.cross_neighbors)
        between = Edges.between(points, points, neighbors, config.reach(config.num_levels))
        within = tokens.within.rotated(pose.rotation)
        blocks = [block[layout.piece] for block in wigner(poses.rotation, config.max_degree)]
        features = rotate_features(tokens.features, blocks)
        first, *others = self.croco
        features = first.look_across(features, between, tokens.time)  # type: ignore[operator]
        for croco in others:
            features = croco(features, within, between, tokens.time)
        plain = self.head(features, layout.piece, len(layout.sizes), tokens.time)
        rounds: list[Arrangement] = []
        if self.synchronising and tokens.graph:
            # Each path learns from its own loss: what correspondences cannot say must not depend on what they do.
            rounds = self.synchronising(tokens.graph, poses, tau, plain.detach(), together=paths == "all")
        return Relation(plain, rounds)


def _time_of(embedding: Tensor | None, sizes: Tensor, counts: Tensor) -> Time | None:
    return None if embedding is None else Time(embedding, ranges(counts)[ranges(sizes)])


class InputEmbedding(nn.Module):
    """The features of the finest points: the spherical harmonics of their normals, as far as these can be trusted.

    Oriented normals give all degrees, unoriented ones the even degrees (which do not change when a normal is flipped),
    no normals the constant degree 0.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.weight = nn.Parameter(torch.randn(len(config.normal_degrees), config.channels))

    def forward(self, pyramid: Pyramid) -> Tensor:
        """-> (P, M, C)."""
        pieces, max_degree = pyramid.pieces, self.config.max_degree
        if len(self.config.normal_degrees) > 1 and pieces.normals is None:
            raise InputError(
                f"this network was made for {self.config.normals} normals, but the pieces have none: estimate "
                f"normals first (eda.cloud.estimate_normals), or use a network made with normals='absent'"
            )
        weight = self.weight.new_zeros(rows_of(max_degree), self.config.channels)
        for l, row in zip(self.config.normal_degrees, self.weight, strict=True):
            weight[degree_rows(l)] = row
        normals = torch.zeros_like(pieces.points) if pieces.normals is None else pieces.normals
        return _Spread.apply(harmonics(normals, max_degree), weight)


class _Spread(torch.autograd.Function):
    """values (P, M) times weight (M, C), row by row -> (P, M, C).

    The gradient of the weight is a product of matrices: what autograd would do is to write another (P, M, C) first.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(values)
        return values[..., None] * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        (values,) = ctx.saved_tensors
        return None, torch.bmm(values.T[:, None], gradient.transpose(0, 1)).squeeze(1)


class VelocityHead(nn.Module):
    """Piece-wise pooling: a softmax over the tokens of a piece, then two vectors (w, u), gated by the invariants."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        channels = config.channels
        self.norm = AdaptiveNorm(channels, channels)
        self.weight = nn.Linear(channels, channels, bias=False)  # a softmax does not see a bias
        self.vectors = nn.Linear(channels, channels, bias=False)
        self.gate = nn.Linear(channels, channels)
        self.output = nn.Linear(channels, 2, bias=False)

    def forward(self, features: Tensor, piece: Tensor, num_pieces: int, time: Time) -> Tensor:
        """(T, M, C), piece (T,) -> (N, 6)."""
        features = self.norm(features, time)[:, : rows_of(1)]
        weight = segment_softmax(self.weight(features[:, 0]), piece, num_pieces)
        pooled = segment_sum(features * weight[:, None], piece, num_pieces)
        gate = nn.functional.silu(self.gate(pooled[:, :1]))
        return self.output(self.vectors(pooled[:, degree_rows(1)]) * gate).mT.flatten(1)
