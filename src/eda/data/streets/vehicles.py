"""Cars and other traffic. x is ahead, y to the left; the middle is above the origin, the wheels stand on z = 0."""

from __future__ import annotations

from eda.data.rooms.chance import Rng, draw_kind
from eda.data.streets.bodies import Body, box, ellipsoid

_GLASS = 0.08  # reflectance


def vehicle(rng: Rng) -> list[Body]:
    """A car, a van or a lorry."""
    return draw_kind(rng, {_car: 8.0, _van: 1.6, _lorry: 0.25})(rng)


def _car(rng: Rng) -> list[Body]:
    length, wide, tall = rng.uniform((3.6, 1.62, 1.4), (4.9, 1.86, 1.75))
    x, y, belt, paint = length / 2, wide / 2, rng.uniform(0.78, 0.98), rng.uniform(0.05, 0.6)
    bonnet, boot = rng.uniform(0.55, 0.8) * x, rng.choice([rng.uniform(0.5, 0.75), 0.95]) * x
    wheels = [
        box((a - 0.3, b - 0.1, 0), (a + 0.3, b + 0.1, 0.3), 0.08)
        for a in (-0.62 * x, 0.62 * x)
        for b in (0.85 * y, -0.85 * y)
    ]
    cabin = box((-boot, -0.86 * y, belt), (0.35 * x, 0.86 * y, tall), 0.5 * paint + 0.5 * _GLASS)
    screen = box((0.35 * x, -0.8 * y, belt), (0.5 * x, 0.8 * y, 0.6 * tall + 0.4 * belt), _GLASS)
    return [box((-x, -y, 0.25), (bonnet, y, belt), paint), box((bonnet, -y, 0.25), (x, y, 0.85 * belt), paint),
            cabin, screen, *wheels]  # fmt: skip


def _van(rng: Rng) -> list[Body]:
    length, wide, tall = rng.uniform((4.6, 1.8, 1.9), (6.2, 2.1, 2.7))
    x, y, paint = length / 2, wide / 2, rng.uniform(0.1, 0.7)
    nose = rng.uniform(0.6, 0.8) * x
    return [box((-x, -y, 0.3), (nose, y, tall), paint), box((nose, -y, 0.3), (x, y, 1.1), paint)]


def _lorry(rng: Rng) -> list[Body]:
    length, tall, paint = rng.uniform(7, 11), rng.uniform(3, 3.8), rng.uniform(0.2, 0.7)
    x = length / 2
    return [box((-x, -1.25, 0.9), (x - 2.3, 1.25, tall), paint), box((x - 2, -1.2, 0.4), (x, 1.2, 2.8), paint),
            box((-x + 0.5, -1.1, 0), (-x + 2, 1.1, 0.9), 0.1)]  # fmt: skip


def cyclist(rng: Rng) -> list[Body]:
    """Someone on a bicycle."""
    return [box((-0.85, -0.05, 0.1), (0.85, 0.05, 0.8), 0.2, 0.15), _person(rng, 0.75)]


def walker(rng: Rng) -> list[Body]:
    """Someone on foot."""
    return [_person(rng, 0.0)]


def _person(rng: Rng, low: float) -> Body:
    tall = rng.uniform(1.5, 1.9) - 0.3 * low
    return ellipsoid((0, 0, low + tall / 2 - 0.2 * low), (0.22, 0.3, tall / 2), rng.uniform(0.1, 0.5))
