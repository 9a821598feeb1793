"""A piece of furniture: its mesh, the surfaces on it that carry things, and parts that many of them share."""

from __future__ import annotations

from typing import NamedTuple

from eda.data.meshes import Mesh
from eda.data.rooms.chance import Rng
from eda.data.rooms.forms import box


class Top(NamedTuple):
    """A level rectangle that carries things, in metres in the frame of its `Thing`."""

    x: tuple[float, float]  # from, to
    y: tuple[float, float]
    z: float
    room: float  # height that is free above it


class Thing(NamedTuple):
    """A piece of furniture in its own frame."""

    mesh: Mesh
    tops: tuple[Top, ...] = ()


def legs(rng: Rng, w: float, d: float, h: float, thick: float) -> list[Mesh]:
    """Four square ones below a plate of w x d at height h."""
    edge = rng.uniform(0.01, 0.08)
    corners = [(x, y) for x in (edge, w - edge - thick) for y in (edge, d - edge - thick)]
    return [box((x, y, 0), (x + thick, y + thick, h)) for x, y in corners]


def fronts(rng: Rng, x: float, w: float, d: float, low: float, high: float, rows: int = 1) -> list[Mesh]:
    """A block with doors or drawers that stand out a little, and handles."""
    parts, step = [box((x, 0, low), (x + w, d, high))], (high - low) / rows
    for row in range(rows):
        z, out = low + row * step, rng.uniform(0.015, 0.03)
        if rng.random() < 0.1:
            out = rng.uniform(0.1, 0.4)  # one that was left open
        parts.append(box((x + 0.01, d, z + 0.01), (x + w - 0.01, d + out, z + step - 0.01)))
        at = x + w * rng.choice([0.15, 0.5, 0.85])
        parts.append(box((at - 0.05, d + out, z + 0.7 * step), (at + 0.05, d + out + 0.03, z + 0.7 * step + 0.025)))
    return parts
