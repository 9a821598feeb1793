"""The drive: where along a road the frames of a clip are taken, and how the sensor leans there."""

from __future__ import annotations

import math

import numpy as np

from eda.data.rooms.chance import Rng
from eda.data.streets.centrelines import Centreline
from eda.data.streets.height_field import HeightField
from eda.data.streets.lidar import HEIGHT, SensorPose

_STEP = 0.5  # metres along the road between places where a frame may be taken
_AXLES, _TRACK = 2.7, 1.6  # metres between wheels
_ROTATION = 0.1  # seconds of a rotation of the lidar
_SHAKE = math.radians(0.3)  # of roll and pitch, beside the slope of the road


def find_stops(
    rng: Rng, line: Centreline, aside: float, count: int, spacing: tuple[float, float], begin: float
) -> np.ndarray | None:
    """(count,) how far along the line the frames of a drive beside it are, from `begin` on; None if it is too short.

    A frame is the first place that is far enough from the one before, as the crow flies.
    """
    found, apart = [begin], rng.uniform(*spacing)
    last = np.array(line.at(begin, aside)[:2])
    for along in np.arange(begin, line.length, _STEP):
        if len(found) == count:
            break
        here = np.array(line.at(along, aside)[:2])
        if np.linalg.norm(here - last) >= apart:
            found.append(along)
            last, apart = here, rng.uniform(*spacing)
    return np.array(found) if len(found) == count else None


def sensor_pose(rng: Rng, line: Centreline, along: float, aside: float, ground: HeightField) -> SensorPose:
    """The lidar of a car on its lane: it leans as its four wheels stand, and a little beside."""
    x, y, heading = line.at(along, aside)
    heading += rng.normal(0, math.radians(0.8))
    ahead, left = np.array([math.cos(heading), math.sin(heading)]), np.array([-math.sin(heading), math.cos(heading)])
    place = np.array([x, y])
    front, back = (ground.at(place + side * _AXLES / 2 * ahead) for side in (1, -1))
    port, starboard = (ground.at(place + side * _TRACK / 2 * left) for side in (1, -1))
    rise, lean = (front - back) / _AXLES + rng.normal(0, _SHAKE), (port - starboard) / _TRACK + rng.normal(0, _SHAKE)
    x_axis, y_axis = np.append(ahead, rise), np.append(left, lean)
    up = np.cross(x_axis, y_axis)
    up, x_axis = up / np.linalg.norm(up), x_axis / np.linalg.norm(x_axis)
    turn = np.stack([x_axis, np.cross(up, x_axis), up], axis=1)
    speed = rng.uniform(3, 14)
    after = line.heading[min(int(along) + 1, line.length)] - line.heading[min(int(along), line.length - 1)]
    middle = np.append(place, (front + back) / 2) + HEIGHT * up
    return SensorPose(turn, middle, speed * _ROTATION, float(after) * speed * _ROTATION)
