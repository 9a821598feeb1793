"""What speaks for a motion by which two pieces may fit: invariants that a network can weigh.

In: what is known of a puzzle, pairs of its pieces and motions (R, K) of these. Out: some numbers for each, the same
whichever piece comes first.

Scans lie on each other where they fit, and normals may have any sign: `Overlaps`. Sherds do not: they face each other
along their breaks, nothing of one is inside the other, and the outer surface goes on where they meet: `Contacts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from eda.lie import SE3
from eda.nn.matching import SAME, Matches
from eda.nn.surfaces import AGREEMENT, SPREAD, USUAL, Surface, agreement

SUPPORT, CONTACT = 3, 12  # numbers that say how matches support a motion, and how places touch
FACING = 0.6  # the cosine of normals from which places face each other, or look to the same side
CLOSE = 0.6  # in units of how near is near: in close contact
DEEP = 0.5  # in units of the reach of the places' level: inside the other piece
SURE = 4.0  # nats by which the likelihood of touching places is divided, so that single ones do not decide
UNLIKELY = -16.0  # the log of a weight that is as good as none
LEAST_SHARE = 1e-3
TINY = 1e-6


class Known(Protocol):
    """What is known of a puzzle, by which any motion of two of its pieces may be judged."""

    @property
    def matches(self) -> Matches:
        """Which places of its pieces go together."""

    def evidence(self, pair: Tensor, motion: SE3) -> Tensor:
        """Of motions (R, K) of the pairs (R,). -> (R, K, evidence_width)."""


@dataclass(frozen=True)
class Overlaps:
    """Of scans: the surfaces of all pieces. What was matched is not asked again: places of rooms that were learned
    from are matched so much more surely that a judge would trust matches too much.
    """

    matches: Matches
    surfaces: tuple[Surface, ...]

    def of_pair(self, pair: int) -> tuple[Surface, Surface]:
        """The surfaces of its first and second piece."""
        return self.surfaces[int(self.matches.first[pair])], self.surfaces[int(self.matches.second[pair])]

    def evidence(self, pair: Tensor, motion: SE3) -> Tensor:
        """Of motions (R, K) of the pairs (R,). -> (R, K, 12)."""
        found = motion.translation.new_zeros(*motion.shape, AGREEMENT)
        for one in pair.unique().tolist():
            rows = (pair == one).nonzero().squeeze(1)
            numbers = agreement(*self.of_pair(one), motion[rows].reshape(-1).to(torch.float64))
            found[rows] = numbers.reshape(len(rows), -1, AGREEMENT).to(found.dtype)
        return (found - found.new_tensor(USUAL)) / found.new_tensor(SPREAD)


@dataclass(frozen=True)
class Contacts:
    """Of sherds: their matches, the surest of every pair of pieces, and what is known of the best motions."""

    matches: Matches
    weight: Tensor  # (Q, C) how sure the surest are
    here: Tensor  # (Q, C, 3) their places on the first piece of a pair
    there: Tensor  # (Q, C, 3) and on the second
    radius: float  # within which a motion has to bring them together
    best: Tensor  # (Q,) by how much the best motion of a pair is supported

    def evidence(self, pair: Tensor, motion: SE3) -> Tensor:
        """Of motions (R, K) of the pairs (R,). -> (R, K, 15)."""
        return torch.cat([self._supported(pair, motion), contact(self.matches, pair, motion)], dim=-1)

    def _supported(self, pair: Tensor, motion: SE3) -> Tensor:
        """(R, K, 3): the log of how many matches agree with a motion, which share, and how far behind the best."""
        apart = left_apart(motion, self.here[pair], self.there[pair])
        support = (self.weight[pair][:, None] * bell(apart, self.radius)).sum(-1)
        logs, total = torch.log(support + TINY), self.weight[pair].sum(-1)[:, None]
        return torch.stack([logs, support / (total + TINY), logs - torch.log(self.best[pair] + TINY)[:, None]], dim=-1)


def evidence_width(mates: bool) -> int:
    """How many numbers `Contacts` of mates give, or `Overlaps`."""
    return SUPPORT + CONTACT if mates else AGREEMENT


def left_apart(motion: SE3, here: Tensor, there: Tensor) -> Tensor:
    """(R, K, C) squared distances that motions (R, K) leave between points (R, C, 3)."""
    moved = here[:, None] @ motion.rotation.mT + motion.translation[..., None, :]
    return (moved - there[:, None]).square().sum(-1)


def bell(squared_distance: Tensor, radius: float) -> Tensor:
    """One at no distance, less and less beyond the radius."""
    return torch.exp(-squared_distance / (2 * radius**2))


# -- how places come to touch ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Met:
    """Every place of both pieces (R, K, 2m) and the nearest of the other piece."""

    gap: Tensor  # how far that is; infinite where there is no place
    facing: Tensor  # the cosine of their normals
    height: Tensor  # of the place over the other's plane
    shared: Tensor  # how likely the place is shared
    shared_there: Tensor  # and the other one
    likely: Tensor  # the log of how surely the two are the same
    count: Tensor  # (R, 1) how many places there are


def contact(matches: Matches, pair: Tensor, motion: SE3) -> Tensor:
    """(R, K, 12): the logs of the shares of places that come near the other piece, that face it there, do so closely,
    look to the same side, come to lie inside it, face it though they are not shared, face it as both are shared, and
    face what they match; the share of shared places that are met; of those that face the other, how far they are from
    its plane and how likely they match; and how opposed the normals of all that is near are.
    """
    met, reach = _met(matches, pair, motion), matches.reach
    dtype = met.gap.dtype
    near, close = ((met.gap < by * 2 * SAME * reach).to(dtype) for by in (1.0, CLOSE))
    faces = near * (met.facing < -FACING)
    inside = (met.height < -DEEP * reach) & (met.gap < 3 * reach)
    shares = [
        near,
        faces,
        close * faces,
        near * (met.facing > FACING),
        inside.to(dtype),
        faces * (1 - met.shared),
        faces * met.shared * met.shared_there,
        faces * (met.likely / SURE).exp(),
    ]
    others = [
        (faces * met.shared).sum(-1) / (met.shared.sum(-1) + LEAST_SHARE),
        _mean(met.height.abs() / reach, faces),
        _mean(met.likely / SURE, faces),
        -_mean(met.facing, near),
    ]
    return torch.stack([*(_share(some, met) for some in shares), *others], dim=-1)


def _share(some: Tensor, met: _Met) -> Tensor:
    """The log of a sum over places, as a share of all."""
    return torch.log(some.sum(-1) / met.count + LEAST_SHARE)


def _mean(values: Tensor, some: Tensor) -> Tensor:
    """Over some places; zero where there are none."""
    return (some * values).sum(-1) / some.sum(-1).clamp(min=1)


class _Side(NamedTuple):
    """The places of the pieces of every pair, where motions bring them."""

    points: Tensor  # (R, K, m, 3)
    normals: Tensor  # (R, K, m, 3)
    present: Tensor  # (R, m)
    shared: Tensor  # (R, m)


def _met(matches: Matches, pair: Tensor, motion: SE3) -> _Met:
    """Where the motions (R, K) bring the first piece of every pair to the second. Without normals, all are zero."""
    still = SE3.identity(*motion.shape, dtype=motion.rotation.dtype, device=motion.rotation.device)
    here, there = _moved(matches, matches.first[pair], motion), _moved(matches, matches.second[pair], still)
    both = here.present[:, None, :, None] & there.present[:, None, None, :]
    distance = torch.cdist(here.points, there.points).masked_fill(~both, torch.inf)
    sides = [
        _nearest(distance, here, there, matches.weights, pair),
        _nearest(distance.mT, there, here, matches.weights.mT, pair),
    ]
    gap, facing, height, shared, shared_there, likely = (torch.cat(of, dim=-1) for of in zip(*sides, strict=True))
    count = torch.cat([here.present, there.present], dim=-1).sum(-1, keepdim=True)
    return _Met(gap, facing, height, shared, shared_there, likely, count)


def _moved(matches: Matches, piece: Tensor, motion: SE3) -> _Side:
    """The places of pieces (R,), moved by (R, K)."""
    normals = torch.zeros_like(matches.places) if matches.normals is None else matches.normals
    points = matches.places[piece][:, None] @ motion.rotation.mT + motion.translation[..., None, :]
    turned = normals[piece][:, None] @ motion.rotation.mT
    return _Side(points, turned, matches.present[piece], matches.shared[piece])


def _nearest(distance: Tensor, here: _Side, there: _Side, weights: Tensor, pair: Tensor) -> tuple[Tensor, ...]:
    """Every place (R, K, m) of one side and the nearest of the other: the columns of `_Met`."""
    gap, row = distance.min(-1)
    rows = row[..., None].expand_as(here.points)
    facing = there.normals.gather(-2, rows)
    height = ((here.points - there.points.gather(-2, rows)) * facing).sum(-1)
    weight = weights[pair[:, None, None], torch.arange(row.shape[-1], device=row.device), row]
    shared, shared_there = (side.shared[:, None].expand(-1, gap.shape[1], -1) for side in (here, there))
    facing = (here.normals * facing).sum(-1)
    return gap, facing, height, shared, shared_there.gather(-1, row), weight.log().clamp(min=UNLIKELY)
