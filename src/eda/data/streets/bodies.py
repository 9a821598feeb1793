"""Bodies, of which everything in a street is made that is not ground: upright boxes, cylinders and ellipsoids.

In: things as tuples of `Body`, which stand on z = 0 about the origin. Out: `Bodies`, all of a street as arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

BOX, CYLINDER, ELLIPSOID = 0, 1, 2


class Body(NamedTuple):
    """An upright form: of the box, cylinder or ellipsoid that fills a cuboid of these half sides."""

    form: int
    middle: tuple[float, float, float]
    half: tuple[float, float, float]
    yaw: float = 0.0
    reflectance: float = 0.3  # share of light that comes back, at a right angle
    depth: float = 0.0  # metres that light goes into it on average, for foliage; 0: none


class Bodies(NamedTuple):
    """N bodies."""

    form: np.ndarray  # (N,) int
    middle: np.ndarray  # (N, 3)
    half: np.ndarray  # (N, 3)
    yaw: np.ndarray  # (N,)
    reflectance: np.ndarray  # (N,)
    depth: np.ndarray  # (N,)

    @staticmethod
    def of(bodies: Iterable[Body]) -> Bodies:
        """A list as arrays."""
        rows = [(b.form, *b.middle, *b.half, b.yaw, b.reflectance, b.depth) for b in bodies]
        table = np.array(rows, dtype=np.float64).reshape(-1, 10)
        form = table[:, 0].astype(np.int64)
        return Bodies(form, table[:, 1:4], table[:, 4:7], table[:, 7], table[:, 8], table[:, 9])

    def rows(self, chosen: np.ndarray) -> Bodies:
        """Some of them."""
        return Bodies(*(array[chosen] for array in self))

    def concatenate(self, other: Bodies) -> Bodies:
        """These, then the others."""
        return Bodies(*(np.concatenate(arrays) for arrays in zip(self, other, strict=True)))


def box(low: Sequence[float], high: Sequence[float], reflectance: float = 0.3, depth: float = 0.0) -> Body:
    """A cuboid between two corners."""
    return _filling(BOX, low, high, reflectance, depth)


def cylinder(x: float, y: float, radius: float, low: float, high: float, reflectance: float = 0.3) -> Body:
    """A round pillar."""
    return _filling(CYLINDER, (x - radius, y - radius, low), (x + radius, y + radius, high), reflectance, 0.0)


def ellipsoid(
    middle: tuple[float, float, float], half: tuple[float, float, float], reflectance: float = 0.3, depth: float = 0.0
) -> Body:
    """An ellipsoid with these half axes."""
    return Body(ELLIPSOID, middle, half, 0.0, reflectance, depth)


def _filling(form: int, low: Sequence[float], high: Sequence[float], reflectance: float, depth: float) -> Body:
    (x0, y0, z0), (x1, y1, z1) = low, high
    middle, half = ((x0 + x1) / 2, (y0 + y1) / 2, (z0 + z1) / 2), ((x1 - x0) / 2, (y1 - y0) / 2, (z1 - z0) / 2)
    return Body(form, middle, half, 0.0, reflectance, depth)


def move_bodies(bodies: Iterable[Body], place: tuple[float, float, float], yaw: float) -> list[Body]:
    """Turned about the vertical axis, then shifted."""
    c, s = math.cos(yaw), math.sin(yaw)
    moved = []
    for body in bodies:
        x, y, z = body.middle
        middle = (place[0] + c * x - s * y, place[1] + s * x + c * y, place[2] + z)
        moved.append(body._replace(middle=middle, yaw=body.yaw + yaw))
    return moved
