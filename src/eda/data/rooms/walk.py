"""Where the camera goes in a room, at the height of a hand."""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial import cKDTree

from eda.data.rooms.chance import Rng
from eda.data.rooms.depth_camera import CameraFrame, camera_frame
from eda.data.rooms.ground import Ground

_DOWN = math.radians(-23)  # one who scans a room looks down


def paths(rng: Rng, ground: Ground, count: int) -> list[list[CameraFrame]]:
    """Where the camera goes: some scans begin near the end of the one before, others anywhere."""
    spots = ground.standpoints()
    if not len(spots):
        return []
    tree, made = cKDTree(spots), []
    place, yaw, pitch = np.zeros(3), 0.0, 0.0
    for number in range(count):
        place = place + rng.normal(0, 0.35, 3) * [1, 1, 0.3]
        yaw, pitch = yaw + rng.normal(0, math.radians(30)), (pitch + _DOWN + rng.normal(0, math.radians(8))) / 2
        if not number or rng.random() < 0.4 or not ground.open_ahead(place, yaw):
            place, yaw = _view(rng, ground, spots)
            pitch = _DOWN + rng.normal(0, math.radians(9))
        place[:2], place[2] = spots[tree.query(place[:2])[1]], np.clip(place[2], 1.1, 1.75)
        pitch = float(np.clip(pitch, -0.8, -0.08))
        frames, place, yaw, pitch = _path(rng, place, yaw, pitch)
        made.append(frames)
    return made


def _view(rng: Rng, ground: Ground, spots: np.ndarray) -> tuple[np.ndarray, float]:
    """A place to stand, and a direction in which there is something to see and not too near."""
    for _ in range(50):
        place, yaw = np.append(spots[rng.integers(len(spots))], rng.uniform(1.15, 1.7)), rng.uniform(0, 2 * math.pi)
        if ground.open_ahead(place, yaw):
            break
    return place, yaw


def _path(rng: Rng, place: np.ndarray, yaw: float, pitch: float) -> tuple[list[CameraFrame], np.ndarray, float, float]:
    """Five frames of a smooth motion, and where it ends."""
    step = rng.normal(0, 0.2, 3) * [1, 1, 0.4]
    turn, nod, roll = rng.normal(0, math.radians(16)), rng.normal(0, math.radians(4)), rng.normal(0, math.radians(4))
    times = np.linspace(0, 1, 5)
    frames = [camera_frame(place + t * step, yaw + t * turn, pitch + t * nod, roll) for t in times]
    return frames, place + step, yaw + turn, pitch + nod
