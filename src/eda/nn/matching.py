"""Which places two pieces share, found before either has a pose (ours; the paper has no such path).

In: the encoder's features, each piece in its own frame. Out: `Matching`, made once per puzzle by `Matcher`.

Scans of one room show some of its places twice. A place is described by invariants, looks around in its own piece and
in the others, and says what it looks like; places that look alike both ways are held for the same. What is right is
known in training from the solution (`matching_loss`), so this learns much faster than through velocities.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from eda.graph import Across, Pyramid
from eda.lie import SE3
from eda.nn.config import NetworkConfig
from eda.nn.invariants import described, described_width
from eda.nn.layers import EquivariantNorm
from eda.nn.transformer import Attention, look_around
from eda.segment import padded, ranges

DESCRIPTOR = 64  # numbers by which places are compared
EXTENT = 4.0  # about that of a piece, in units of the level's reach
HIDDEN = -1e4  # the score of a place that is padding
# In units of the level's reach: the usual distance of the nearest place of another piece where both show the surface.
SAME = 0.6
LEAST_PLACES = 6  # columns of a table of places, so that the smallest pieces have as many pairs as motions are wanted


@dataclass(frozen=True)
class Matching:
    """How alike the places of two pieces are, for every pair of pieces of the same puzzle."""

    places: Tensor  # (N, m, 3) of every piece in its own frame, padded
    present: Tensor  # (N, m) which of these are not padding
    normals: Tensor | None  # (N, m, 3) at these places, where there are any
    shared: Tensor  # (N, m) the logit that another piece shows the place too
    first: Tensor  # (Q,) a piece
    second: Tensor  # (Q,) a later one of the same puzzle
    scores: Tensor  # (Q, m, m) how alike a place of the first and one of the second look
    reach: float  # the unit of length of the places' level

    @property
    def pairs(self) -> tuple[Tensor, Tensor]:
        """The first and the second pieces, (Q,) each."""
        return self.first, self.second

    @property
    def both(self) -> Tensor:
        """(Q, m, m) pairs of places that are not padding."""
        return _both(self.present, self.first, self.second)

    def weights(self) -> Tensor:
        """(Q, m, m) how surely two places are the same: each is the other's choice, and both are shared."""
        shared = logsigmoid(self.shared)
        certain = self.scores.log_softmax(1) + self.scores.log_softmax(2)
        certain = certain + shared[self.first][:, :, None] + shared[self.second][:, None, :]
        return certain.exp().masked_fill(~self.both, 0)


class Matcher(nn.Module):
    """Describes the places of all pieces by invariants and compares those of every pair."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        channels, width = config.channels, config.match_width
        self.level = config.match_level - 1
        self.sees_normals = config.normals != "absent"
        self.reach = config.reach(config.match_level)
        self.norm = EquivariantNorm(channels)
        self.embedding = nn.Linear(described_width(config.max_degree, channels), width)
        self.inside = nn.ModuleList(Attention(width) for _ in range(config.match_layers))
        self.across = nn.ModuleList(Attention(width) for _ in range(config.match_layers))
        self.looks = nn.Linear(width, DESCRIPTOR)
        self.shared = nn.Linear(width, 1)

    def forward(self, pyramid: Pyramid, levels: list[Tensor]) -> Matching:
        """The levels (T, M, C) of the encoder's features."""
        level, features = pyramid.levels[self.level], levels[self.level]
        normals = _normals(pyramid, self.level) if self.sees_normals else None
        centers, counts = pyramid.pieces.centroids(), pyramid.pieces.counts
        piece = ranges(level.sizes)
        offset = (level.points - centers[piece]) / (EXTENT * self.reach)
        across = Across.between(piece, ranges(counts)[piece])
        places = look_around(self.embedding(described(self.norm(features), offset)), across, self.inside, self.across)
        rows, present = padded(level.sizes, LEAST_PLACES)
        looks = (self.looks(places) / DESCRIPTOR**0.25)[rows]
        first, second = pairs_of_pieces(counts)
        alike = looks[first] @ looks[second].mT
        return Matching(
            places=level.points[rows],
            present=present,
            normals=None if normals is None else normals[rows],
            shared=self.shared(places).squeeze(-1)[rows],
            first=first,
            second=second,
            scores=alike.masked_fill(~_both(present, first, second), HIDDEN),
            reach=self.reach,
        )


def _both(present: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return present[first][:, :, None] & present[second][:, None, :]


def _normals(pyramid: Pyramid, depth: int) -> Tensor | None:
    """Of the points of a level, where the pieces have normals."""
    if pyramid.pieces.normals is None:
        return None
    rows = pyramid.levels[depth].parent
    for level in reversed(pyramid.levels[:depth]):
        rows = level.parent[rows]
    return pyramid.pieces.normals[rows]


def pairs_of_pieces(counts: Tensor) -> tuple[Tensor, Tensor]:
    """The pieces (Q,) and (Q,) of every pair within puzzles of `counts` pieces, each pair once."""
    begin = [0, *itertools.accumulate(counts.tolist())]
    rows = [pair for one, end in itertools.pairwise(begin) for pair in itertools.combinations(range(one, end), 2)]
    first, second = torch.tensor(rows, dtype=torch.int64, device=counts.device).reshape(-1, 2).unbind(1)
    return first, second


def matching_loss(matching: Matching, solution: SE3, own: Tensor | None = None) -> Tensor:
    """How badly places are matched, where the solution (N,) brings them: a cross-entropy in nats.

    A place ought to choose among those of the other piece that come to lie within `2 SAME` of it, the nearer the
    rather; and to know whether there are any. Pieces that are not the puzzle's `own` (N,) share nothing.
    """
    poses = SE3(solution.rotation[:, None], solution.translation[:, None])
    placed, near = poses.act(matching.places), SAME * matching.reach
    distance = torch.cdist(placed[matching.first], placed[matching.second]).masked_fill(~matching.both, torch.inf)
    if own is not None:
        distance = distance.masked_fill(~(own[matching.first] & own[matching.second])[:, None, None], torch.inf)
    wanted = torch.exp(-(distance**2) / (2 * near**2)) * (distance < 2 * near)
    chosen = [_choice_loss(matching.scores, wanted, axis) for axis in (1, 2)]
    count = sum(int((wanted.sum(axis) > 0).sum()) for axis in (1, 2))
    seen = [(matching.first, distance.amin(2)), (matching.second, distance.amin(1))]
    shared = torch.zeros_like(matching.shared)
    for piece, nearest in seen:
        shared = shared.index_add(0, piece, (nearest < 1.5 * near).to(shared.dtype))
    known = binary_cross_entropy_with_logits(
        matching.shared[matching.present], (shared[matching.present] > 0).to(shared.dtype)
    )
    return sum(chosen) / max(count, 1) + known


def _choice_loss(scores: Tensor, wanted: Tensor, axis: int) -> Tensor:
    """The sum over places of the cross-entropy of their choice along an axis, of those that have one to make."""
    target = wanted / wanted.sum(axis, keepdim=True).clamp(min=1e-12)
    return -(target * scores.log_softmax(axis)).sum()
