"""SynchronisingField: the velocity by which correspondences bring pieces together, at any poses (ours).

In: a `MatchGraph`, the poses of the pieces and tau. Out: where the pieces are to go, after every one of a few rounds.

A round has three steps, each differentiable, symmetric in the pieces and equivariant:

1. Attention. A place looks at its candidates (by fit, before any pose is known) and at the places of other pieces that
   lie nearest to it now (by place). Invariants of the edge decide how much it follows each, or none.
2. Soft rigid fits. The correspondences of every pair of pieces make one weighted Procrustes problem; its moments say
   how far it is to be trusted.
3. Synchronisation. All pieces go where the trusted pairs want them (`registration/synchronize.py`). What no
   correspondence decides is left to the goal that the rest of the network gives.

The next round begins where the last one ended. The arrangement of the last round, turned as a whole onto the present
poses, is the end of the way, and the velocity is what is left of it over the time that is left.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from eda.lie import SE3, so3
from eda.lie.precision import full_precision
from eda.nn.match_graph import VOTE_ROUNDS, MatchGraph
from eda.registration.synchronize import PairFits, PairSums, follow_pairs, synchronize

ROUNDS = 3
NUM_NEAREST = 4  # places of other pieces that a place looks at
EDGE_WIDTH, PAIR_WIDTH = 32, 32
MIN_TIME_LEFT = 0.02  # floor on 1 - tau
NUM_EDGE_INPUTS = 13 + VOTE_ROUNDS
NUM_PAIR_INPUTS = 9


@dataclass(frozen=True)
class Attention:
    """Which places every place follows."""

    to: Tensor  # (B, S, E) those that it looks at
    weight: Tensor  # (B, S, E) how much it follows each; what is missing to one, nobody


@dataclass(frozen=True)
class Arrangement:
    """Where the pieces are to go, as a whole (known up to a motion of it), and why."""

    rotation: Tensor  # (B, N, 3, 3)
    center: Tensor  # (B, N, 3) the places of the pieces' centroids
    attention: Attention
    trust: Tensor  # (B, N, N) in the fits of pairs, symmetric, zero on the diagonal
    relative: Tensor  # (B, N, N, 3, 3) X_j^-1 X_i of the rotations of (i, j), as the pair's fit has it


class SynchronisingField(nn.Module):
    """Weighs correspondences at the poses that the pieces have, and synchronises what they want."""

    def __init__(self, oriented: bool) -> None:
        super().__init__()
        self.oriented = oriented  # whether the signs of normals mean something
        self.edge = _perceptron(NUM_EDGE_INPUTS, EDGE_WIDTH, EDGE_WIDTH, 1)
        self.nobody = _perceptron(4, 16, 1)
        self.pair = _perceptron(NUM_PAIR_INPUTS, PAIR_WIDTH, PAIR_WIDTH, 1)
        self.hold = nn.Parameter(torch.full((ROUNDS,), -2.0))  # of the goal, before a softplus

    def forward(
        self, graph: MatchGraph, poses: SE3, tau: Tensor, velocity: Tensor, *, together: bool = True
    ) -> list[Arrangement]:
        """The arrangement after every round. poses (N,), tau (B,), and velocity (N, 6) as the rest of the network says.

        Unless all pieces go `together`, there is one round, and each follows the others to where they are now.
        """
        rotation, center = padded_poses(graph, poses)
        left = (1 - tau).clamp(min=MIN_TIME_LEFT)[:, None, None]
        turn, shift = (velocity[graph.rows] * graph.has[..., None] * left).split(3, dim=-1)
        goal = (so3.exp(turn) @ rotation, center + shift)
        rounds = []
        for number in range(ROUNDS if together else 1):
            rounds.append(self._round(graph, rotation, center, goal, tau, number, together))
            rotation, center = rounds[-1].rotation, rounds[-1].center
        return rounds

    def _round(
        self,
        graph: MatchGraph,
        rotation: Tensor,
        center: Tensor,
        goal: tuple[Tensor, Tensor],
        tau: Tensor,
        number: int,
        together: bool,
    ) -> Arrangement:
        turn = graph.of_places(rotation)
        points = (turn @ (graph.points - graph.of_places(graph.centers))[..., None]).squeeze(-1)
        points = points + graph.of_places(center)
        normals = None if graph.normals is None else (turn @ graph.normals[..., None]).squeeze(-1)
        to, votes = self._edges(graph, points)
        weight = self._attention(graph, points, normals, to, votes, tau, number)
        piece, count = graph.piece, graph.has.shape[1]
        mate = piece.gather(1, to.flatten(1)).reshape(to.shape)
        puzzle = torch.arange(len(piece), device=piece.device)[:, None, None]
        slot = ((puzzle * count + piece[:, :, None]) * count + mate).flatten()
        here = points[:, :, None].expand(*to.shape, 3).reshape(-1, 3)
        sums = PairSums.of(weight.flatten(), here, at_places(points, to).reshape(-1, 3), slot, (len(piece), count))
        fits = PairFits.of(sums)
        trust = self._confidence(graph, fits, weight, votes, slot, tau, number)
        solve = synchronize if together else follow_pairs
        relative = rotation.mT[:, None] @ fits.rotation @ rotation[:, :, None]
        rotation, center = solve(fits, trust, rotation, center, goal, softplus(self.hold[number]) / 10)
        return Arrangement(rotation, center, Attention(to, weight), trust, relative)

    @staticmethod
    def _edges(graph: MatchGraph, points: Tensor) -> tuple[Tensor, Tensor]:
        """The places that every place looks at (B, S, E), and their votes (B, S, E, VOTE_ROUNDS), if they have any."""
        with torch.no_grad():
            foreign = (graph.piece[:, :, None] != graph.piece[:, None, :]) & graph.present[:, None, :]
            distance = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
            distance = distance.masked_fill(~foreign, torch.inf)
            nearest = distance.topk(min(NUM_NEAREST, points.shape[1]), dim=2, largest=False).indices
        none = graph.votes.new_zeros(*nearest.shape, VOTE_ROUNDS)
        return torch.cat([graph.mates, nearest], 2), torch.cat([graph.votes, none], 2)

    def _attention(
        self,
        graph: MatchGraph,
        points: Tensor,
        normals: Tensor | None,
        to: Tensor,
        votes: Tensor,
        tau: Tensor,
        number: int,
    ) -> Tensor:
        """How much every place follows those that it looks at. -> (B, S, E), at most one in all."""
        fit, reach = graph.fit.gather(2, to), graph.reach
        offset = at_places(points, to) - points[:, :, None]
        length = (offset.square().sum(-1) + 1e-9).sqrt()
        one = torch.ones_like(fit)
        by_fit = (torch.arange(to.shape[-1], device=to.device) < graph.mates.shape[-1]) * one
        seen = [
            fit / 5,
            (fit - fit.amax(-1, keepdim=True)) / 3,
            length / reach / 3,
            (length / reach).log() / 2,
            *self._facing(normals, offset / length[..., None], to, one),
            graph.shared[:, :, None] * one,
            at_places(graph.shared[..., None], to).squeeze(-1),
            tau[:, None, None] * one,
            one * number / ROUNDS,
            by_fit,
            (1 - by_fit) * (length < reach),
        ]
        logit = self.edge(torch.cat([torch.stack(seen, -1), votes], -1)).squeeze(-1) + fit / 2
        times = tau[:, None].expand_as(graph.shared)
        about = [graph.shared, fit.amax(2) / 5, times, torch.full_like(times, number / ROUNDS)]
        nobody = self.nobody(torch.stack(about, -1))
        mate, there = (at_places(of[..., None], to).squeeze(-1) for of in (graph.piece, graph.present))
        allowed = (mate != graph.piece[..., None]) & there & graph.present[..., None]
        logit = logit.masked_fill(~allowed, -1e4)
        return torch.cat([logit, nobody], 2).softmax(2)[..., :-1] * allowed

    def _facing(self, normals: Tensor | None, along: Tensor, to: Tensor, one: Tensor) -> list[Tensor]:
        """Cosines of the two normals and of each with the edge; squared where normals have no sign."""
        if normals is None:
            return [0 * one] * 3
        here, there = normals[:, :, None], at_places(normals, to)
        cosines = [(here * there).sum(-1), (here * along).sum(-1), (there * along).sum(-1)]
        return cosines if self.oriented else [cosine.square() for cosine in cosines]

    def _confidence(
        self, graph: MatchGraph, fits: PairFits, weight: Tensor, votes: Tensor, slot: Tensor, tau: Tensor, number: int
    ) -> Tensor:
        """How far the fit of every pair is trusted. -> (B, N, N), symmetric, zero on the diagonal."""
        reach, total = graph.reach, fits.weight
        support = total.new_zeros(total.numel()).index_add(0, slot, (weight * votes[..., -1]).flatten())
        support = support.reshape(total.shape)
        support = (support + support.mT) / total.clamp(min=1e-3)
        apart = ((fits.here - fits.there).square().sum(-1) + 1e-9).sqrt()
        cosine = (fits.rotation.diagonal(dim1=-2, dim2=-1).sum(-1) - 1) / 2
        seen = [
            total.clamp(min=1e-3).log(),
            (fits.residual + 1e-6).sqrt() / reach,
            (fits.spread + 1e-6).sqrt() / reach,
            fits.residual / (fits.spread + 1e-6),
            apart / reach / 3,
            cosine,
            support / 3,
            tau[:, None, None].expand_as(total),
            torch.full_like(total, number / ROUNDS),
        ]
        trust = torch.sigmoid(self.pair(torch.stack(seen, -1)).squeeze(-1))
        trust = (trust + trust.mT) / 2 * total / (total + 1)
        other = ~torch.eye(total.shape[-1], dtype=torch.bool, device=total.device)
        return trust * (other & graph.has[:, :, None] & graph.has[:, None, :])


def _perceptron(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.SiLU()]
    return nn.Sequential(*layers[:-1])


def at_places(values: Tensor, index: Tensor) -> Tensor:
    """Values of places (B, S, D) at other places (B, S, E). -> (B, S, E, D)."""
    flat = index.flatten(1)[..., None].expand(-1, -1, values.shape[-1])
    return values.gather(1, flat).reshape(*index.shape, -1)


def padded_poses(graph: MatchGraph, poses: SE3) -> tuple[Tensor, Tensor]:
    """Poses (N,) as rotations (B, N, 3, 3) and places of centroids (B, N, 3), relative to the middle of the puzzle."""
    each = poses[graph.rows]
    center = each.act(graph.centers)
    return each.rotation, center - _middle(center, graph.has)


def _middle(center: Tensor, has: Tensor) -> Tensor:
    return (center * has[..., None]).sum(1, keepdim=True) / has.sum(1)[:, None, None]


@full_precision
def velocity_to(graph: MatchGraph, arrangement: Arrangement, poses: SE3, tau: Tensor) -> Tensor:
    """The velocity (w, u) of every piece towards an arrangement, in the time that is left. poses (N,) -> (N, 6).

    The arrangement is turned as a whole so that it lies nearest to the present poses, and its middle stays where it is.
    """
    rotation, center = padded_poses(graph, poses)
    wanted = arrangement.center - _middle(arrangement.center, graph.has)
    there = graph.has[..., None]
    cross = (rotation @ arrangement.rotation.mT * there[..., None]).sum(1)
    cross = cross + ((center * there)[..., :, None] * wanted[..., None, :]).sum(1)
    turn = so3.nearest(cross.double()).to(cross.dtype)[:, None]
    twist = so3.log(turn @ arrangement.rotation @ rotation.mT)
    shift = (turn @ wanted[..., None]).squeeze(-1) - center
    left = (1 - tau).clamp(min=MIN_TIME_LEFT)[:, None, None]
    return (torch.cat([twist, shift], dim=-1) / left)[graph.has]
