"""Furniture to keep things in."""

from __future__ import annotations

import itertools

import numpy as np

from eda.data.meshes import join_meshes
from eda.data.rooms.chance import Rng
from eda.data.rooms.forms import blob, box, move_mesh, tube
from eda.data.rooms.furniture.thing import Thing, Top, fronts


def shelf(rng: Rng) -> Thing:
    """Boards with and without sides and a back."""
    w, d, h = rng.uniform(0.5, 1.8), rng.uniform(0.22, 0.45), rng.uniform(0.7, 2.2)
    levels = np.linspace(rng.uniform(0.02, 0.2), h, max(int(h / rng.uniform(0.28, 0.42)), 2))
    parts = [box((0, 0, z - 0.025), (w, d, z)) for z in levels]
    columns = np.linspace(0, w - 0.025, 2 + int(w > 1.0 and rng.random() < 0.7))
    parts += [box((x, 0, 0), (x + 0.025, d, h)) for x in columns]
    if rng.random() < 0.7:
        parts.append(box((0, 0, 0), (w, 0.015, h)))
    tops = [
        Top((a + 0.03, b), (0.02, d - 0.02), z, float(step) - 0.04)
        for a, b in itertools.pairwise(columns)
        for z, step in zip(levels, np.diff(levels, append=levels[-1] + 0.5), strict=True)
    ]
    return Thing(join_meshes(parts), tuple(tops))


def cabinet(rng: Rng) -> Thing:
    """From a chest of drawers to a wardrobe or a fridge."""
    h = rng.choice([rng.uniform(0.5, 1.1), rng.uniform(1.5, 2.2)])
    d, w, columns = rng.uniform(0.35, 0.65), rng.uniform(0.4, 0.7), int(rng.integers(1, 4))
    parts = [
        box((0, 0, 0), (w * columns, d - 0.03, 0.08)),
        box((-0.01, 0, h), (w * columns + 0.01, d + 0.02, h + 0.025)),
    ]
    for column in range(columns):
        parts += fronts(rng, w * column, w, d, 0.08, h, int(rng.choice([1, 1, 2, 3, 4])))
    return Thing(join_meshes(parts), (Top((0.03, w * columns - 0.03), (0.03, d - 0.03), h + 0.025, 0.6),))


def counter(rng: Rng) -> Thing:
    """A row of kitchen cabinets with a sink, a stove, and cupboards above."""
    h, d, w, columns = rng.uniform(0.85, 0.95), rng.uniform(0.55, 0.65), rng.uniform(0.45, 0.6), int(rng.integers(2, 6))
    long, parts = w * columns, []
    for column in range(columns):
        parts += fronts(rng, w * column, w, d - 0.04, 0.1, h - 0.2, int(rng.choice([1, 1, 2, 3, 4])))
    parts += [box((0, 0, 0), (long, d - 0.08, 0.1)), box((0, d - 0.06, h - 0.2), (long, d - 0.04, h - 0.04))]
    sink = w * rng.integers(columns)
    around = ((0, 0, sink, d), (sink + w, 0, long, d), (sink, 0, sink + w, 0.12), (sink, d - 0.1, sink + w, d))
    parts += [box((x0, y0, h - 0.04), (x1, y1, h)) for x0, y0, x1, y1 in around if x1 > x0]
    parts.append(box((sink, 0.1, h - 0.2), (sink + w, d - 0.1, h - 0.18)))
    parts += [box((x, 0.1, h - 0.2), (x + 0.01, d - 0.1, h - 0.03)) for x in (sink, sink + w - 0.01)]
    tap = tube([0.02, 0.02], [0, rng.uniform(0.15, 0.35)])
    parts += [
        move_mesh(tap, (sink + w / 2, 0.06, h)),
        box((sink + w / 2 - 0.015, 0.06, h + 0.15), (sink + w / 2 + 0.015, 0.25, h + 0.18)),
    ]
    if rng.random() < 0.7:
        low, high, deep = rng.uniform(1.35, 1.5), rng.uniform(1.9, 2.3), rng.uniform(0.3, 0.38)
        for column in range(columns):
            if rng.random() < 0.8:
                parts += fronts(rng, w * column, w, deep, low, high)
    return Thing(join_meshes(parts), (Top((0.03, long - 0.03), (0.04, d - 0.05), h, 0.5),))


def rack(rng: Rng) -> Thing:
    """Clothes on a bar."""
    w, h = rng.uniform(0.8, 1.6), rng.uniform(1.4, 1.8)
    parts = [box((x, 0.2, 0), (x + 0.03, 0.23, h)) for x in (0, w)] + [box((0, 0.2, h), (w + 0.03, 0.23, h + 0.03))]
    for x in np.arange(0.1, w, 0.12):
        if rng.random() < 0.7:
            parts.append(
                move_mesh(
                    blob(rng, (0.1, 0.45, rng.uniform(0.6, 1.1)), 0.6, 0.1), (x, 0.22, h - 1.05), rng.normal(0, 0.2)
                )
            )
    return Thing(join_meshes(parts))
