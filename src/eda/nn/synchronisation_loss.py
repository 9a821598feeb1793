"""What teaches a synchronising field: its arrangement, what places follow, and how far pairs are trusted.

In: an `Arrangement` of one round and the solution. Out: a loss of three parts. All of them depend on relative poses
alone, so the frame of the whole means nothing.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from eda.lie import SE3
from eda.nn.match_graph import MatchGraph
from eda.nn.synchronising_field import Arrangement, Attention, at_places, padded_poses
from eda.registration.soft_correspondences import SAME_PLACE

EVIDENCE_WEIGHT = 0.5  # of what leads to an arrangement, relative to the arrangement
CORRECT_ANGLE = math.radians(15)  # by which the fit of a pair may be off and yet be right
NOBODY = 0.3  # the density of a place that follows nobody, relative to that at a place that it follows


def synchronisation_loss(
    graph: MatchGraph, arrangement: Arrangement, solution: SE3, own: Tensor | None = None
) -> Tensor:
    """How far a round misses the solution (N,). Pieces that are not the puzzle's `own` (N,) have no place."""
    evidence = attention_loss(graph, arrangement.attention, solution, own)
    evidence = evidence + trust_loss(graph, arrangement, solution, own)
    return arrangement_loss(graph, arrangement, solution, own) + EVIDENCE_WEIGHT * evidence


def arrangement_loss(graph: MatchGraph, arrangement: Arrangement, solution: SE3, own: Tensor | None = None) -> Tensor:
    """How far an arrangement is from the solution (N,), pair by pair: a mean over pairs, then over puzzles.

    Relative rotations and relative places in the frame of one piece, which do not depend on where the whole lies.
    Pieces that are not the puzzle's `own` (N,) do not count.
    """
    rotation, center = padded_poses(graph, solution)
    has = graph.has if own is None else graph.has & own[graph.rows]
    both = (has[:, :, None] & has[:, None, :]).to(center.dtype)

    def relative(rotation: Tensor, center: Tensor) -> tuple[Tensor, Tensor]:
        inverse = rotation.mT[:, :, None]
        offset = center[:, None, :] - center[:, :, None]
        return inverse @ rotation[:, None], (inverse @ offset[..., None]).squeeze(-1)

    found, true = relative(arrangement.rotation, arrangement.center), relative(rotation, center)
    turned = (found[0] - true[0]).square().sum((-1, -2))
    moved = (found[1] - true[1]).square().sum(-1).clamp(max=16.0)  # one piece far away does not outweigh all others
    return (((turned + moved) * both).sum((1, 2)) / both.sum((1, 2)).clamp(min=1)).mean()


def attention_loss(graph: MatchGraph, attention: Attention, solution: SE3, own: Tensor | None = None) -> Tensor:
    """How unlikely it is, by the places that a place follows, that it lies where the solution (N,) brings it.

    The logarithm of a mixture of normal densities about those places, and a flat one for nobody: a mean over places.
    """
    rotation, center = padded_poses(graph, solution)
    turn = graph.of_places(rotation)
    points = (turn @ (graph.points - graph.of_places(graph.centers))[..., None]).squeeze(-1) + graph.of_places(center)
    square = (at_places(points, attention.to) - points[:, :, None]).square().sum(-1)
    near = torch.exp(-square / (2 * (SAME_PLACE * graph.reach / 2) ** 2))
    if own is not None:
        belongs = graph.of_places(own[graph.rows] & graph.has)
        near = near * (at_places(belongs[..., None], attention.to).squeeze(-1) & belongs[..., None])
    likelihood = (attention.weight * near).sum(-1) + NOBODY * (1 - attention.weight.sum(-1)).clamp(min=0)
    return -(likelihood.clamp(min=1e-4).log() * graph.present).sum() / graph.present.sum()


def trust_loss(graph: MatchGraph, arrangement: Arrangement, solution: SE3, own: Tensor | None = None) -> Tensor:
    """How badly pairs are trusted whose fits the solution (N,) says are right or wrong: a cross-entropy in nats.

    Right and wrong ones count alike, however many there are.
    """
    rotation, _ = padded_poses(graph, solution)
    true = rotation.mT[:, None] @ rotation[:, :, None]
    with torch.no_grad():
        apart = (arrangement.relative - true).square().sum((-1, -2))  # 8 sin^2 of half the angle
        right = apart < 8 * math.sin(CORRECT_ANGLE / 2) ** 2
    has = graph.has if own is None else graph.has & own[graph.rows]
    right = right & has[:, :, None] & has[:, None, :]
    pairs = graph.has[:, :, None] & graph.has[:, None, :]
    pairs = pairs & ~torch.eye(pairs.shape[-1], dtype=torch.bool, device=pairs.device)
    trust = arrangement.trust.clamp(1e-4, 1 - 1e-4)
    good, bad = right & pairs, ~right & pairs
    of_right = -(trust.log() * good).sum() / good.sum().clamp(min=1)
    of_wrong = -((1 - trust).log() * bad).sum() / bad.sum().clamp(min=1)
    return (of_right + of_wrong) / 2
