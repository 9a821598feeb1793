"""Trees, bushes and hedges. Light goes into leaves before it comes back."""

from __future__ import annotations

import math

from eda.data.rooms.chance import Rng
from eda.data.streets.bodies import Body, box, cylinder, ellipsoid

_LEAF = 0.45  # reflectance


def tree(rng: Rng) -> list[Body]:
    """A trunk, and a crown of clumps of leaves between which light passes."""
    size = rng.uniform(0.5, 1.3)
    trunk, crown = size * rng.uniform(1.5, 4.0), size * rng.uniform(1.2, 3.0)
    stem = cylinder(0, 0, size * rng.uniform(0.1, 0.3), -1.0, trunk + 0.6 * crown, 0.3)
    if rng.random() < 0.15:  # a fir, which has its branches low
        return [stem, ellipsoid((0, 0, trunk + crown), (crown, crown, trunk + 0.8 * crown), _LEAF, 0.4)]
    return [stem, *_clumps(rng, int(rng.integers(5, 12)), (0, 0, trunk + crown), (crown, crown, crown))]


def bush(rng: Rng) -> list[Body]:
    """Clumps of leaves on the ground."""
    wide, tall = rng.uniform((0.5, 0.4), (1.6, 1.4))
    return _clumps(rng, int(rng.integers(2, 6)), (0, 0, 0.7 * tall), (wide, wide, tall))


def _clumps(rng: Rng, count: int, middle: tuple[float, float, float], half: tuple[float, float, float]) -> list[Body]:
    """Ellipsoids about in the ellipsoid of these half axes, each about half as large."""
    made = []
    for offset, share in zip(rng.normal(0, 0.42, (count, 3)), rng.uniform(0.3, 0.65, (count, 3)), strict=True):
        x, y, z = (float(m + h * o) for m, h, o in zip(middle, half, offset, strict=True))
        made.append(ellipsoid((x, y, z), tuple(share * half), _LEAF, rng.uniform(0.1, 0.5)))
    return made


def hedge(rng: Rng, length: float) -> list[Body]:
    """Along x from the origin, in pieces of uneven height and thickness."""
    tall, thick, made = rng.uniform(0.7, 2.2), rng.uniform(0.25, 0.6), []
    count = max(math.ceil(length / 2.5), 1)
    for i in range(count):
        x0, x1, high, wide = i * length / count, (i + 1) * length / count, *(rng.normal(1, 0.08, 2) * (tall, thick))
        made.append(box((x0, -abs(wide), -0.5), (x1, abs(wide), high), _LEAF, 0.3))
    return made
