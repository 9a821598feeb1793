"""Forms of triangles, of which rooms are made: nothing is closed or cut, only what a camera sees of it matters."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eda.data.meshes import Mesh, join_meshes
from eda.data.rooms.chance import Rng, bumps

_CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
_SIDES = np.array(
    [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4],
     [1, 5, 7], [1, 7, 3]]
)  # fmt: skip


def move_mesh(mesh: Mesh, place: Sequence[float], yaw: float = 0.0) -> Mesh:
    """Turned about the vertical axis, then shifted."""
    return Mesh(mesh.vertices @ _turn(yaw).T + np.asarray(place), mesh.faces)


def _turn(yaw: float) -> np.ndarray:
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def tilt_mesh(mesh: Mesh, angle: float, pivot: Sequence[float]) -> Mesh:
    """Turned about a line through `pivot` along x."""
    c, s = math.cos(angle), math.sin(angle)
    turn = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    return Mesh((mesh.vertices - pivot) @ turn.T + pivot, mesh.faces)


def box(low: Sequence[float], high: Sequence[float]) -> Mesh:
    """A cuboid between two corners."""
    start = np.asarray(low, dtype=float)
    return Mesh(start + _CORNERS * (np.asarray(high, dtype=float) - start), _SIDES)


def tube(radii: Sequence[float], heights: Sequence[float], sides: int = 10) -> Mesh:
    """A round form about the z axis with a radius at every height, from the bottom up."""
    angle = np.linspace(0, 2 * math.pi, sides + 1)
    r, z = np.array([0, *radii, 0.0]), np.array([heights[0], *heights, heights[-1]])
    return grid(np.stack([r[:, None] * np.cos(angle), r[:, None] * np.sin(angle), np.tile(z[:, None], sides + 1)], -1))


def grid(points: np.ndarray) -> Mesh:
    """The surface through a table of points, (rows, columns, 3); columns x rows is the outward side."""
    rows, columns = points.shape[:2]
    a = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).reshape(-1)
    faces = np.concatenate([np.stack([a, a + 1, a + columns], 1), np.stack([a + 1, a + columns + 1, a + columns], 1)])
    return Mesh(points.reshape(-1, 3), faces)


def blob(rng: Rng, size: Sequence[float] | np.ndarray, square: float = 0.6, uneven: float = 0.06) -> Mesh:
    """Something soft that stands on z = 0: a pillow, a bag, a heap. `square` near 0 is a block, 1 an ellipsoid."""
    lat, lon = np.linspace(-math.pi / 2, math.pi / 2, 10)[:, None], np.linspace(0, 2 * math.pi, 17)[None]
    c, s = _power(np.cos(lat), square), _power(np.sin(lat), square)
    form = np.stack([c * _power(np.cos(lon), square), c * _power(np.sin(lon), square), s + 0 * lon], axis=-1)
    form = form * (1 + uneven * bumps(rng, form.reshape(-1, 3), 2.5).reshape(*form.shape[:2], 1))
    return grid((form * 0.5 + [0, 0, 0.5]) * np.asarray(size))


def _power(values: np.ndarray, exponent: float) -> np.ndarray:
    return np.sign(values) * np.abs(values) ** exponent


def cover(rng: Rng, size: tuple[float, float], z: float, uneven: float, frequency: float = 5.0) -> Mesh:
    """A level cloth from the corner at the origin, uneven by about `uneven` metres."""
    x, y = np.meshgrid(np.linspace(0, size[0], 24), np.linspace(0, size[1], 24))
    height = z + uneven * bumps(rng, np.stack([x.ravel(), y.ravel()], 1), frequency, 10).reshape(x.shape)
    return grid(np.stack([x, y, height], axis=-1))


def curtain(rng: Rng, width: float, low: float, high: float) -> Mesh:
    """A hanging cloth in front of the wall y = 0."""
    x, z = np.meshgrid(np.linspace(0, width, max(int(width / 0.03), 8)), np.linspace(high, low, 8))
    fold, deep = rng.uniform(0.08, 0.2), rng.uniform(0.02, 0.06)
    phase = 2 * math.pi * x / fold + 1.5 * bumps(rng, np.stack([x.ravel(), z.ravel()], 1), 2.0).reshape(x.shape)
    return grid(np.stack([x, 0.1 + deep * np.sin(phase), z], axis=-1))


def basin(low: Sequence[float], high: Sequence[float], wall: float = 0.05) -> Mesh:
    """A box without a lid."""
    (x0, y0, z0), (x1, y1, z1) = low, high
    bottom = z0 + 0.3 * (z1 - z0)
    sides = [box((x, y0, z0), (x + wall, y1, z1)) for x in (x0, x1 - wall)]
    sides += [box((x0, y, z0), (x1, y + wall, z1)) for y in (y0, y1 - wall)]
    return join_meshes([*sides, box((x0, y0, z0), (x1, y1, bottom))])
