"""The plan of the streets: where roads are, how high the ground is, and what is taken.

In: the middles of roads. Out: a height field with slopes, cambered roads, kerbs and uneven ground beside them, and for
everything that wants to stand somewhere whether it can.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter

from eda.data.rooms.chance import Rng
from eda.data.streets.centrelines import Centreline
from eda.data.streets.height_field import HeightField

_CELL = 0.5  # metres
_MARGIN = 60.0  # metres around the roads
_FAR = 20.0  # metres from a road, beyond which the distance does not matter
_KERB, _CAMBER = 0.12, 0.02  # metres, and metres per metre
_SLOPE_WAVES, _ROUGH_WAVES = (150.0, 600.0), (8.0, 45.0)  # metres


class Road(NamedTuple):
    """A road with its pavements."""

    line: Centreline
    half_width: float
    pavement: float  # width of each


class GroundPlan:
    """Cells of half a metre around all roads."""

    def __init__(self, rng: Rng, roads: Sequence[Road], steep: float, rough: float) -> None:
        points = np.concatenate([road.line.points for road in roads])
        self.corner = points.min(axis=0) - _MARGIN
        self.shape = tuple(np.ceil((points.max(axis=0) + _MARGIN - self.corner) / _CELL).astype(int))
        self.edge = np.full(self.shape, _FAR, dtype=np.float32)  # metres from the nearest road, negative on it
        self.taken = np.zeros(self.shape, dtype=bool)
        for road in roads:
            self._lay(road)
        self.ground = HeightField(self.corner, _CELL, self._heights(rng, steep, rough))

    def _lay(self, road: Road) -> None:
        """Enter the distances from a road, and take it and its pavements."""
        radius = math.ceil((road.half_width + _FAR) / _CELL)
        cells = np.rint((road.line.points - self.corner) / _CELL).astype(int)
        for (x, y), (i, j) in zip(road.line.points, cells, strict=True):
            rows, columns = slice(max(i - radius, 0), i + radius + 1), slice(max(j - radius, 0), j + radius + 1)
            there = self.edge[rows, columns]
            along_x = (np.arange(rows.start, rows.start + there.shape[0]) * _CELL + (self.corner[0] - x)) ** 2
            along_y = (np.arange(columns.start, columns.start + there.shape[1]) * _CELL + (self.corner[1] - y)) ** 2
            distance = np.sqrt(along_x[:, None] + along_y, dtype=np.float32) - np.float32(road.half_width)
            np.minimum(there, distance, out=there)
            self.taken[rows, columns] |= distance < road.pavement

    def _heights(self, rng: Rng, steep: float, rough: float) -> np.ndarray:
        """Slopes of about `steep`, roads with camber and kerbs, and ground beside them uneven by `rough` metres."""
        low, bumpy = _KERB + 0.01, np.clip((self.edge - 2) / 6, 0, 1)
        height = self._waves(rng, _SLOPE_WAVES, 6, steep * 375 / (2 * math.pi))
        height += low * np.clip(self.edge / 0.4 + 0.5, 0, 1) - _CAMBER * np.clip(self.edge + 3, 0, 3)
        height += bumpy * self._waves(rng, _ROUGH_WAVES, 8, rough)
        grass = gaussian_filter(rng.normal(0, 1, self.shape).astype(np.float32), 1.0) * 3.5
        return (height + 0.1 * min(rough + 0.3, 1) * np.clip((self.edge - 1) / 3, 0, 1) * grass).astype(np.float64)

    def _waves(self, rng: Rng, lengths: tuple[float, float], count: int, size: float) -> np.ndarray:
        """A sum of level waves of a length in this range, with a standard deviation of `size`."""
        x, y = (_CELL * np.arange(n) for n in self.shape)
        total = np.zeros(self.shape, dtype=np.float32)
        for _ in range(count):
            length = math.exp(rng.uniform(*np.log(lengths)))
            angle, start = rng.uniform(0, 2 * math.pi, 2)
            kx, ky = 2 * math.pi / length * np.array([math.cos(angle), math.sin(angle)])
            # cos(a + b), so that no table of cosines is needed.
            total += np.outer(np.cos(kx * x + start), np.cos(ky * y)).astype(np.float32)
            total -= np.outer(np.sin(kx * x + start), np.sin(ky * y)).astype(np.float32)
        return size * math.sqrt(2 / count) * total

    def cells(self, x: float, y: float, half: tuple[float, float], yaw: float) -> tuple[np.ndarray, np.ndarray] | None:
        """The cells under a rectangle, or None if it reaches beyond the plan."""
        counts = [max(int(2 * h / (0.8 * _CELL)) + 1, 2) for h in half]
        u, v = np.meshgrid(*(np.linspace(-h, h, n) for h, n in zip(half, counts, strict=True)))
        c, s = math.cos(yaw), math.sin(yaw)
        i = ((x + c * u - s * v - self.corner[0]) / _CELL).astype(int).ravel()
        j = ((y + s * u + c * v - self.corner[1]) / _CELL).astype(int).ravel()
        if i.min() < 0 or j.min() < 0 or i.max() >= self.shape[0] or j.max() >= self.shape[1]:
            return None
        return i, j

    def claim(self, x: float, y: float, half: tuple[float, float], yaw: float = 0.0) -> bool:
        """Take a rectangle if nothing has."""
        cells = self.cells(x, y, half, yaw)
        if cells is None or self.taken[cells].any():
            return False
        self.taken[cells] = True
        return True

    def from_edge(self, x: float, y: float) -> float:
        """How far from the nearest road, negative on it."""
        i, j = int((x - self.corner[0]) / _CELL), int((y - self.corner[1]) / _CELL)
        inside = 0 <= i < self.shape[0] and 0 <= j < self.shape[1]
        return float(self.edge[i, j]) if inside else _FAR
