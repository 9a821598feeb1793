"""How two pieces that meet along a break touch at some relative poses, as numbers: what faces what, what lies inside.

Asked of the network's places, all pairs of pieces and all poses at once, in torch.
`assembly/contact/fracture_contact.py` asks the same of dense points, one pair at a time, and of several neighbours of
each point: that tells a wall from its far side, for which places are too far apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from eda.lie import SE3
from eda.registration.soft_correspondences import SAME_PLACE, SoftCorrespondences

NUM_FEATURES = 12  # that `contact_features` gives
FACING = 0.6  # the cosine of normals from which places face each other, or look to the same side
CLOSE = 0.6  # in units of how near is near: in close contact
DEEP = 0.5  # in units of the places' reach: inside the other piece
TEMPERATURE = 4.0  # by which logs of weights are divided, so that single places do not decide
MIN_LOG_WEIGHT = -16.0  # the log of a weight that is as good as none
MIN_SHARE = 1e-3  # the floor under logarithms


@dataclass(frozen=True)
class _Contacts:
    """Every place of both pieces (R, K, 2m) and the nearest place of the other piece."""

    distance: Tensor  # between the two; infinite where there is no place
    cosine: Tensor  # between their normals
    height: Tensor  # of the place over the other's plane
    shared: Tensor  # how likely the place has a counterpart
    nearest_shared: Tensor  # and the nearest one
    log_weight: Tensor  # of the correspondence of the two
    count: Tensor  # (R, 1) how many places there are


def contact_features(matches: SoftCorrespondences, pair: Tensor, T_second_first: SE3) -> Tensor:
    """(R, K, 12) of the pairs (R,) at relative poses (R, K).

    The logs of the shares of places that are near the other piece, that face it there, do so closely, look to the same
    side, lie inside it, face it though they have no counterpart, face it as both have one, and face what they
    correspond to; the share of places with a counterpart that face the other; of those that face it, the mean height
    over its plane and the mean log weight; and how opposed the normals of all that is near are.
    """
    contacts, reach = _contacts(matches, pair, T_second_first), matches.reach
    dtype = contacts.distance.dtype
    near, close = ((contacts.distance < by * 2 * SAME_PLACE * reach).to(dtype) for by in (1.0, CLOSE))
    faces = near * (contacts.cosine < -FACING)
    inside = (contacts.height < -DEEP * reach) & (contacts.distance < 3 * reach)
    shares = [
        near,
        faces,
        close * faces,
        near * (contacts.cosine > FACING),
        inside.to(dtype),
        faces * (1 - contacts.shared),
        faces * contacts.shared * contacts.nearest_shared,
        faces * (contacts.log_weight / TEMPERATURE).exp(),
    ]
    others = [
        (faces * contacts.shared).sum(-1) / (contacts.shared.sum(-1) + MIN_SHARE),
        _mean(contacts.height.abs() / reach, faces),
        _mean(contacts.log_weight / TEMPERATURE, faces),
        -_mean(contacts.cosine, near),
    ]
    return torch.stack([*(_log_share(some, contacts) for some in shares), *others], dim=-1)


def _log_share(some: Tensor, contacts: _Contacts) -> Tensor:
    """The log of a sum over places, as a share of all."""
    return torch.log(some.sum(-1) / contacts.count + MIN_SHARE)


def _mean(values: Tensor, weights: Tensor) -> Tensor:
    """The weighted mean over places; zero where there are none."""
    return (weights * values).sum(-1) / weights.sum(-1).clamp(min=1)


class _Side(NamedTuple):
    """The places of one piece of every pair, in the frame of the second piece."""

    points: Tensor  # (R, K, m, 3)
    normals: Tensor  # (R, K, m, 3)
    present: Tensor  # (R, m)
    shared: Tensor  # (R, m)


def _contacts(matches: SoftCorrespondences, pair: Tensor, motion: SE3) -> _Contacts:
    """Where the motions (R, K) bring the first piece of every pair to the second. Without normals, all are zero."""
    still = SE3.identity(*motion.shape, dtype=motion.rotation.dtype, device=motion.rotation.device)
    source, target = _move(matches, matches.first[pair], motion), _move(matches, matches.second[pair], still)
    both = source.present[:, None, :, None] & target.present[:, None, None, :]
    distance = torch.cdist(source.points, target.points).masked_fill(~both, torch.inf)
    sides = [
        _nearest(distance, source, target, matches.weights, pair),
        _nearest(distance.mT, target, source, matches.weights.mT, pair),
    ]
    distance, cosine, height, shared, others, weight = (torch.cat(of, dim=-1) for of in zip(*sides, strict=True))
    count = torch.cat([source.present, target.present], dim=-1).sum(-1, keepdim=True)
    return _Contacts(distance, cosine, height, shared, others, weight, count)


def _move(matches: SoftCorrespondences, piece: Tensor, motion: SE3) -> _Side:
    """The places of pieces (R,), moved by (R, K)."""
    normals = torch.zeros_like(matches.places) if matches.normals is None else matches.normals
    points = matches.places[piece][:, None] @ motion.rotation.mT + motion.translation[..., None, :]
    turned = normals[piece][:, None] @ motion.rotation.mT
    return _Side(points, turned, matches.present[piece], matches.shared[piece])


def _nearest(distance: Tensor, own: _Side, other: _Side, weights: Tensor, pair: Tensor) -> tuple[Tensor, ...]:
    """Every place (R, K, m) of one side and the nearest of the other: the columns of `_Contacts`."""
    least, row = distance.min(-1)
    rows = row[..., None].expand_as(own.points)
    normals = other.normals.gather(-2, rows)
    height = ((own.points - other.points.gather(-2, rows)) * normals).sum(-1)
    weight = weights[pair[:, None, None], torch.arange(row.shape[-1], device=row.device), row]
    shared, others = (side.shared[:, None].expand(-1, least.shape[1], -1) for side in (own, other))
    cosine = (own.normals * normals).sum(-1)
    return least, cosine, height, shared, others.gather(-1, row), weight.log().clamp(min=MIN_LOG_WEIGHT)
