"""Trees, bushes and hedges. Light goes into leaves before it comes back."""

from __future__ import annotations

import math

from eda.data.rooms.chance import Rng
from eda.data.streets.bodies import Body, box, cylinder, ellipsoid

_LEAF = 0.45  # reflectance


def tree(rng: Rng) -> list[Body]:
    """A trunk, and a crown of one to four balls."""
    size = rng.uniform(0.5, 1.3)
    trunk, crown = size * rng.uniform(2.0, 4.0), size * rng.uniform(1.4, 3.0)
    bottom = [cylinder(0, 0, size * rng.uniform(0.1, 0.3), -1.0, trunk + 0.6 * crown, 0.3)]
    if rng.random() < 0.15:  # a fir, which has its branches low
        return [*bottom, ellipsoid((0, 0, trunk + crown), (crown, crown, trunk + 0.8 * crown), _LEAF, 0.8)]
    for _ in range(rng.integers(1, 5)):
        x, y, z = rng.normal(0, 0.35 * crown, 3)
        half = crown * rng.uniform(0.6, 1.1, 3)
        middle = (float(x), float(y), float(max(trunk + crown + z, trunk * 0.7 + half[2])))
        bottom.append(ellipsoid(middle, tuple(half), _LEAF, rng.uniform(0.5, 2.5)))
    return bottom


def bush(rng: Rng) -> list[Body]:
    """One to three balls of leaves."""
    made = []
    for _ in range(rng.integers(1, 4)):
        half = rng.uniform((0.4, 0.4, 0.4), (1.6, 1.6, 1.5))
        x, y = rng.normal(0, 0.6, 2)
        made.append(ellipsoid((float(x), float(y), 0.6 * half[2]), tuple(half), _LEAF, rng.uniform(0.2, 0.9)))
    return made


def hedge(rng: Rng, length: float) -> list[Body]:
    """Along x from the origin, in pieces of uneven height and thickness."""
    tall, thick, made = rng.uniform(0.7, 2.2), rng.uniform(0.25, 0.6), []
    count = max(math.ceil(length / 2.5), 1)
    for i in range(count):
        x0, x1, high, wide = i * length / count, (i + 1) * length / count, *(rng.normal(1, 0.08, 2) * (tall, thick))
        made.append(box((x0, -abs(wide), -0.5), (x1, abs(wide), high), _LEAF, 0.3))
    return made
