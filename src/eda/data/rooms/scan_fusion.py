"""Scans: what the frames of a moving camera see, fused into one cloud, with the errors of such a fusion.

In: a surface as a dense sample. Out: the 5 cm means of what a short path of the camera saw, as the fragments of 3DMatch
have them: fused in a cube of 3 m in front of the first camera, and cut by it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from eda.data.rooms.chance import Rng, waves
from eda.data.rooms.depth_camera import CameraFrame, visible
from eda.data.rooms.room_surface import SurfacePoints

GRID = 0.05  # metres, of the means
_CUBE_LOW, _CUBE_HIGH = np.array([-1.5, -1.5, 0.5]), np.array([1.5, 1.5, 3.5])  # in the first camera's frame
_MARGIN = 0.5  # around the cube, what may stand before what is in it
_COMPANY = 7  # points within two cells and a half, itself among them, without which a point is taken for an error
_COPIES, _LAYER = 3, (0.011, 0.009)  # of a sampled point in the fused layer; its half width, along and across


class FusedScan(NamedTuple):
    """Means over the cells of a grid in the frame of the first camera."""

    points: np.ndarray  # (n, 3) as measured
    true: np.ndarray  # (n, 3) where they are, in the room's frame
    frame: CameraFrame


def scan_surface(surface: SurfacePoints, path: list[CameraFrame], rng: Rng) -> FusedScan:
    """The cloud that the frames of a path see of the surface, with errors of tracking, depth and fusion."""
    local = path[0].local(surface.points)
    rows = np.flatnonzero(_within(local, _MARGIN))
    near = SurfacePoints(*(array[rows] for array in surface))
    views, shift = np.zeros(len(rows)), np.zeros((len(rows), 3))  # how many frames see a point, and by how much off
    for frame, (turn, step) in zip(path, _drifts(rng, len(path)), strict=True):
        seen = visible(near, frame)
        views[seen] += 1
        arm = near.points[seen] - frame.place
        shift[seen] += np.cross(turn, arm) + step
    kept = np.flatnonzero(views > 0)
    kept = kept[_within(local[rows[kept]], 0.0)]
    kept = kept[_present(rng, near.points[kept])]
    true = near.points[kept].astype(np.float64)
    middle = path[len(path) // 2].place
    measured = true + shift[kept] / views[kept, None] + _depth_error(rng, true, true - middle)
    return _means(path[0], _thick(rng, measured, near.normals[kept]), np.tile(true, (_COPIES, 1)))


def _within(local: np.ndarray, margin: float) -> np.ndarray:
    """(n,) which points, in the frame of the first camera, lie in the cube or within a margin around it."""
    sides = zip(local.T, _CUBE_LOW - margin, _CUBE_HIGH + margin, strict=True)
    return np.logical_and.reduce([(x > float(low)) & (x < float(high)) for x, low, high in sides])


def _drifts(rng: Rng, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The error of tracking at every frame, as a small turn and shift; it grows along the path."""
    turns = np.cumsum(rng.normal(0, math.radians(0.12), (count, 3)), axis=0)
    steps = np.cumsum(rng.normal(0, 0.002, (count, 3)), axis=0)
    return list(zip(turns, steps, strict=True))


def _present(rng: Rng, points: np.ndarray) -> np.ndarray:
    """Rows left when patches fail to be measured."""
    field = waves(rng, points, (0.25, 1.0), 10)
    return np.flatnonzero(field < rng.uniform(2.1, 3.3))


def _depth_error(rng: Rng, points: np.ndarray, ray: np.ndarray) -> np.ndarray:
    """Along the rays, growing with the square of their length: bent over metres, uneven over decimetres, and noise."""
    distance = np.linalg.norm(ray, axis=1)
    bent = rng.uniform(0.001, 0.004) * waves(rng, points, (0.8, 3.0), 8)
    uneven = rng.uniform(0.0008, 0.0026) * waves(rng, points, (0.08, 0.3), 16)
    noise = rng.uniform(0.0005, 0.0015) * rng.normal(size=len(points))
    return ((bent + uneven + noise) * distance)[:, None] * ray


def _thick(rng: Rng, points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Several points in place of each one, around it: fusion leaves a layer of small cells, not a surface."""
    count = _COPIES * len(points)
    around = rng.uniform(-_LAYER[0], _LAYER[0], (count, 3))
    across = rng.uniform(-_LAYER[1], _LAYER[1], (count, 1))
    normals = np.tile(normals, (_COPIES, 1))
    around -= np.einsum("ni,ni->n", around, normals)[:, None] * normals
    return np.tile(points, (_COPIES, 1)) + around + across * normals


def _means(frame: CameraFrame, measured: np.ndarray, true: np.ndarray) -> FusedScan:
    """One point for every cell, and the mean of where its points truly are."""
    if not len(measured):
        return FusedScan(measured, true, frame)
    local = frame.local(measured)
    corner = np.floor(local / GRID).astype(np.int64) + 1024
    number = (corner[:, 0] << 22) | (corner[:, 1] << 11) | corner[:, 2]
    _, cell, size = np.unique(number, return_inverse=True, return_counts=True)
    points, places = (np.stack([np.bincount(cell, x) for x in v.T], axis=1) / size[:, None] for v in (local, true))
    company = cKDTree(points).query(points, min(_COMPANY, len(points)), distance_upper_bound=2.5 * GRID)[0]
    kept = np.isfinite(company[:, -1])
    return FusedScan(points[kept], places[kept], frame)
