"""Rigid motions by which two pieces may fit, from the places that they seem to share (ours).

In: a `Matching`. Out: `Motions`, a few for every pair of pieces, with what speaks for each; found once per puzzle.

Many matches are wrong, so no single fit to all of them would be right. Each of the surest proposes the motion that fits
the matches around it, then those that agree with it wherever they are. Nothing here is learned: no gradient passes.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from eda.lie import SE3, so3
from eda.nn.evidence import contact, support_of
from eda.nn.matching import Matching

MATCHES = 512  # pairs of places that are looked at: the surest
SEEDS = 128  # of these, each of which proposes a motion
MOTIONS = 32  # of those proposed that are kept: the best supported that differ
# In units of the reach of the places' level:
WINDOW = 1.4  # matches this near a seed, in both pieces, decide what it proposes
RADII = (1.0, 0.6, 0.6, 0.6)  # then, again and again, matches that it leaves apart by more lose their say
LEAST_SPREAD = 0.05  # of matches that decide a motion
SAME_TURN = 0.985  # the cosine, of 10 degrees, from which turns are the same


@dataclass(frozen=True)
class Motions:
    """K motions of every pair of pieces, and what speaks for each."""

    first: Tensor  # (Q,) a piece
    second: Tensor  # (Q,) a later one of the same puzzle
    motion: SE3  # (Q, K) from the own frame of the first to that of the second
    holds: Tensor  # (Q, K) which of these are motions at all: well-posed fits, unlike all better ones
    evidence: Tensor  # (Q, K, EVIDENCE) invariants
    centers: Tensor  # (N, 3) of all pieces, in their own frames

    @staticmethod
    def cat(batch: list[Motions]) -> Motions:
        """Several batches as one."""
        pieces = [0, *itertools.accumulate(len(motions.centers) for motions in batch)]
        return Motions(
            first=torch.cat([motions.first + start for motions, start in zip(batch, pieces, strict=False)]),
            second=torch.cat([motions.second + start for motions, start in zip(batch, pieces, strict=False)]),
            motion=SE3.cat([motions.motion for motions in batch]),
            holds=torch.cat([motions.holds for motions in batch]),
            evidence=torch.cat([motions.evidence for motions in batch]),
            centers=torch.cat([motions.centers for motions in batch]),
        )


@torch.no_grad()
def propose(matching: Matching, centers: Tensor) -> Motions:
    """The motions of every pair of pieces, whose centres are at (N, 3). Fits are made in float64."""
    weights, places = matching.weights().double(), matching.places.double()
    width = weights.shape[-1]
    weight, index = weights.flatten(1).topk(min(MATCHES, width**2))
    here = places[matching.first].gather(1, (index // width)[..., None].expand(-1, -1, 3))
    there = places[matching.second].gather(1, (index % width)[..., None].expand(-1, -1, 3))
    apart = [torch.cdist(side[:, :SEEDS], side).square() for side in (here, there)]
    agreeing = weight[:, None] * _bell(apart[0] + apart[1], WINDOW * matching.reach)
    holds = weight[:, :SEEDS] > 0  # padding is no match
    for radius in RADII:
        motion, spread = fitted(agreeing, here, there)
        holds = holds & (spread > (LEAST_SPREAD * matching.reach) ** 2)
        agreeing = weight[:, None] * _bell(_left_apart(motion, here, there), radius * matching.reach)
    support = agreeing.sum(-1).masked_fill(~holds, 0)
    holds = holds & ~_beaten(motion, support, [centers[pieces].double() for pieces in matching.pairs], matching.reach)
    rows = torch.where(holds, support, support - support.amax(1, keepdim=True) - 1).topk(MOTIONS).indices
    motion = SE3(_chosen(motion.rotation, rows), _chosen(motion.translation, rows)).to(matching.places.dtype)
    evidence = torch.cat([support_of(_chosen(support, rows), weight.sum(-1)), contact(matching, motion)], dim=-1)
    evidence = evidence.to(matching.places.dtype)
    return Motions(matching.first, matching.second, motion, _chosen(holds, rows), evidence, centers)


def _chosen(values: Tensor, rows: Tensor) -> Tensor:
    """Some rows (Q, K') of values (Q, K, ...)."""
    return values[torch.arange(len(rows), device=rows.device)[:, None], rows]


def fitted(weight: Tensor, here: Tensor, there: Tensor) -> tuple[SE3, Tensor]:
    """The motions (Q, K) that bring points `here` (Q, C, 3) nearest to `there`, by weights (Q, K, C).

    Also by how much the points spread in the second of their directions, squared: a turn about the first is not
    decided by points on a line.
    """
    weight = weight / weight.sum(-1, keepdim=True).clamp(min=1e-30)
    middle, goal = weight @ here, weight @ there
    products = (there[..., :, None] * here[..., None, :]).flatten(-2)  # once, and not for every motion
    spread = (weight @ products).unflatten(-1, (3, 3)) - goal[..., :, None] * middle[..., None, :]
    rotation = so3.nearest(spread)
    motion = SE3(rotation, goal - (rotation @ middle[..., None]).squeeze(-1))
    return motion, torch.linalg.svdvals(spread)[..., 1]


def _left_apart(motion: SE3, here: Tensor, there: Tensor) -> Tensor:
    """(Q, K, C) squared distances that motions (Q, K) leave between points (Q, C, 3)."""
    moved = here[:, None] @ motion.rotation.mT + motion.translation[..., None, :]
    return (moved - there[:, None]).square().sum(-1)


def _bell(squared_distance: Tensor, radius: float) -> Tensor:
    return torch.exp(-squared_distance / (2 * radius**2))


def _beaten(motion: SE3, support: Tensor, centers: list[Tensor], reach: float) -> Tensor:
    """(Q, K) which motions have a better-supported one beside them: that turns alike, and brings the centres of the
    two pieces (Q, 3) to the same places. Of equals, the first is better.
    """
    flat = motion.rotation.flatten(-2)
    beside = (flat @ flat.mT - 1) / 2 > SAME_TURN  # the cosine of the angle between two of them
    for way, center in ((motion, centers[0]), (motion.inverse(), centers[1])):
        brought = way.act(center[:, None])
        beside = beside & (torch.cdist(brought, brought) < reach)
    order = torch.arange(support.shape[1], device=support.device)
    equal = support[:, None, :] == support[..., None]
    better = (support[:, None, :] > support[..., None]) | (equal & (order[None, :] < order[:, None]))
    return (beside & better).any(-1)
