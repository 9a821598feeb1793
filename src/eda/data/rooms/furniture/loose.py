"""Movable things: lamps, plants, bins, boxes."""

from __future__ import annotations

import numpy as np

from eda.data.meshes import join_meshes
from eda.data.rooms.chance import Rng
from eda.data.rooms.forms import blob, box, move_mesh, tilt_mesh, tube
from eda.data.rooms.furniture.thing import Thing


def lamp(rng: Rng) -> Thing:
    """On a pole."""
    h, r = rng.uniform(1.2, 1.8), rng.uniform(0.12, 0.25)
    shade = tube([r, r * rng.uniform(0.5, 1)], [h - rng.uniform(0.2, 0.35), h])
    return Thing(
        move_mesh(join_meshes([tube([0.15, 0.15], [0, 0.03]), tube([0.015, 0.015], [0, h]), shade]), (r, r, 0))
    )


def plant(rng: Rng) -> Thing:
    """A pot and leaves."""
    h, r = rng.uniform(0.4, 1.6), rng.uniform(0.1, 0.2)
    parts = [tube([0.7 * r, r], [0, 1.6 * r])]
    for _ in range(int(rng.integers(10, 30))):
        leaf = tilt_mesh(box((-0.06, 0, 0), (0.06, rng.uniform(0.15, 0.4), 0.005)), rng.uniform(-0.5, 1.2), (0, 0, 0))
        parts.append(move_mesh(leaf, (*rng.normal(0, 0.05, 2), 1.6 * r + rng.uniform(0, h)), rng.uniform(0, 6.3)))
    return Thing(move_mesh(join_meshes(parts), (0.3, 0.3, 0)))


def cartons(rng: Rng) -> Thing:
    """Boxes in a heap."""
    parts, z = [], 0.0
    for _ in range(int(rng.integers(1, 5))):
        w, d, h = rng.uniform(0.2, 0.6, 3)
        parts.append(
            move_mesh(box((-w / 2, -d / 2, 0), (w / 2, d / 2, h)), (*rng.normal(0.3, 0.06, 2), z), rng.normal(0, 0.5))
        )
        z += h if rng.random() < 0.6 and z < 0.8 else 0.0
    return Thing(join_meshes(parts))


def heap(rng: Rng) -> Thing:
    """Bags, clothes, a beanbag."""
    parts = []
    for _ in range(int(rng.integers(1, 5))):
        size = rng.uniform(0.25, 0.8) * np.array([1, rng.uniform(0.5, 1), rng.uniform(0.3, 0.9)])
        parts.append(
            move_mesh(blob(rng, size, rng.uniform(0.5, 1), 0.14), (*rng.uniform(0.2, 0.6, 2), 0), rng.uniform(0, 6))
        )
    return Thing(join_meshes(parts))


def bin_(rng: Rng) -> Thing:
    """A paper basket, a bucket, a stool."""
    r, h = rng.uniform(0.12, 0.22), rng.uniform(0.25, 0.6)
    return Thing(move_mesh(tube([r * rng.uniform(0.7, 1), r], [0, h]), (r, r, 0)))
