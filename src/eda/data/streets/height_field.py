"""The ground as a table of heights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class HeightField(NamedTuple):
    """A height at every corner of square cells; between corners, bilinear; beyond the table, that of its rim."""

    corner: np.ndarray  # (2,) where the table begins
    cell: float  # metres
    heights: np.ndarray  # (rows along x, columns along y)

    def height(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The height at any places, arrays of one shape."""
        rows, columns = self.heights.shape
        u = np.clip((x - self.corner[0]) / self.cell, 0, rows - 1.001)
        v = np.clip((y - self.corner[1]) / self.cell, 0, columns - 1.001)
        i, j = u.astype(np.int64), v.astype(np.int64)
        u, v, flat = u - i, v - j, self.heights.reshape(-1)
        first = i * columns + j
        low = flat[first] + v * (flat[first + 1] - flat[first])
        high = flat[first + columns] + v * (flat[first + columns + 1] - flat[first + columns])
        return low + u * (high - low)

    def at(self, place: np.ndarray | tuple[float, float]) -> float:
        """The height at one place."""
        return float(self.height(np.asarray(place[0]), np.asarray(place[1])))

    def slopes(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How steeply it rises along x and y, over a step of half a cell to each side."""
        step = self.cell / 2
        along_x = self.height(x + step, y) - self.height(x - step, y)
        along_y = self.height(x, y + step) - self.height(x, y - step)
        return along_x / (2 * step), along_y / (2 * step)
