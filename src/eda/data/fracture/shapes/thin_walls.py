"""Things with thin walls that are turned: wineglasses, pill bottles and bands.

In: a random generator. Out: a solid; the z axis is that of the lathe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eda.data.fracture.shapes.loft import Relief, ball, inside, lathe, outline, thickness
from eda.data.fracture.solids import union

if TYPE_CHECKING:
    from manifold3d import Manifold

SEGMENTS = 32
WALL = (0.012, 0.03)  # range of the thickness of a wall


def _oval(rng: np.random.Generator, most: float) -> Relief:
    """A cross section that is out of round by a random share of the radius."""
    depth, phase = rng.uniform(0, most), rng.uniform(0, 2 * np.pi)
    return lambda angle, height: 1 + depth * np.cos(2 * angle + phase) + 0 * height


def wineglass(rng: np.random.Generator) -> Manifold:
    """A cup of thin glass on a thin stem on a thin foot."""
    u = rng.uniform
    wall, stem, base, floor = thickness(rng, *WALL), u(0.012, 0.025), u(0.16, 0.26), u(0.4, 0.6)
    widest, rim = u(0.16, 0.3), u(0.6, 1.2)
    foot = [(base, 0), (base, 0.7 * wall), (0.45 * base, 1.2 * wall), (1.2 * stem, u(0.05, 0.1)), (stem, 0.5 * floor)]
    at = floor + u(0.25, 0.55) * (1 - floor)
    line = np.concatenate([
        outline([*foot, (stem * u(1, 1.4), floor - 2 * wall)], 16)[:-1],
        outline([(1.4 * stem, floor - 2 * wall), (0.6 * widest, floor + 0.02), (widest, at), (widest * rim, 1)], 16),
    ])  # fmt: skip
    inner = inside(line, wall, floor=floor + wall)
    return lathe(np.concatenate([line, inner[::-1]]), SEGMENTS, _oval(rng, 0.05))


def pill_bottle(rng: np.random.Generator) -> Manifold:
    """A tube or a bottle with a wide neck: open and with thin walls, or closed by a ridged lid and solid."""
    u = rng.uniform
    r, h, wall, section = u(0.12, 0.28), u(0.6, 0.9), thickness(rng, *WALL), _oval(rng, 0.08)
    neck, shoulder = r * u(0.7, 1), h * u(0.75, 0.88)
    body = [(0.95 * r, 0), (r, 0.02), (r, shoulder)]
    line = outline([*body, (neck, shoulder + u(0.02, 0.08)), (neck * u(1, 1.08), h)], 18)
    if rng.random() < 0.6:
        inner = inside(line, wall, floor=u(1, 2) * wall)
        return lathe(np.concatenate([line, inner[::-1]]), SEGMENTS, section)
    ridges, depth, lid, top = int(rng.integers(8, 13)), u(0.01, 0.04), neck * u(1.1, 1.3), h + u(0.1, 0.2)
    side = [(lid, h - u(0.02, 0.06)), (lid, top - 0.02)]
    cap = outline([*side, (0.93 * lid, top), (0.5 * lid, top + u(0.001, 0.02))], 8)
    return union([lathe(line, SEGMENTS, section), lathe(cap, 48, lambda a, z: 1 + depth * np.cos(ridges * a) + 0 * z)])


def band(rng: np.random.Generator) -> Manifold:
    """A ring or a bracelet from a thin strip, wider on one side than on the other, with stones or without."""
    u = rng.uniform
    r, width, wall, section = u(0.38, 0.5), np.exp(u(np.log(0.06), np.log(0.4))), thickness(rng, *WALL), _oval(rng, 0.1)
    bulge = u(-0.4, 0.4) * wall
    height = np.linspace(-width / 2, width / 2, 7)
    outer = np.stack([r + bulge * (1 - np.square(2 * height / width)), height], axis=-1)
    through = np.stack([np.full(7, r - wall), 1.2 * height], axis=-1)
    hoop = lathe(outer, SEGMENTS + 16, section) - lathe(through, SEGMENTS + 16, section)
    more, phase = u(0, 0.6), u(0, 6.3)

    def widen(x: np.ndarray) -> np.ndarray:
        return x * [1, 1, 0] + x * [0, 0, 1] * (1 + more * np.cos(np.arctan2(x[:, 1], x[:, 0]) - phase))[:, None]

    stones = []
    for angle in phase + np.arange(rng.integers(4)) * u(0.2, 0.5):
        out = r * float(section(np.array(angle), np.array(0.0)))
        size = u(0.03, 0.1, size=3)
        stones.append(ball((out * np.cos(angle), out * np.sin(angle), 0), size, squareness=u(0.4, 1), segments=12))
    return union([hoop.warp_batch(widen), *stones])


THIN_WALLED = {make.__name__: make for make in (wineglass, pill_bottle, band)}
