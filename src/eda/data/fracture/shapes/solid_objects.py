"""Stones, furniture, ornaments, and solids left to chance.

In: a random generator. Out: a solid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eda.data.fracture.shapes.loft import ball, block, bow, lathe, outline, slab, tube
from eda.data.fracture.solids import connected_parts, union

if TYPE_CHECKING:
    from manifold3d import Manifold


def box(rng: np.random.Generator) -> Manifold:
    """A case, open on top, no two of its walls alike; or a block with a corner cut out."""
    u = rng.uniform
    high = u(0.4, 0.9, size=3)
    case = block((0, 0, 0), high)
    if rng.random() < 0.3:
        return case - block(u(0.3, 0.7) * high, 1.2 * high)
    wall = u(0.03, 0.1, size=5)
    return case - block(wall[:3], (high[0] - wall[3], high[1] - wall[4], high[2] + 0.1))


def tile(rng: np.random.Generator) -> Manifold:
    """A slab with a relief of lumps on its face."""
    u = rng.uniform
    x, y, z = u(0.35, 0.55), u(0.3, 0.5), u(0.03, 0.1)
    lumps = [
        ball((u(-0.8, 0.8) * x, u(-0.8, 0.8) * y, z), (*u(0.05, 0.2, size=2), u(0.02, 0.08)), squareness=u(0.5, 1))
        for _ in range(rng.integers(2, 6))
    ]
    return union([block((-x, -y, 0), (x, y, z)), *lumps])


def stone(rng: np.random.Generator) -> Manifold:
    """A boulder, an egg or a loaf."""
    u = rng.uniform
    lump = ball((0, 0, 0), u(0.25, 0.5, size=3), squareness=u(0.5, 1.1), segments=30)
    if rng.random() < 0.5:
        return lump
    return union([lump, ball(u(-0.25, 0.25, size=3), u(0.2, 0.35, size=3), squareness=u(0.6, 1), segments=22)])


def bone(rng: np.random.Generator) -> Manifold:
    """A shaft between knobs."""
    u = rng.uniform
    path = bow([(0, 0, 0), (u(-0.06, 0.06), u(-0.06, 0.06), 0.5), (0, 0, 1)], 12)
    shaft = tube(path, u(0.05, 0.09) * (1 + 0.8 * np.abs(np.linspace(-1, 1, 12)) ** 3), 12)
    knobs = [
        ball((side * u(0.05, 0.09), u(-0.03, 0.03), end + u(-0.02, 0.02)), u(0.07, 0.12, size=3))
        for side in (-1, 1)
        for end in (0, 1)
    ]
    return union([shaft, *knobs])


def ring(rng: np.random.Generator) -> Manifold:
    """A band of changing thickness that carries a stone."""
    u = rng.uniform
    turn = np.linspace(0.1, 2 * np.pi - 0.1, 36)
    thickness = u(0.05, 0.12) * (
        1 + u(0.05, 0.4) * np.cos(turn - u(0, 6)) + u(0, 0.1) * np.cos(rng.integers(3, 9) * turn)
    )
    a, b, c = u(0.35, 0.5), u(0.35, 0.5), u(-0.08, 0.08)
    path = np.stack([a * np.cos(turn), b * np.sin(turn), c * np.sin(2 * turn)], axis=-1)
    gem = ball((1.05 * a, 0, 0), u(0.14, 0.2, size=3), squareness=u(0.4, 1))  # hides the ends of the band
    return union([tube(path, thickness, 12, u(0.5, 1.8)), gem])


def horn(rng: np.random.Generator) -> Manifold:
    """A shell that winds up and grows."""
    u = rng.uniform
    turn = np.linspace(0, u(3, 9), 40)
    growth = np.exp(-u(0.08, 0.2) * turn)
    pitch = u(0.1, 0.25)
    path = np.stack([0.35 * growth * np.cos(turn), 0.35 * growth * np.sin(turn), pitch * turn], axis=-1)
    radii = np.minimum(u(0.12, 0.2) * growth, 2.5 * pitch) * (1 + u(0, 0.12) * np.cos(u(2, 6) * turn))
    return tube(path, radii, 14, u(0.8, 1.2))


def column(rng: np.random.Generator) -> Manifold:
    """A fluted shaft between a base and a capital."""
    u = rng.uniform
    flutes, depth = int(rng.integers(8, 14)), u(0.02, 0.07)
    line = outline([(u(0.16, 0.2), 0), (u(0.14, 0.18), 0.5), (u(0.12, 0.16), 1)], 6)
    shaft = lathe(line, 48, lambda angle, height: 1 + depth * np.cos(flutes * angle) + 0 * height)
    torus = lathe(outline([(0.2, -0.05), (u(0.22, 0.27), 0), (0.18, 0.08)], 6), 24)
    foot = block((*-u(0.23, 0.29, size=2), -0.15), (*u(0.23, 0.29, size=2), -0.04))
    capital = block((*-u(0.2, 0.28, size=2), 0.97), (*u(0.2, 0.28, size=2), u(1.04, 1.12)))
    return union([shaft, torus, foot, capital])


def _legs(rng: np.random.Generator, width: float, depth: float, thickness: float, length: float) -> list[Manifold]:
    """Four legs below a board whose underside is at height 0."""
    corners = np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)]) * [width - thickness, depth - thickness]
    return [
        tube(np.array([(*at, 0.02), (*(at * rng.uniform(0.8, 1.15, size=2)), -length)]), np.full(2, thickness), 8)
        for at in corners
    ]


def chair(rng: np.random.Generator) -> Manifold:
    """A seat, a back and legs."""
    u = rng.uniform
    w, d, t = u(0.22, 0.3), u(0.2, 0.3), u(0.04, 0.08)
    back = block((-w * u(0.8, 1), d - t, 0), (w * u(0.8, 1), d, u(0.4, 0.6)))
    return union([block((-w, -d, 0), (w, d, t)), back, *_legs(rng, w, d, u(0.03, 0.05), u(0.3, 0.45))])


def table(rng: np.random.Generator) -> Manifold:
    """A board, round or not, on legs."""
    u = rng.uniform
    w, d, t = u(0.3, 0.5), u(0.25, 0.4), u(0.03, 0.07)
    board = ball((0, 0, t / 2), (1.1 * w, 1.1 * d, t), squareness=u(0.15, 0.6), segments=28)
    return union([board, *_legs(rng, 0.8 * w, 0.8 * d, u(0.03, 0.06), u(0.25, 0.6))])


def arch(rng: np.random.Generator) -> Manifold:
    """A gate: a thick wall with an opening."""
    u = rng.uniform
    w, h, opening = u(0.35, 0.5), u(0.6, 0.9), u(0.15, 0.25)
    turn = np.linspace(0, np.pi, 12)
    x, y = u(-0.08, 0.08) + opening * np.cos(turn[::-1]), u(0.3, 0.5) * h + opening * np.sin(turn)
    door = [(x[0], 0), *zip(x, y, strict=True), (x[-1], 0)]
    return slab([[(-w, 0), *door, (w, 0), (w * u(0.7, 1), h), (-w * u(0.7, 1), h)]], u(0.12, 0.3))


def cutout(rng: np.random.Generator) -> Manifold:
    """A flat thing whose outline is left to chance."""
    u = rng.uniform
    angle = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    order = np.arange(1, 7)
    amplitude = u(-0.35, 0.35, size=6) / order
    radius = 0.4 * np.exp((amplitude * np.cos(order * angle[:, None] + u(0, 6.3, size=6))).sum(axis=1))
    return slab([np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)], u(0.05, 0.25))


def clump(rng: np.random.Generator) -> Manifold:
    """Lumps, bars and hollows left to chance."""
    u = rng.uniform
    parts = [ball((0, 0, 0), u(0.15, 0.35, size=3), squareness=u(0.3, 1.1), segments=20)]
    for _ in range(rng.integers(2, 6)):
        at = u(-0.3, 0.3, size=3)
        if rng.random() < 0.5:
            parts.append(ball(at, u(0.08, 0.25, size=3), squareness=u(0.3, 1.1)))
        else:
            parts.append(tube(bow([at * 0.2, at, at * u(1.2, 2)], 8), np.linspace(u(0.04, 0.12), u(0.04, 0.12), 8), 10))
    whole = union(parts)
    if rng.random() < 0.4:
        whole = whole - ball(u(-0.3, 0.3, size=3), u(0.1, 0.25, size=3), squareness=u(0.3, 1))
    return connected_parts(whole)[0]


BLOCKS = {
    make.__name__: make for make in (box, tile, stone, bone, ring, horn, column, chair, table, arch, cutout, clump)
}
