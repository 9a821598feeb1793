"""What a point sees of its features that does not turn with them: inner products within one degree."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from eda.lie.wigner import degree_rows, harmonics


def by_degree(features: Tensor) -> Sequence[Tensor]:
    """(P, M, C) -> (P, 2l + 1, C) for every degree.

    Split once: the gradient of a split is one concatenation, that of a slice a large tensor of zeros.
    """
    degrees = round(features.shape[1] ** 0.5)
    return features.split([2 * l + 1 for l in range(degrees)], dim=1)


def products(degrees: Sequence[Tensor], directions: Tensor, which: range) -> list[Tensor]:
    """<Y^l(direction), F^l> for every channel, at some degrees. (P, 2l + 1, C) each, (P, 3) -> (P, C) each."""
    if not which:
        return []
    spheres = harmonics(directions, which[-1])[..., None]
    return [(spheres[:, degree_rows(l)] * degrees[l]).sum(1) for l in which]


def lengths(degrees: Sequence[Tensor]) -> list[Tensor]:
    """|F^l| for every channel, at the degrees above 0. (P, 2l + 1, C) each -> (P, C) each."""
    # The epsilon keeps the gradient finite where a feature vanishes.
    return [(feature.square().sum(1) + 1e-6).sqrt() for feature in degrees[1:]]


def bounded_offset(offset: Tensor, reach: float) -> Tensor:
    """An offset (P, 3) as a vector shorter than one: its direction, and how long it is in units of `reach`."""
    return offset / ((offset.square().sum(-1, keepdim=True) + 1e-12).sqrt() + reach)


def describe(features: Tensor, offset: Tensor) -> Tensor:
    """A place by its invariants: its features (P, M, C), and how they lie to its offset (P, 3) from the piece's centre.

    -> (P, descriptor_width).
    """
    degrees = by_degree(features)
    toward = products(degrees, bounded_offset(offset, 1.0), range(1, len(degrees)))
    distance = torch.linalg.vector_norm(offset, dim=-1, keepdim=True)
    return torch.cat([degrees[0].squeeze(1), *lengths(degrees), *toward, distance], dim=-1)


def descriptor_width(max_degree: int, channels: int) -> int:
    """The width of what `describe` gives."""
    return (2 * max_degree + 1) * channels + 1
