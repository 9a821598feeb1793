"""Pots: hollow things turned on a wheel, with what was stuck onto them.

In: a random generator. Out: a solid; the z axis is that of the wheel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eda.data.fracture.shapes.loft import Relief, ball, bow, inside, lathe, outline, tube
from eda.data.fracture.solids import union

if TYPE_CHECKING:
    from manifold3d import Manifold

Knots = list[tuple[float, float]]  # radius and height, from the bottom up

SEGMENTS, RINGS = 32, 16
SOLID_SHARE = 0.15  # of the pots are not hollow: neither are many models of real ones


def _wall(rng: np.random.Generator) -> float:
    """Thickness: from glass to earthenware."""
    return float(np.exp(rng.uniform(np.log(0.012), np.log(0.06))))


def _plain(angle: np.ndarray, height: np.ndarray) -> np.ndarray:
    return np.ones(np.broadcast_shapes(angle.shape, height.shape))


def _section(rng: np.random.Generator) -> Relief:
    """The cross section as a factor of the radius: round in half of the cases, else oval, lobed or squarish."""
    lobes, depth = ((0, 0.0), (0, 0.0), (2, 0.15), (int(rng.integers(3, 9)), 0.06), (4, 0.08))[rng.integers(5)]
    depth, phase = depth * rng.uniform(0.3, 1), rng.uniform(0, 2 * np.pi)
    return lambda angle, height: _plain(angle, height) + depth * np.cos(lobes * angle + phase)


def _relief(rng: np.random.Generator, top: float, deepest: float) -> Relief:
    """What decorates a band of the outside, as a factor of the radius: flutes, grooves, a spiral, knobs or nothing."""
    around, up = int(rng.integers(5, 11)), rng.uniform(12, 25) / top
    phase, depth = rng.uniform(0, 2 * np.pi), min(rng.uniform(0.01, 0.04), deepest)
    middle, width = rng.uniform(0.2, 0.8) * top, rng.uniform(0.15, 0.5) * top
    patterns: tuple[Relief, ...] = (
        lambda angle, height: np.cos(around * angle + phase),
        lambda angle, height: np.cos(up * height + phase),
        lambda angle, height: np.cos(around * angle + up * height),
        lambda angle, height: np.cos(around * angle + phase) * np.cos(up * height),
        lambda angle, height: np.zeros_like(height),
    )
    pattern = patterns[rng.integers(len(patterns))]
    return lambda angle, height: (
        _plain(angle, height) + depth * pattern(angle, height) * np.exp(-(((height - middle) / width) ** 4))
    )


def _pot(rng: np.random.Generator, knots: Knots, wall: float, added: list[Manifold] | None = None) -> Manifold:
    """A pot with this outline, rising all the way, a wall of about this thickness, and things stuck onto it."""
    line = outline(knots, RINGS)
    section, relief = _section(rng), _relief(rng, top=line[-1, 1], deepest=0.4 * wall / line[:, 0].max())

    def outside(angle: np.ndarray, height: np.ndarray) -> np.ndarray:
        return section(angle, height) * relief(angle, height)

    def both(angle: np.ndarray, height: np.ndarray) -> np.ndarray:
        return np.concatenate([outside(angle, height[: len(line)]), section(angle, height[len(line) :])])

    if rng.random() < SOLID_SHARE:
        return union([lathe(line, SEGMENTS, outside), *(added or [])])
    inner = inside(line, wall, floor=wall * rng.uniform(1, 2))
    if not added:
        return lathe(np.concatenate([line, inner[::-1]]), SEGMENTS, both)
    inner[-1, 1] += wall  # the hollow goes through the rim
    return union([lathe(line, SEGMENTS, outside), *added]) - lathe(inner, SEGMENTS, section)


def _radius_at(knots: Knots, height: float) -> float:
    line = outline(knots, 40)
    return float(np.interp(height, line[:, 1], line[:, 0]))


def _raised(line: np.ndarray, angle: float) -> np.ndarray:
    """A line of radii and heights (k, 2), standing at an angle about the axis: (k, 3)."""
    return np.stack([line[:, 0] * np.cos(angle), line[:, 0] * np.sin(angle), line[:, 1]], axis=-1)


def _handle(rng: np.random.Generator, knots: Knots, low: float, high: float, angle: float, reach: float) -> Manifold:
    """A bow from one height of an outline to another; its ends are buried in the wall."""
    feet = [(0.8 * _radius_at(knots, height), height) for height in (low, high)]
    out = max(_radius_at(knots, low), _radius_at(knots, high)) + reach
    lower = (out * rng.uniform(0.9, 1), low + rng.uniform(0.15, 0.3) * (high - low))
    upper = (out, low + rng.uniform(0.7, 0.95) * (high - low))
    path = _raised(bow([feet[0], lower, upper, feet[1]], 14), angle)
    thickness = rng.uniform(0.02, 0.045) * (1 + rng.uniform(0, 0.3) * np.linspace(-1, 1, len(path)) ** 2)
    return tube(path, thickness, 8, rng.uniform(0.7, 1.6))


def vase(rng: np.random.Generator) -> Manifold:
    """Belly, neck and lip."""
    u = rng.uniform
    h = u(0.7, 1.3)
    belly = [(u(0.12, 0.25), 0), (u(0.2, 0.42), u(0.2, 0.45) * h), (u(0.2, 0.42), u(0.5, 0.65) * h)]
    return _pot(rng, [*belly, (u(0.1, 0.2), u(0.75, 0.88) * h), (u(0.12, 0.3), h)], _wall(rng))


def bottle(rng: np.random.Generator) -> Manifold:
    """A body with a shoulder and a narrow neck."""
    u = rng.uniform
    r, neck, h = u(0.16, 0.3), u(0.05, 0.09), u(0.9, 1.3)
    shoulder = u(0.45, 0.65) * h
    body = [(0.93 * r, 0), (r, 0.05 * h), (r * u(0.9, 1.1), shoulder), (neck, shoulder + u(0.15, 0.25) * h)]
    return _pot(rng, [*body, (neck * u(0.9, 1.1), 0.95 * h), (neck * u(1, 1.3), h)], _wall(rng))


def beaker(rng: np.random.Generator) -> Manifold:
    """A cup without a handle."""
    u = rng.uniform
    r, h = u(0.2, 0.4), u(0.4, 1.0)
    return _pot(rng, [(r * u(0.6, 1), 0), (r * u(0.8, 1.1), u(0.3, 0.6) * h), (r * u(0.9, 1.2), h)], _wall(rng))


def mug(rng: np.random.Generator) -> Manifold:
    """A cup with a handle."""
    u = rng.uniform
    r, h = u(0.25, 0.4), u(0.45, 0.9)
    knots = [(r * u(0.6, 1), 0), (r * u(0.85, 1.1), 0.3 * h), (r * u(0.9, 1.05), 0.7 * h), (r * u(0.95, 1.2), h)]
    handle = _handle(rng, knots, u(0.12, 0.35) * h, u(0.7, 0.9) * h, u(0, 6.3), u(0.1, 0.22))
    return _pot(rng, knots, _wall(rng), [handle])


def jug(rng: np.random.Generator) -> Manifold:
    """A handle on one side, a beak on the other."""
    u = rng.uniform
    h, angle = u(0.8, 1.2), u(0, 6.3)
    belly = [(u(0.15, 0.25), 0), (u(0.28, 0.4), u(0.25, 0.45) * h)]
    knots = [*belly, (u(0.12, 0.22), u(0.7, 0.8) * h), (u(0.16, 0.26), h)]
    handle = _handle(rng, knots, u(0.3, 0.45) * h, u(0.8, 0.92) * h, angle, u(0.1, 0.22))
    r = _radius_at(knots, 0.9 * h)
    line = bow([(0.7 * r, 0.76 * h), (1.1 * r, 0.9 * h), (u(1.4, 1.8) * r, u(0.97, 1.03) * h)], 6)
    beak = tube(_raised(line, angle + np.pi + u(-0.4, 0.4)), np.linspace(0.1, u(0.03, 0.05), 6), 10)
    return _pot(rng, knots, _wall(rng), [handle, beak])


def amphora(rng: np.random.Generator) -> Manifold:
    """Two handles from the shoulder to the neck."""
    u = rng.uniform
    h, neck = u(1.0, 1.4), u(0.08, 0.14)
    body = [(u(0.06, 0.14), 0), (u(0.2, 0.3), u(0.25, 0.35) * h), (u(0.26, 0.38), u(0.5, 0.62) * h)]
    knots = [*body, (neck, u(0.75, 0.8) * h), (neck * u(0.9, 1.1), 0.93 * h), (neck * u(1.1, 1.7), h)]
    angle, apart, low = u(0, 6.3), np.pi + u(-0.5, 0.5), u(0.6, 0.66) * h
    handles = [_handle(rng, knots, low, u(0.86, 0.92) * h, a, u(0.03, 0.1)) for a in (angle, angle + apart)]
    return _pot(rng, knots, _wall(rng), handles)


def teapot(rng: np.random.Generator) -> Manifold:
    """A round body with a spout and a handle; open, or solid with a knob on top."""
    u = rng.uniform
    h, angle = u(0.5, 0.75), u(0, 6.3)
    knots = [(u(0.2, 0.28), 0), (u(0.38, 0.46), u(0.35, 0.5) * h), (u(0.3, 0.4), 0.8 * h), (u(0.1, 0.16), h)]
    handle = _handle(rng, knots, u(0.15, 0.3) * h, u(0.75, 0.85) * h, angle, u(0.12, 0.25))
    line = bow([(0.3, 0.3 * h), (u(0.5, 0.6), 0.45 * h), (u(0.62, 0.8), u(0.85, 1.1) * h)], 8)
    spout = tube(_raised(line, angle + np.pi + u(-0.3, 0.3)), np.linspace(u(0.07, 0.12), u(0.03, 0.05), 8), 10)
    if rng.random() < 0.5:
        return _pot(rng, knots, _wall(rng), [handle, spout])
    knob = ball((0, 0, h + u(0.02, 0.04)), np.full(3, u(0.05, 0.08)), segments=12)
    return union([lathe(outline(knots, RINGS), SEGMENTS, _section(rng)), handle, spout, knob])


def goblet(rng: np.random.Generator) -> Manifold:
    """A cup on a stem on a foot."""
    u = rng.uniform
    h, stem = u(0.8, 1.2), u(0.025, 0.07)
    foot = [(u(0.2, 0.3), 0), (u(0.16, 0.2), 0.05), (stem, u(0.12, 0.18) * h), (stem * u(1, 1.8), u(0.25, 0.32) * h)]
    cup = [(stem, u(0.38, 0.45) * h), (u(0.2, 0.32), u(0.55, 0.7) * h), (u(0.18, 0.36), h)]
    line = outline([*foot, *cup], RINGS + 8)
    inner = inside(line, max(_wall(rng), 0.02), floor=u(0.48, 0.55) * h)
    return lathe(np.concatenate([line, inner[::-1]]), SEGMENTS, _section(rng))


def flowerpot(rng: np.random.Generator) -> Manifold:
    """A cone with a band below the rim."""
    u = rng.uniform
    r, top, h, band = u(0.2, 0.3), u(0.32, 0.42), u(0.5, 0.8), u(0.75, 0.85)
    at = r + (top - r) * band
    knots = [(r, 0), (at, band * h), (at * u(1.08, 1.2), (band + 0.02) * h), (top * u(1.05, 1.2), h)]
    return _pot(rng, knots, _wall(rng))


def bell(rng: np.random.Generator) -> Manifold:
    """Upside down, with a loop to hang it by."""
    u = rng.uniform
    h, size = u(0.6, 0.9), u(0.07, 0.12)
    body = [(u(0.05, 0.15), 0), (u(0.18, 0.28), u(0.1, 0.2) * h), (u(0.2, 0.32), u(0.55, 0.7) * h)]
    arc = np.linspace(-0.2, np.pi + 0.2, 12)
    path = np.stack([size * np.cos(arc), 0 * arc, -size * u(0.8, 1.4) * np.sin(arc)], axis=-1)
    loop = tube(path, np.full(12, u(0.02, 0.035)), 8)
    return _pot(rng, [*body, (u(0.32, 0.48), h)], max(_wall(rng), 0.02), [loop])


def _dish(rng: np.random.Generator, knots: Knots, thickness: float, foot: float) -> Manifold:
    """A flat pot: knots from the middle outwards, its thickness, and the height of its ring-shaped foot."""
    line = outline(knots, 14)
    radius, height = line.T
    below = height - thickness * np.minimum(np.hypot(1, np.gradient(height, radius)), 2.5)
    below -= foot * np.exp(-(((radius - rng.uniform(0.4, 0.6) * radius[-1]) / 0.05) ** 4))
    profile = np.concatenate([np.stack([radius, below], axis=-1), line[::-1]])
    return lathe(profile, SEGMENTS + 8, _section(rng))


def bowl(rng: np.random.Generator) -> Manifold:
    """Deep and round."""
    u = rng.uniform
    r, h = u(0.4, 0.55), u(0.2, 0.45)
    knots = [(0.03, 0), (u(0.15, 0.25), u(0.005, 0.04)), (u(0.75, 0.9) * r, u(0.4, 0.6) * h), (r, h)]
    return _dish(rng, knots, _wall(rng), u(0, 0.05))


def plate(rng: np.random.Generator) -> Manifold:
    """Flat, with a rim."""
    u = rng.uniform
    r, h = u(0.45, 0.55), u(0.04, 0.12)
    knots = [(0.03, 0), (u(0.5, 0.65) * r, u(0, 0.02)), (u(0.7, 0.8) * r, u(0.4, 0.8) * h), (r, h)]
    return _dish(rng, knots, _wall(rng), u(0, 0.03))


def lid(rng: np.random.Generator) -> Manifold:
    """A dome with a knob beside its middle."""
    u = rng.uniform
    r, h = u(0.35, 0.5), u(0.1, 0.3)
    dome = _dish(rng, [(0.03, h), (u(0.3, 0.5) * r, u(0.75, 0.95) * h), (r, 0)], max(_wall(rng), 0.025), 0)
    middle = u(-0.05, 0.05, size=2)
    neck = tube(np.array([(*middle, 0.96 * h), (*middle, h + 0.05)]), np.full(2, u(0.03, 0.05)), 10)
    return union([dome, neck, ball((*middle, h + 0.08), u(0.05, 0.09, size=3), segments=12)])


def lamp(rng: np.random.Generator) -> Manifold:
    """An oil lamp: a low pot with a nozzle and a ring to hold it by."""
    u = rng.uniform
    h, angle = u(0.2, 0.3), u(0, 6.3)
    knots = [(u(0.15, 0.22), 0), (u(0.3, 0.36), u(0.4, 0.6) * h), (u(0.08, 0.16), h)]
    line = bow([(0.2, 0.45 * h), (0.36, 0.5 * h), (u(0.5, 0.65), u(0.5, 0.9) * h)], 6)
    nozzle = tube(_raised(line, angle), np.linspace(0.1, u(0.06, 0.09), 6), 12, u(0.6, 1))
    handle = _handle(rng, knots, 0.3 * h, 0.75 * h, angle + np.pi + u(-0.2, 0.2), u(0.1, 0.16))
    return _pot(rng, knots, max(_wall(rng), 0.02), [nozzle, handle])


VESSELS = {
    make.__name__: make
    for make in (
        vase,
        bottle,
        beaker,
        mug,
        jug,
        amphora,
        teapot,
        goblet,
        flowerpot,
        bell,
        bowl,
        plate,
        lid,
        lamp,
    )
}
