"""Posts, lamps, signs, fences and walls: what stands beside a road and is neither house, car nor plant."""

from __future__ import annotations

import numpy as np

from eda.data.rooms.chance import Rng, draw_kind
from eda.data.streets.bodies import Body, box, cylinder


def post(rng: Rng) -> list[Body]:
    """A lamp, a sign, a mast, a bollard, a bin, a box or a shelter; the road is towards negative y."""
    kinds = {_lamp: 3.0, _sign: 3.0, _mast: 1.0, _bollards: 0.7, _bin: 1.0, _cabinet: 0.7, _shelter: 0.15}
    return draw_kind(rng, kinds)(rng)


def _lamp(rng: Rng) -> list[Body]:
    tall, arm = rng.uniform(4, 8), rng.uniform(0.3, 2)
    return [cylinder(0, 0, rng.uniform(0.06, 0.12), -0.5, tall), box((-0.1, -arm, tall), (0.1, 0.1, tall + 0.15))]


def _sign(rng: Rng) -> list[Body]:
    low, half, high = rng.uniform(1.8, 2.4), rng.uniform(0.2, 0.5), rng.uniform(0.4, 0.9)
    # A plate faces along the road, and sends back more than anything else.
    return [cylinder(0, 0, 0.04, -0.5, low + high), box((-0.03, -half, low), (0.03, half, low + high), 0.9)]


def _mast(rng: Rng) -> list[Body]:
    return [cylinder(0, 0, rng.uniform(0.1, 0.2), -0.5, rng.uniform(6, 10))]


def _bollards(rng: Rng) -> list[Body]:
    return [cylinder(x, 0, 0.07, -0.5, rng.uniform(0.8, 1.1)) for x in np.arange(rng.integers(2, 6)) * 1.5]


def _bin(rng: Rng) -> list[Body]:
    return [box((x, -0.3, -0.2), (x + 0.55, 0.3, 1.1)) for x in np.arange(rng.integers(1, 4)) * 0.7]


def _cabinet(rng: Rng) -> list[Body]:
    x, y, z = rng.uniform((0.3, 0.15, 0.9), (0.8, 0.3, 1.6))
    return [box((-x, -y, -0.3), (x, y, z))]


def _shelter(rng: Rng) -> list[Body]:
    return [box((-2, 0.7, -0.3), (2, 0.8, 2.4), 0.2), box((-2, -0.6, 2.4), (2, 0.8, 2.55), 0.3),
            box((-2, -0.5, -0.3), (-1.9, 0.8, 2.4), 0.2)]  # fmt: skip


def fence(rng: Rng, length: float) -> list[Body]:
    """Along x from the origin: light passes between its bars about as often as not."""
    tall = rng.uniform(0.8, 2.0)
    posts = [cylinder(x, 0, 0.05, -0.5, tall) for x in np.arange(0, length, 2.5)]
    return [box((0, -0.03, -0.3), (length, 0.03, tall), 0.3, rng.uniform(0.03, 0.12)), *posts]


def low_wall(rng: Rng, length: float) -> list[Body]:
    """Along x from the origin, of stone."""
    return [box((0, -0.12, -0.8), (length, 0.12, rng.uniform(0.4, 1.8)), rng.uniform(0.2, 0.5))]


def rail(rng: Rng, length: float) -> list[Body]:
    """A crash barrier along x."""
    posts = [box((x, -0.05, -0.5), (x + 0.1, 0.05, 0.7)) for x in np.arange(0, length, 2.0)]
    return [box((0, -0.05, 0.45), (length, 0.03, 0.78), 0.5), *posts]
