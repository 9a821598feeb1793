"""Tables, desks and pianos."""

from __future__ import annotations

import math

from eda.data.meshes import join_meshes
from eda.data.rooms.chance import Rng
from eda.data.rooms.forms import box, move_mesh, tube
from eda.data.rooms.furniture.seats import chair
from eda.data.rooms.furniture.thing import Thing, Top, fronts, legs


def table(rng: Rng) -> Thing:
    """For work, for meals, or low; some are round."""
    h = rng.choice([rng.uniform(0.35, 0.5), rng.uniform(0.68, 0.78)], p=[0.3, 0.7])
    w, d = rng.uniform(0.8, 2.0), rng.uniform(0.5, 1.0)
    thick = rng.uniform(0.02, 0.05)
    if rng.random() < 0.2:
        r = d / 2 + 0.1
        whole = join_meshes([tube([0.3, 0.04, 0.04], [0, 0.05, h]), tube([r, r], [h - thick, h], 20)])
        inner = 0.6 * r
        return Thing(move_mesh(whole, (r, r, 0)), (Top((r - inner, r + inner), (r - inner, r + inner), h, 1.0),))
    parts = [box((0, 0, h - thick), (w, d, h)), *legs(rng, w, d, h, rng.uniform(0.04, 0.08))]
    if rng.random() < 0.4:  # drawers
        parts += fronts(rng, rng.uniform(0.05, 0.6) * w, 0.4, d - 0.05, 0.1, h - thick, 3)
    if rng.random() < 0.3:
        parts.append(box((0.05, 0.02, 0.2), (w - 0.05, 0.04, h)))
    return Thing(join_meshes(parts), (Top((0.05, w - 0.05), (0.05, d - 0.05), h, 1.0),))


def desks(rng: Rng) -> Thing:
    """A row of equal desks with screens, as in an office; the same again and again, but for what lies on them."""
    w, d, h = rng.uniform(1.0, 1.6), rng.uniform(0.6, 0.8), rng.uniform(0.7, 0.76)
    count, parts, tops = int(rng.integers(2, 5)), [], []
    screen = box((w / 2 - 0.28, 0.2, h + 0.1), (w / 2 + 0.28, 0.24, h + 0.45))
    foot = box((w / 2 - 0.1, 0.12, h), (w / 2 + 0.1, 0.2, h + 0.3))
    fence = rng.choice([0.0, 1.1, 1.4])
    for number in range(count):
        at = (number * w, 0, 0)
        desk = [box((0, 0, h - 0.03), (w - 0.02, d, h)), *legs(rng, w - 0.02, d, h, 0.05)]
        desk += [screen, foot] if rng.random() < 0.8 else []
        desk += [box((-0.02, 0, 0), (0.01, d, fence))] if fence else []
        desk += fronts(rng, w - 0.45, 0.4, d - 0.05, 0.05, 0.6, 3) if rng.random() < 0.6 else []
        parts.append(move_mesh(join_meshes(desk), at))
        if rng.random() < 0.7:
            seat = move_mesh(chair(rng).mesh, (-0.22, 0, 0))
            parts.append(
                move_mesh(seat, (number * w + w / 2, d + rng.uniform(0.3, 0.7), 0), math.pi + rng.normal(0, 0.5))
            )
        tops.append(Top((at[0] + 0.05, at[0] + w - 0.1), (0.05, d - 0.05), h, 0.5))
    return Thing(join_meshes(parts), tuple(tops))


def piano(rng: Rng) -> Thing:
    """An upright one; also a desk with a hutch, or a machine with a shelf in front."""
    w, h = rng.uniform(0.7, 1.5), rng.uniform(0.9, 1.5)
    parts = [box((0, 0, 0), (w, 0.3, h)), box((0, 0.3, 0.6), (w, 0.6, 0.72))]
    parts += [box((x, 0.3, 0), (x + 0.08, 0.55, 0.6)) for x in (0.0, w - 0.08)]
    return Thing(
        join_meshes(parts),
        (Top((0.05, w - 0.05), (0.03, 0.27), h, 0.5), Top((0.05, w - 0.05), (0.32, 0.55), 0.72, 0.3)),
    )
