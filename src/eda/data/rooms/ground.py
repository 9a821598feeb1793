"""The plan of a room: its outline, and how high it is built up everywhere.

In: chance. Out: where walls run, where there is room for a thing, and where someone with a camera can stand.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.ndimage import maximum_filter

from eda.data.meshes import Mesh
from eda.data.rooms.chance import Rng

_CELL = 0.05  # metres, of the map of heights


class Ground:
    """A rectangle with notches at some of its corners, from the origin to `size`."""

    def __init__(self, rng: Rng) -> None:
        self.size = rng.uniform([3.2, 3.0], [7.5, 6.0])
        self.tall = rng.uniform(2.35, 3.1)
        self.height = np.zeros(np.ceil(self.size / _CELL).astype(int))
        self.outline = np.array(list(itertools.chain(*(self._corner(rng, i) for i in range(4)))))

    def _corner(self, rng: Rng, number: int) -> list[np.ndarray]:
        """A corner of the rectangle, or the three of a notch in its place, anticlockwise."""
        right, top = number in (1, 2), number in (2, 3)
        corner = self.size * [right, top]
        if rng.random() > 0.3:
            return [corner]
        notch = rng.uniform(0.15, 0.45, 2) * self.size
        inner = np.abs(corner - notch)
        x, y = (slice(None, None, -1 if side else 1) for side in (right, top))
        self.height[x, y][: int(notch[0] / _CELL), : int(notch[1] / _CELL)] = np.inf
        along_x, along_y = np.array([inner[0], corner[1]]), np.array([corner[0], inner[1]])
        return [along_x, inner, along_y] if number in (1, 3) else [along_y, inner, along_x]

    def cells(self, mesh: Mesh) -> tuple[np.ndarray, ...] | None:
        """Those below the box around a mesh, or None if it does not stand in the room."""
        low, high = mesh.vertices[:, :2].min(axis=0), mesh.vertices[:, :2].max(axis=0)
        first, last = np.floor(low / _CELL + 0.3).astype(int), np.ceil(high / _CELL - 0.3).astype(int)
        if (first < 0).any() or (last > self.height.shape).any():
            return None
        return tuple(np.meshgrid(np.arange(first[0], last[0]), np.arange(first[1], last[1]), indexing="ij"))

    def claim(self, mesh: Mesh) -> bool:
        """Stand it there if nothing does."""
        cells = self.cells(mesh)
        if cells is None or self.height[cells].any():
            return False
        self.height[cells] = max(mesh.vertices[:, 2].max(), 0.01)
        return True

    def standpoints(self) -> np.ndarray:
        """(n, 2) where someone can hold a camera: no wall or high thing near."""
        around = maximum_filter(self.height, 7, mode="constant", cval=np.inf)
        return (np.argwhere(around < 0.9) + 0.5) * _CELL

    def open_ahead(self, place: np.ndarray, yaw: float) -> bool:
        """Whether a camera sees far enough there: nothing high within a metre, and no wall within two."""
        steps = np.array([0.4, 0.7, 1.0, 1.3, 2.0])[:, None] * [math.cos(yaw), math.sin(yaw)]
        cells = np.floor((place[:2] + steps) / _CELL).astype(int)
        if (cells < 0).any() or (cells >= self.height.shape).any():
            return False
        ahead = self.height[tuple(cells.T)]
        return bool(ahead[:4].max() < 1.1 and ahead[4] < np.inf)

    def walls(self) -> list[tuple[np.ndarray, float, float]]:
        """The start, the direction (an angle) and the length of every wall; the room lies to its left."""
        ends = np.roll(self.outline, -1, axis=0) - self.outline
        return [(a, math.atan2(e[1], e[0]), float(np.hypot(*e))) for a, e in zip(self.outline, ends, strict=True)]
