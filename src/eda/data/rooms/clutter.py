"""Small objects on walls and tables, by which one place can be told from another."""

from __future__ import annotations

import numpy as np

from eda.data.meshes import Mesh, join_meshes
from eda.data.rooms.chance import Rng
from eda.data.rooms.forms import blob, box, curtain, move_mesh, tilt_mesh, tube
from eda.data.rooms.furniture.thing import fronts

# -- on walls: y = 0 is the wall ------------------------------------------------------------------------------


def hanging(rng: Rng) -> Mesh:
    """A picture, a cupboard, a radiator, a curtain, coats, or a board with books."""
    kinds = (_picture, _cupboard, _radiator, _curtain, _coats, _board)
    low, high = sorted(rng.uniform(0.9, 2.2, 2))
    return kinds[rng.integers(len(kinds))](rng, rng.uniform(0.3, 1.4), low, max(high, low + 0.2))


def _picture(rng: Rng, w: float, low: float, high: float) -> Mesh:
    return box((0, 0, low), (w, rng.uniform(0.02, 0.05), high))


def _cupboard(rng: Rng, w: float, low: float, high: float) -> Mesh:
    return join_meshes(fronts(rng, 0, w, rng.uniform(0.15, 0.4), low, high))


def _radiator(rng: Rng, w: float, low: float, high: float) -> Mesh:
    fins = [box((x, 0.03, 0.12), (x + 0.05, 0.14, 0.7)) for x in np.arange(0, w, 0.08)]
    return join_meshes([box((0, 0.04, 0.15), (w, 0.1, 0.65)), *fins])


def _curtain(rng: Rng, w: float, low: float, high: float) -> Mesh:
    return curtain(rng, w, rng.uniform(0.02, 0.8), 2.3)


def _coats(rng: Rng, w: float, low: float, high: float) -> Mesh:
    coats = [blob(rng, (0.4, 0.2, rng.uniform(0.5, 1)), 0.7, 0.12) for _ in np.arange(0, w, 0.3)]
    return join_meshes([move_mesh(coat, (0.3 * i, 0.12, rng.uniform(0.7, 1))) for i, coat in enumerate(coats)])


def _board(rng: Rng, w: float, low: float, high: float) -> Mesh:
    d, places = rng.uniform(0.15, 0.3), np.arange(0, w, 0.06)
    books = [
        box((x, 0, low), (x + 0.05, d * rng.uniform(0.5, 1), low + rng.uniform(0.1, 0.3)))
        for x in places[rng.random(len(places)) < 0.6]
    ]
    return join_meshes([box((0, 0, low - 0.025), (w, d, low)), *books])


# -- on tables ------------------------------------------------------------------------------------------------


def small(rng: Rng, room: float) -> Mesh:
    """Something for a table or a board, not higher than `room`; centred, on z = 0."""
    low = (_pile, _books, _bottle, _bowl, _packet, _soft, _cup)
    kinds = (*low, _screen, _computer, _lamp) if room > 0.4 else low
    return kinds[rng.integers(len(kinds))](rng, room)


def _pile(rng: Rng, room: float) -> Mesh:
    """Books or papers."""
    parts, z = [], 0.0
    for _ in range(int(rng.integers(1, 5))):
        w, d, thick = rng.uniform((0.07, 0.1, 0.01), (0.13, 0.16, 0.06))
        parts.append(move_mesh(box((-w, -d, 0), (w, d, thick)), (0, 0, z), rng.normal(0, 0.3)))
        z += thick
    return join_meshes(parts)


def _books(rng: Rng, room: float) -> Mesh:
    """In a row."""
    ends = np.cumsum(rng.uniform(0.015, 0.06, int(rng.integers(4, 14))))
    x, tall = ends - ends[-1] / 2, min(rng.uniform(0.18, 0.33), room)
    return join_meshes([box((b - 0.05, -rng.uniform(0.06, 0.12), 0), (b, 0.12, tall * rng.uniform(0.7, 1))) for b in x])


def _bottle(rng: Rng, room: float) -> Mesh:
    r, h = rng.uniform(0.03, 0.06), min(rng.uniform(0.12, 0.32), room)
    return tube([r, r, r / 3, r / 3], [0, 0.65 * h, 0.8 * h, h], 8)


def _bowl(rng: Rng, room: float) -> Mesh:
    r = rng.uniform(0.05, 0.18)
    return tube([0.5 * r, r], [0, min(rng.uniform(0.06, 0.2), room)])


def _cup(rng: Rng, room: float) -> Mesh:
    return tube([0.04, 0.04], [0, 0.1], 8)


def _packet(rng: Rng, room: float) -> Mesh:
    w, d, h = rng.uniform(0.08, 0.4, 3)
    return box((-w / 2, -d / 2, 0), (w / 2, d / 2, min(h, room)))


def _soft(rng: Rng, room: float) -> Mesh:
    size = rng.uniform(0.1, 0.4) * np.array([1, rng.uniform(0.5, 1), 0.7])
    return blob(rng, np.minimum(size, [9, 9, room]), rng.uniform(0.4, 1), 0.14)


def _screen(rng: Rng, room: float) -> Mesh:
    w, top = rng.uniform(0.17, 0.35), min(rng.uniform(0.36, 0.5), room)
    foot = [box((-0.03, -0.06, 0), (0.03, -0.02, 0.3)), box((-0.12, -0.1, 0), (0.12, 0.1, 0.015))]
    return join_meshes([box((-w, -0.02, 0.08), (w, 0.03, top)), *foot])


def _computer(rng: Rng, room: float) -> Mesh:
    """A laptop computer, open."""
    lid = tilt_mesh(box((-0.17, -0.12, 0), (0.17, -0.11, 0.23)), rng.uniform(-0.1, 0.4), (0, -0.12, 0))
    return join_meshes([box((-0.17, -0.12, 0), (0.17, 0.12, 0.02)), lid])


def _lamp(rng: Rng, room: float) -> Mesh:
    h, r = min(rng.uniform(0.3, 0.55), room), rng.uniform(0.08, 0.16)
    return join_meshes([tube([0.08, 0.08], [0, 0.02]), tube([0.015, 0.015], [0, h]), tube([r, 0.6 * r], [0.6 * h, h])])
