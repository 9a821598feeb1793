"""Buildings: facades with depth. The front is y = 0, x runs along the road, and y away from it."""

from __future__ import annotations

import itertools

import numpy as np

from eda.data.rooms.chance import Rng
from eda.data.streets.bodies import Body, box

_SUNK = -2.0  # metres: ground slopes
_ROOM = 1.3  # metres in front of the facade that its parts may take


def building(rng: Rng, width: float, depth: float, height: float) -> list[Body]:
    """A house or a hall of strips, some of them further back, with bays, porches, balconies and pilasters."""
    shade = rng.uniform(0.15, 0.6)
    cuts = [0.0, *sorted(rng.uniform(0.2, 0.8, rng.integers(0, 3)) * width), width]
    parts, part_kinds = [], (_bay, _bay, _porch, _canopy, _balcony, _pilasters)
    for start, end in itertools.pairwise(cuts):
        back = rng.choice([0.0, rng.uniform(0.2, 4.0)], p=[0.4, 0.6])
        parts.append(box((start, back, _SUNK), (end, depth, height * rng.uniform(0.8, 1.0)), shade))
        for _ in range(rng.poisson(min((end - start) / 3, 6))):
            kind = part_kinds[rng.integers(len(part_kinds))]
            wide = min(rng.uniform(1.2, 3.5), end - start)
            at = rng.uniform(start, end - wide)
            parts += kind(rng, at, at + wide, back, height, shade)
    return parts


def shed(rng: Rng) -> list[Body]:
    """A garage or a shed."""
    width, depth, height = rng.uniform((2.5, 3, 2), (6.5, 7, 3.2))
    return [box((-width / 2, -depth / 2, _SUNK), (width / 2, depth / 2, height), rng.uniform(0.15, 0.6))]


def _bay(rng: Rng, x0: float, x1: float, y: float, height: float, shade: float) -> list[Body]:
    top = rng.choice([rng.uniform(2.6, 3.2), height * rng.uniform(0.7, 1)])
    return [box((x0, y - rng.uniform(0.3, _ROOM), _SUNK), (x1, y, top), shade)]


def _porch(rng: Rng, x0: float, x1: float, y: float, height: float, shade: float) -> list[Body]:
    steps, roof = rng.uniform(0.15, 0.9), rng.uniform(2.3, 2.8)
    front = y - rng.uniform(0.6, _ROOM)
    posts = [box((x, front, 0), (x + 0.15, front + 0.15, roof), shade) for x in (x0, x1 - 0.15)]
    return [box((x0, front, _SUNK), (x1, y, steps), shade), box((x0, front, roof), (x1, y, roof + 0.25), shade), *posts]


def _canopy(rng: Rng, x0: float, x1: float, y: float, height: float, shade: float) -> list[Body]:
    low = rng.uniform(2.3, 3.0)
    return [box((x0, y - rng.uniform(0.5, _ROOM), low), (x1, y, low + 0.2), shade)]


def _balcony(rng: Rng, x0: float, x1: float, y: float, height: float, shade: float) -> list[Body]:
    front = y - rng.uniform(0.6, _ROOM)
    floors = np.arange(2.7, max(height - 1.5, 2.8), 2.9)
    return [box((x0, front, z), (x1, y, z + 1.1), shade, 0.3) for z in floors]


def _pilasters(rng: Rng, x0: float, x1: float, y: float, height: float, shade: float) -> list[Body]:
    out, wide = rng.uniform(0.1, 0.4), rng.uniform(0.2, 0.5)
    return [box((x, y - out, _SUNK), (x + wide, y, 0.9 * height), shade) for x in np.arange(x0, x1, 1.2)]
