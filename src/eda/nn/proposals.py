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
MOTIONS = 32  # of those proposed that are kept: such as differ, and have the most support
# In units of the reach of the places' level:
WINDOW = 1.4  # matches this near a seed, in both pieces, decide what it proposes
RADII = (1.0, 0.6, 0.6, 0.6)  # then, again and again, matches that it leaves apart by more lose their say
SAME_TURN = 0.985  # the cosine, of 10 degrees, from which turns are the same


@dataclass(frozen=True)
class Motions:
    """K motions of every pair of pieces, and what speaks for each."""

    first: Tensor  # (Q,) a piece
    second: Tensor  # (Q,) a later one of the same puzzle
    motion: SE3  # (Q, K) from the own frame of the first to that of the second
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
    for radius in RADII:
        motion = fitted(agreeing, here, there)
        agreeing = weight[:, None] * _bell(_left_apart(motion, here, there), radius * matching.reach)
    middles = [centers[pieces].double()[:, None] for pieces in matching.pairs]
    brought = [motion.act(middles[0]), motion.inverse().act(middles[1])]  # where each sees the other's centre
    same = [torch.cdist(place, place) < matching.reach for place in brought]
    motion, support = _distinct(motion, agreeing.sum(-1), same[0] & same[1])
    motion = motion.to(matching.places.dtype)
    evidence = torch.cat([support_of(support, weight.sum(-1)), contact(matching, motion)], dim=-1)
    return Motions(matching.first, matching.second, motion, evidence.to(matching.places.dtype), centers)


def fitted(weight: Tensor, here: Tensor, there: Tensor) -> SE3:
    """The motions (Q, K) that bring points `here` (Q, C, 3) nearest to `there`, by weights (Q, K, C)."""
    weight = weight / weight.sum(-1, keepdim=True).clamp(min=1e-30)
    middle, goal = weight @ here, weight @ there
    products = (there[..., :, None] * here[..., None, :]).flatten(-2)  # once, and not for every motion
    spread = (weight @ products).unflatten(-1, (3, 3)) - goal[..., :, None] * middle[..., None, :]
    rotation = so3.nearest(spread)
    return SE3(rotation, goal - (rotation @ middle[..., None]).squeeze(-1))


def _left_apart(motion: SE3, here: Tensor, there: Tensor) -> Tensor:
    """(Q, K, C) squared distances that motions (Q, K) leave between points (Q, C, 3)."""
    moved = here[:, None] @ motion.rotation.mT + motion.translation[..., None, :]
    return (moved - there[:, None]).square().sum(-1)


def _bell(squared_distance: Tensor, radius: float) -> Tensor:
    return torch.exp(-squared_distance / (2 * radius**2))


def _distinct(motion: SE3, support: Tensor, near: Tensor) -> tuple[SE3, Tensor]:
    """The `MOTIONS` with the most support of all (Q, K), those with a better one beside them last.

    Which of them bring the centres of the pieces `near` each other is given, (Q, K, K).
    """
    flat = motion.rotation.flatten(-2)
    cosine = (flat @ flat.mT - 1) / 2  # of the angle between two of them
    better = support[:, None, :] > support[..., None]
    beaten = (near & (cosine > SAME_TURN) & better).any(-1)
    rank = torch.where(beaten, support - support.amax(1, keepdim=True) - 1, support)
    rows = rank.topk(min(MOTIONS, rank.shape[1])).indices
    rotation = motion.rotation.gather(1, rows[..., None, None].expand(-1, -1, 3, 3))
    translation = motion.translation.gather(1, rows[..., None].expand(-1, -1, 3))
    return SE3(rotation, translation), support.gather(1, rows)
