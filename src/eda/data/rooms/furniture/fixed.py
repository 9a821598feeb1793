"""Furniture that is built into a room."""

from __future__ import annotations

from eda.data.meshes import join_meshes
from eda.data.rooms.chance import Rng
from eda.data.rooms.forms import basin, box, move_mesh, tube
from eda.data.rooms.furniture.thing import Thing, Top, fronts


def bath(rng: Rng) -> Thing:
    """A tub, or a wash stand, with a toilet beside it."""
    h = rng.uniform(0.8, 0.9)
    w = rng.uniform(0.6, 1.6)
    stand = [basin((0, 0, h - 0.2), (w, 0.5, h)), *fronts(rng, 0.03, w - 0.06, 0.45, 0, h - 0.2)]
    tub = [basin((0, 0, 0), (w + 0.4, 0.75, 0.55), 0.08)]
    parts, wide = (stand, w) if rng.random() < 0.6 else (tub, w + 0.4)
    if rng.random() < 0.6:
        x = wide + rng.uniform(0.25, 0.5)
        parts.append(box((x - 0.2, 0, 0.35), (x + 0.2, 0.18, 0.8)))
        parts.append(move_mesh(tube([0.13, 0.12, 0.2, 0.2, 0.12], [0, 0.2, 0.38, 0.41, 0.4], 14), (x, 0.42, 0)))
    return Thing(join_meshes(parts), (Top((0.05, wide - 0.05), (0.01, 0.06), h, 0.4),) if parts is stand else ())


def stairs(rng: Rng) -> Thing:
    """Some steps up along a wall, to a landing."""
    w, rise, run = rng.uniform(0.7, 1.1), rng.uniform(0.16, 0.2), rng.uniform(0.24, 0.3)
    steps = int(rng.integers(3, 9))
    return Thing(join_meshes([box((i * run, 0, 0), (steps * run + 0.5, w, (i + 1) * rise)) for i in range(steps)]))


def pillar(rng: Rng) -> Thing:
    """A chimney, a shaft or a piece of wall that comes into the room."""
    return Thing(box((0, 0, 0), (rng.uniform(0.2, 1.2), rng.uniform(0.1, 0.8), 3.2)))


def partition(rng: Rng) -> Thing:
    """A screen, a half-high wall, or a door that stands open."""
    return Thing(box((0, 0, 0), (rng.uniform(0.04, 0.14), rng.uniform(0.7, 1.8), rng.choice([1.1, 1.5, 2.0, 3.2]))))
