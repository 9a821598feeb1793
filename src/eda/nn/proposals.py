"""Rigid motions by which two pieces may fit, from the places that they seem to share (ours).

In: the `Matches` of a puzzle. Out: `Motions`, a few for every pair of pieces, with what speaks for each; found once per
puzzle.

Many matches are wrong, so no single fit to all of them would be right. Each of the surest proposes the motion that fits
the matches around it, then those that agree with it wherever they are. Scans then settle on each other's surfaces.
Nothing here is learned: no gradient passes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eda.lie import SE3, so3
from eda.nn.evidence import Contacts, Known, Overlaps, bell, left_apart
from eda.nn.matching import Matches
from eda.nn.surfaces import AGREES, Surface, settled

# Of two pieces, and of a pair of many; there are so many more pairs then.
MATCHES = (512, 256)  # pairs of places that are looked at: the surest
SEEDS = (128, 32)  # of these, each of which proposes a motion
MOTIONS = (32, 8)  # of those proposed that are kept: the best supported that differ
# In units of the reach of the places' level:
WINDOW = 1.4  # matches this near a seed, in both pieces, decide what it proposes
RADII = (1.0, 0.6, 0.6, 0.6)  # then, again and again, matches that it leaves apart by more lose their say
LEAST_SPREAD = 0.05  # of matches that decide a motion
SAME_TURN = 0.985  # the cosine, of 10 degrees, from which turns are the same


@dataclass(frozen=True)
class Motions:
    """K motions of every pair of pieces of a puzzle."""

    motion: SE3  # (Q, K) from the own frame of the first to that of the second
    holds: Tensor  # (Q, K) which of these are motions at all: well-posed fits, unlike all better ones
    evidence: Tensor  # (Q, K, E) what speaks for each
    known: Known  # by which any other motion may be judged


def budget(of_two_and_many: tuple[int, int], num_pieces: int) -> int:
    """Per pair: the first for a pair alone, less with every further piece, and never less than the second."""
    alone, least = of_two_and_many
    return max(alone // max(num_pieces - 1, 1), least)


@torch.no_grad()
def propose(matches: Matches, centers: Tensor, surfaces: tuple[Surface, ...] | None) -> Motions:
    """The motions of every pair of the puzzle's pieces, whose centres are at (N, 3). Fits are made in float64.

    Scans come with the surfaces of all pieces, on which motions settle; mates without.
    """
    dtype, num_pieces = matches.places.dtype, len(matches.places)
    weight, here, there = _surest(matches, budget(MATCHES, num_pieces))
    motion, support = _around(weight, here, there, budget(SEEDS, num_pieces), matches.reach)
    ends = [centers[pieces].double() for pieces in (matches.first, matches.second)]
    holds = (support > 0) & ~_beaten(motion, support, ends, matches.reach)
    order = torch.where(holds, support, support - support.amax(1, keepdim=True) - 1)
    rows = order.topk(min(budget(MOTIONS, num_pieces), order.shape[1])).indices
    motion, holds = SE3(_chosen(motion.rotation, rows), _chosen(motion.translation, rows)), _chosen(holds, rows)
    pairs = torch.arange(len(rows), device=rows.device)
    if surfaces is None:
        weight, here, there, best = (of.to(dtype) for of in (weight, here, there, support.amax(1)))
        known = Contacts(matches, weight, here, there, RADII[-1] * matches.reach, best)
        return Motions(motion.to(dtype), holds, known.evidence(pairs, motion.to(dtype)), known)
    overlaps = Overlaps(matches, surfaces)
    each = [settled(*overlaps.of_pair(pair), motion[pair]) for pair in range(len(rows))]
    motion = SE3.stack(each) if each else motion  # a piece alone is in no pair
    evidence = overlaps.evidence(pairs, motion.to(dtype))
    agrees = evidence[..., AGREES].masked_fill(~holds, -torch.inf)
    holds = holds & ~_beaten(motion, agrees, ends, matches.reach)  # many settle in the same place
    return Motions(motion.to(dtype), holds, evidence, overlaps)


def _surest(matches: Matches, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of every pair of pieces, its surest matches in float64: how sure (Q, C), and the two places (Q, C, 3)."""
    weights, places = matches.weights.double(), matches.places.double()
    width = weights.shape[-1]
    weight, index = weights.flatten(1).topk(min(count, width**2))
    here = places[matches.first].gather(1, (index // width)[..., None].expand(-1, -1, 3))
    there = places[matches.second].gather(1, (index % width)[..., None].expand(-1, -1, 3))
    return weight, here, there


def _around(weight: Tensor, here: Tensor, there: Tensor, seeds: int, reach: float) -> tuple[SE3, Tensor]:
    """The motions (Q, K) that fit the matches around the first `seeds` ones, and by how much matches support them:
    zero where these do not decide a motion.
    """
    apart = [torch.cdist(side[:, :seeds], side).square() for side in (here, there)]
    agreeing = weight[:, None] * bell(apart[0] + apart[1], WINDOW * reach)
    holds = weight[:, :seeds] > 0  # padding is no match
    for radius in RADII:
        motion, spread = fitted(agreeing, here, there)
        holds = holds & (spread > (LEAST_SPREAD * reach) ** 2)
        agreeing = weight[:, None] * bell(left_apart(motion, here, there), radius * reach)
    return motion, agreeing.sum(-1).masked_fill(~holds, 0)


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
