"""A depth camera: where it is, and which points of a surface one of its images measures."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.ndimage import minimum_filter

from eda.data.rooms.room_surface import SurfacePoints

_WIDTH, _HEIGHT = 96, 72  # of the depth image: a pixel must not be finer than the sample of the surface
_FOCAL = _WIDTH / 2 / math.tan(math.radians(29))  # pixels
_NEAREST, _FARTHEST = 0.4, 4.2  # metres, what it measures
_FLATTEST = 0.15  # cosine between a surface's normal and the ray beyond which nothing comes back


class CameraFrame(NamedTuple):
    """A pose of the camera: x to the right, y down, z ahead."""

    turn: np.ndarray  # (3, 3) camera -> room
    place: np.ndarray  # (3,)

    def local(self, points: np.ndarray) -> np.ndarray:
        """From the room's frame to the camera's. (n, 3) -> (n, 3), of the same precision."""
        return (points - self.place.astype(points.dtype)) @ self.turn.astype(points.dtype)


def camera_frame(place: np.ndarray, yaw: float, pitch: float, roll: float) -> CameraFrame:
    """A camera that looks along `yaw`, raised by `pitch`, and held aslant by `roll`."""
    c, s = math.cos(pitch), math.sin(pitch)
    ahead = np.array([math.cos(yaw) * c, math.sin(yaw) * c, s])
    right = np.array([math.sin(yaw), -math.cos(yaw), 0.0])
    down = np.cross(ahead, right)
    right, down = math.cos(roll) * right + math.sin(roll) * down, math.cos(roll) * down - math.sin(roll) * right
    return CameraFrame(np.stack([right, down, ahead], axis=1), place)


def visible(surface: SurfacePoints, frame: CameraFrame) -> np.ndarray:
    """The rows that a frame measures: in its picture, not hidden, not seen too flatly, not too far."""
    local = frame.local(surface.points)
    rows, pixel = _in_picture(local)
    local = local[rows]
    z = local[:, 2]
    depth = np.full(_WIDTH * _HEIGHT, np.inf, dtype=np.float32)
    np.minimum.at(depth, pixel, z)
    front = minimum_filter(depth.reshape(_HEIGHT, _WIDTH), 3).reshape(-1)  # the sample has gaps near the camera
    distance = np.linalg.norm(local, axis=1)
    facing = -np.einsum("ni,ni->n", surface.normals[rows], local @ frame.turn.T.astype(np.float32)) / distance
    slope = np.sqrt(np.maximum(1 - facing**2, 0)) / np.maximum(facing, 0.1)
    allowed = 0.03 + 1.5 / _FOCAL * z * slope  # within a pixel and its neighbours a slanting surface has many depths
    seen = (facing > _FLATTEST) & (z < front[pixel] + allowed) & (distance < surface.reach[rows])
    return rows[seen]


def _in_picture(local: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that fall into the picture, and the numbers of their pixels."""
    x, y, z = local.T
    with np.errstate(divide="ignore", invalid="ignore"):
        u, v = _FOCAL * x / z + _WIDTH / 2, _FOCAL * y / z + _HEIGHT / 2
    inside = (z > _NEAREST) & (z < _FARTHEST) & (u >= 0) & (u < _WIDTH) & (v >= 0) & (v < _HEIGHT)
    rows = np.flatnonzero(inside)
    return rows, v[rows].astype(np.int64) * _WIDTH + u[rows].astype(np.int64)
