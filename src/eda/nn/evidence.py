"""What speaks for a motion by which two pieces may fit: invariants that a network can weigh.

In: a `Matching` and motions (Q, K). Out: `EVIDENCE` numbers for each, the same whichever piece comes first.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eda.lie import SE3
from eda.nn.matching import SAME, Matching

EVIDENCE = 8  # numbers: three of the matches, five of the surfaces
ALIKE = 0.9  # the cosine of normals from which surfaces agree


def support_of(support: Tensor, total: Tensor) -> Tensor:
    """(Q, K, 3): the log of how many matches agree with a motion, which share of all, and how far behind the best."""
    tiny = 1e-6
    logs = torch.log(support + tiny)
    return torch.stack([logs, support / (total[:, None] + tiny), logs - logs.amax(1, keepdim=True)], dim=-1)


def contact(matching: Matching, motion: SE3) -> Tensor:
    """(Q, K, 5): the logs of the share of places that come to lie on the other piece, and on a surface that agrees; of
    the former, how parallel the normals are, which share agrees, and how far they are from the other's plane.
    """
    (here, here_normals), (there, there_normals) = _moved(matching, motion)
    distance = torch.cdist(here, there).masked_fill(~matching.both[:, None], torch.inf)
    sides = [
        _nearest(distance, here, there, here_normals, there_normals),
        _nearest(distance.mT, there, here, there_normals, here_normals),
    ]
    gap, parallel, plane = (torch.cat(both, dim=-1) for both in zip(*sides, strict=True))
    near = (gap < 2 * SAME * matching.reach).to(here.dtype)
    agree = (parallel > ALIKE).to(here.dtype)
    count = torch.cat([matching.present[pieces] for pieces in matching.pairs], dim=-1).sum(-1)[:, None]
    shares = [torch.log(some.sum(-1) / count + 1e-3) for some in (near, near * agree)]
    means = [(near * of).sum(-1) / near.sum(-1).clamp(min=1) for of in (parallel, agree, plane / matching.reach)]
    return torch.stack([*shares, *means], dim=-1)


_Surface = tuple[Tensor, Tensor]  # places and normals, (Q, K, m, 3) each


def _moved(matching: Matching, motion: SE3) -> tuple[_Surface, _Surface]:
    """The first pieces, brought to the second ones by the motions (Q, K), and these. Without normals, all are zero."""
    normals = torch.zeros_like(matching.places) if matching.normals is None else matching.normals
    here, there, here_normals, there_normals = (
        of[pieces][:, None] for of in (matching.places, normals) for pieces in matching.pairs
    )
    here = here @ motion.rotation.mT + motion.translation[..., None, :]
    here_normals = here_normals @ motion.rotation.mT
    return (here, here_normals), (there.expand_as(here), there_normals.expand_as(here))


def _nearest(
    distance: Tensor, places: Tensor, others: Tensor, normals: Tensor, others_normals: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Of every place and the nearest of the others: how far that is, how parallel their normals are, of whatever sign,
    and how far the place is from the other's plane. -> (Q, K, m) each.
    """
    gap, row = distance.min(-1)
    row = row[..., None].expand_as(places)
    facing = others_normals.gather(-2, row)
    plane = ((places - others.gather(-2, row)) * facing).sum(-1)
    return gap, (normals * facing).sum(-1).abs(), plane.abs()
