"""Flat things: mirrors, medallions, biscuits and sheets, down to a hundredth of their size thick.

In: a random generator. Out: a solid; the z axis is across it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eda.data.fracture.shapes.loft import Relief, ball, block, bow, lathe, thickness, tube
from eda.data.fracture.solids import union

if TYPE_CHECKING:
    from manifold3d import Manifold

SEGMENTS = 48
BORDER = 0.88  # where the rim begins, as a share of the way from the middle to the edge
_SHARES = np.array([0.06, 0.25, 0.45, 0.65, BORDER - 0.03, BORDER, 0.97])  # of that way, where the rings are


def _rounded(a: float, b: float, power: float) -> Relief:
    """The edge of a superellipse with half axes a and b: an ellipse for power 2, towards a rectangle for more."""

    def radius(angle: np.ndarray, height: np.ndarray) -> np.ndarray:
        edge = (np.abs(np.cos(angle) / a) ** power + np.abs(np.sin(angle) / b) ** power) ** (-1 / power)
        return np.broadcast_to(edge, np.broadcast_shapes(angle.shape, height.shape))

    return radius


def _flat(edge: Relief, thick: float, rim: float = 0.0, crown: float = 0.0) -> Manifold:
    """A disc with an edge about the z axis, its rim raised and its middle domed.

    Both faces have their vertices above each other, so however it is bent later, they do not cross.
    """
    below = -thick / 2 * np.ones_like(_SHARES)
    above = thick / 2 + rim * (_SHARES >= BORDER) + crown * (1 - np.square(_SHARES))
    outwards, inwards = np.stack([_SHARES, below], axis=-1), np.stack([_SHARES, above], axis=-1)[::-1]
    return lathe(np.concatenate([outwards, [(1.0, 0.0)], inwards]), SEGMENTS, edge)


def _roll(solid: Manifold, curvature: float) -> Manifold:
    """The solid rolled about the x axis without a change of its thickness."""

    def warp(x: np.ndarray) -> np.ndarray:
        turn, radius = curvature * x[:, 1], 1 / curvature + x[:, 2]
        return np.stack([x[:, 0], radius * np.sin(turn), radius * np.cos(turn) - 1 / curvature], axis=-1)

    return solid.warp_batch(warp)


def looking_glass(rng: np.random.Generator) -> Manifold:
    """A thin pane, round or not, with or without a frame, and on a handle, on a foot or on nothing."""
    u = rng.uniform
    a, b, thick = u(0.3, 0.5), u(0.3, 0.5), thickness(rng, 0.012, 0.03)
    edge = _rounded(a, b, (2, u(2, 4), u(4, 10))[rng.integers(3)])
    parts = [_flat(edge, thick, rim=(0.0, u(0.3, 1.5) * thick)[rng.integers(2)])]
    held = rng.integers(3)
    if held < 2:
        bottom = -b - (u(0.3, 0.5), u(0.08, 0.2))[held]
        path = bow([(0, -0.94 * b, 0), (u(-0.02, 0.02), 0.5 * (bottom - b), 0), (0, bottom, u(-0.03, 0.03))], 8)
        parts.append(tube(path, thickness(rng, 0.012, 0.03) * np.linspace(1, u(0.8, 1.6), 8), 10))
        if held == 1:
            foot = _flat(_rounded(u(0.15, 0.25), u(0.12, 0.2), 2), thickness(rng, 0.015, 0.03)).rotate([90, 0, 0])
            parts.append(foot.translate([0, bottom, 0]))
    for angle in u(0, 2 * np.pi, size=rng.integers(4)):  # ornaments on the edge
        r = float(edge(np.array(angle), np.array(0.0)))
        at = (r * np.cos(angle), r * np.sin(angle), 0)
        parts.append(ball(at, (*u(0.03, 0.07, size=2), 0.8 * thick), segments=10))
    return union(parts)


def medallion(rng: np.random.Generator) -> Manifold:
    """A coin with an image of lumps on both faces; some have a hole or a loop to hang it by."""
    u = rng.uniform
    r, thick = u(0.4, 0.5), thickness(rng, 0.015, 0.06)
    parts = [_flat(_rounded(r, r * u(0.8, 1), 2), thick, rim=u(0, 0.5) * thick)]
    for _ in range(rng.integers(2, 7)):
        at = (*u(-0.4, 0.4, size=2) * r, (-0.5, 0.5)[rng.integers(2)] * thick)
        parts.append(ball(at, (*u(0.05, 0.25, size=2) * r, u(0.2, 0.6) * thick), squareness=u(0.6, 1), segments=14))
    hung = rng.integers(3)
    if hung == 0:
        return union(parts) - ball((0.75 * r, u(-0.1, 0.1), 0), (*u(0.03, 0.06, size=2), 0.5), segments=12)
    if hung == 1:
        arc, size, bar = np.linspace(-2.5, 2.5, 12), u(0.06, 0.1), u(0.3, 0.45) * thick
        path = np.stack([0.9 * r + size * (1 + np.cos(arc)), size * np.sin(arc), 0 * arc], axis=-1)
        parts.append(tube(path, np.full(12, bar), 8))
    return union(parts)


def cookie(rng: np.random.Generator) -> Manifold:
    """A biscuit with a wavy edge and crumbs on it; some were bitten."""
    u = rng.uniform
    r, thick, waves, depth, phase = u(0.4, 0.5), thickness(rng, 0.03, 0.1), rng.integers(3, 16), u(0, 0.05), u(0, 6.3)
    oval = _rounded(r, r * u(0.75, 1), u(2, 5))

    def edge(angle: np.ndarray, height: np.ndarray) -> np.ndarray:
        return oval(angle, height) * (1 + depth * np.cos(waves * angle + phase))

    crumbs = [
        ball((*u(-0.55, 0.55, size=2) * r, 0.5 * thick), (*u(0.03, 0.08, size=2), u(0.2, 0.6) * thick), segments=10)
        for _ in range(rng.integers(0, 8))
    ]
    whole = union([_flat(edge, thick, crown=u(0, 0.04)), *crumbs])
    if rng.random() < 0.7:
        return whole
    return whole - ball((r, u(-0.1, 0.1), 0), (*u(0.08, 0.2, size=2), 1), segments=16)


def tablet(rng: np.random.Generator) -> Manifold:
    """A thin sheet, flat or rolled, some with slots or a corner lost."""
    u = rng.uniform
    a, b = u(0.35, 0.5), u(0.2, 0.5)
    sheet = _flat(_rounded(a, b, u(3, 12)), thickness(rng, 0.012, 0.03), rim=(0.0, u(0, 0.015))[rng.integers(2)])
    if rng.random() < 0.4:
        x, y = u(-0.6, 0.3) * a, u(-0.6, 0.3) * b
        sheet = sheet - block((x, y, -1), (x + u(0.03, 0.3) * a, y + u(0.03, 0.3) * b, 1))
    if rng.random() < 0.3:
        sheet = sheet - block((u(0.5, 0.8) * a, u(0.5, 0.8) * b, -1), (1, 1, 1)).rotate([0, 0, u(-10, 10)])
    return _roll(sheet, u(0.2, 2.5)) if rng.random() < 0.6 else sheet


FLAT = {make.__name__: make for make in (looking_glass, medallion, cookie, tablet)}
