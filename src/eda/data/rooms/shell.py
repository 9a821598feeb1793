"""The shell of a room: floor, ceiling, and walls with doors, windows, recesses and what hangs on them."""

from __future__ import annotations

import numpy as np

from eda.data.meshes import Mesh, join_meshes
from eda.data.rooms.chance import Rng
from eda.data.rooms.clutter import hanging
from eda.data.rooms.forms import box, cover, move_mesh, tube
from eda.data.rooms.ground import Ground
from eda.data.rooms.room_surface import Contents


def build_shell(rng: Rng, ground: Ground, contents: Contents) -> None:
    """Floor, ceiling, walls with their openings, and what hangs there."""
    w, d = ground.size
    contents.add(_level(w, d, 0.0))
    if rng.random() < 0.7:
        ceiling = _level(w, d, ground.tall)
        contents.add(Mesh(ceiling.vertices, ceiling.faces[:, ::-1]))
    for start, yaw, length in ground.walls():
        parts, left = _wall(rng, length, ground.tall)
        for s in left:
            if rng.random() < 0.6:
                parts.append(move_mesh(hanging(rng), (s, 0, 0)))
        contents.add(move_mesh(join_meshes(parts), (*start, 0), yaw))
    for _ in range(rng.integers(3)):  # carpets
        size = rng.uniform(0.8, 2.2, 2)
        contents.add(move_mesh(cover(rng, tuple(size), 0.015, 0.004), (*rng.uniform(0, ground.size - size / 2), 0)))
    for _ in range(rng.integers(3)):  # lamps below the ceiling
        shade = join_meshes([tube([0.25, 0.1], [-0.6, -0.4]), tube([0.01, 0.01], [-0.4, 0])])
        contents.add(move_mesh(shade, (*rng.uniform(0.2, 0.8, 2) * ground.size, ground.tall)))


def _wall(rng: Rng, length: float, tall: float) -> tuple[list[Mesh], list[float]]:
    """A wall along x as panels around doors, windows and recesses; and where along it something may hang."""
    parts, free, s = [], [], 0.0
    while s < length:
        plain = rng.uniform(0.3, 2.0)
        wide = rng.uniform(0.6, 1.6)
        if s + plain + wide > length or rng.random() < 0.3:
            wide, plain = 0.0, min(plain + 0.5, length - s)
        parts += _panel(s, s + plain, 0, tall)
        if rng.random() < 0.7:
            parts.append(box((s, 0, 0), (s + plain, 0.015, 0.09)))  # skirting
        free += list(np.arange(s + 0.05, s + plain, rng.uniform(0.5, 1.3)))
        if wide:
            parts += _opening(rng, s + plain, s + plain + wide, tall)
        s += plain + wide
    return parts, free


def _panel(x0: float, x1: float, z0: float, z1: float, y: float = 0.0) -> list[Mesh]:
    """A rectangle that is seen from the side of larger y."""
    corners = np.array([[x0, y, z0], [x1, y, z0], [x1, y, z1], [x0, y, z1]], dtype=float)
    return [Mesh(corners, np.array([[0, 2, 1], [0, 3, 2]]))] if z1 > z0 and x1 > x0 else []


def _level(w: float, d: float, z: float) -> Mesh:
    """A floor, which is seen from above."""
    corners = np.array([[0, 0, z], [w, 0, z], [w, d, z], [0, d, z]], dtype=float)
    return Mesh(corners, np.array([[0, 1, 2], [0, 2, 3]]))


def _opening(rng: Rng, x0: float, x1: float, tall: float) -> list[Mesh]:
    """A door or a window: wall below and above, the reveal, and what is at its end."""
    low = rng.choice([0.0, rng.uniform(0.6, 1.1)])
    high = min(rng.uniform(1.9, 2.2), tall)
    deep = rng.choice([rng.uniform(0.05, 0.35), rng.uniform(0.6, 1.5)], p=[0.8, 0.2])
    parts = _panel(x0, x1, 0, low) + _panel(x0, x1, high, tall)
    parts += [box((x0 - 0.05, -deep, low), (x0, 0, high)), box((x1, -deep, low), (x1 + 0.05, 0, high))]
    parts += [box((x0, -deep, high), (x1, 0, high + 0.05)), box((x0, -deep, low - 0.05), (x1, 0.03 * (low > 0), low))]
    if rng.random() < 0.6:  # a frame
        edge = rng.uniform(0.04, 0.12)
        parts += [box((x, 0, low), (x + edge, 0.025, high + edge)) for x in (x0 - edge, x1)]
        parts.append(box((x0, 0, high), (x1, 0.025, high + edge)))
    if low and rng.random() < 0.6:  # glass is not seen, its bars are
        parts += [box((x, -deep, low), (x + 0.05, 0.05 - deep, high)) for x in np.linspace(x0, x1 - 0.05, 3)]
        return parts
    return parts + _panel(x0, x1, low, high, -deep)
