"""A spinning lidar on the roof of a car: its beams, and what one rotation of it measures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eda.data.rooms.chance import Rng
from eda.data.streets.bodies import Bodies
from eda.data.streets.height_field import HeightField
from eda.data.streets.ray_casting import Hits, RayPlanes, cast_rays
from eda.errors import InputError
from eda.settings import check_choice, check_positive, check_switch

# By the number of beams, their elevations in degrees: about those of Velodyne's HDL-64E and HDL-32E.
ELEVATIONS = {
    "64": np.concatenate([np.linspace(2.0, -8.33, 32), np.linspace(-8.83, -24.8, 32)]),
    "32": np.linspace(10.67, -30.67, 32),
}
HEIGHT = 1.73  # metres, of the sensor above the road
_NOISE = 0.015  # metres, of a range
_BIAS = 0.012  # metres, how far off a beam is
_LOST = 0.02  # share of echoes that are lost anywhere
# An echo of a surface of reflectance 1 that a ray meets at a right angle is as often lost as not at this range, times
# the root of what other surfaces send back.
_HALF_LOST = 200.0  # metres
_ROUGHNESS = 0.15  # of its strength that is left at a flat angle: no surface is smooth
_SHARPNESS = 1.5  # how suddenly, with falling strength, echoes are lost


@dataclass(frozen=True)
class LidarConfig:
    """A lidar."""

    beams: str = "64"
    azimuth: float = 0.2  # degrees between two firings
    range: float = 80.0  # metres, beyond which nothing is measured
    distortion: bool = False  # leave in the points that the car moves while the lidar turns

    def __post_init__(self) -> None:
        check_choice("beams", self.beams, tuple(ELEVATIONS))
        for name, value, least, most in (("azimuth", self.azimuth, 0.05, 10), ("range", self.range, 5, 150)):
            check_positive(name, value)
            if not least <= value <= most:
                raise InputError(f"{name} must be from {least} to {most}, got {value}")
        check_switch("distortion", self.distortion)


class SensorPose(NamedTuple):
    """Where the lidar is in the middle of a rotation, and how the car moves."""

    turn: np.ndarray  # (3, 3) sensor -> street; x ahead, y to the left, z up
    place: np.ndarray  # (3,)
    advance: float  # metres that it moves ahead during a rotation
    bend: float  # radians that it turns to the left meanwhile

    @property
    def matrix(self) -> np.ndarray:
        """(4, 4) sensor -> street."""
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = self.turn, self.place
        return pose


def sweep(
    pose: SensorPose, ground: HeightField, bodies: Bodies, config: LidarConfig, biases: np.ndarray, rng: Rng
) -> np.ndarray:
    """(n, 3) what one rotation measures, in the frame of the sensor. `biases` (B,) are in metres, one a beam."""
    turns, places = _on_the_way(pose, config)
    planes = _ray_planes(turns, places, config)
    hits = cast_rays(planes, ground, bodies, config.range, rng)
    points, kept = _echoes(planes, hits, config, biases, rng)
    column = np.nonzero(kept)[0]
    return np.einsum("nji,nj->ni", turns[column], points[kept] - places[column])


def draw_biases(config: LidarConfig, rng: Rng) -> np.ndarray:
    """(B,) how far off each beam is, which is the same for a whole drive."""
    return rng.normal(0, _BIAS, len(ELEVATIONS[config.beams]))


def _on_the_way(pose: SensorPose, config: LidarConfig) -> tuple[np.ndarray, np.ndarray]:
    """Where the sensor is at every firing of a rotation: (C, 3, 3) and (C, 3)."""
    count = round(360 / config.azimuth)
    if not config.distortion:
        return np.broadcast_to(pose.turn, (count, 3, 3)), np.broadcast_to(pose.place, (count, 3))
    time = np.linspace(-0.5, 0.5, count)
    c, s, zero = np.cos(time * pose.bend), np.sin(time * pose.bend), np.zeros(count)
    bent = np.stack([c, -s, zero, s, c, zero, zero, zero, zero + 1], axis=1).reshape(-1, 3, 3)
    return pose.turn @ bent, pose.place + (time * pose.advance)[:, None] * pose.turn[:, 0]


def _ray_planes(turns: np.ndarray, places: np.ndarray, config: LidarConfig) -> RayPlanes:
    """Upright planes, and the rays in them that leave the sensor at the elevations of its beams, even if it leans.

    Only the azimuths between which a leaning sensor fires are not quite even.
    """
    count = len(turns)
    azimuth = np.arctan2(turns[:, 1, 0], turns[:, 0, 0]) + np.linspace(math.pi, -math.pi, count, endpoint=False)
    ahead = np.stack([np.cos(azimuth), np.sin(azimuth)], axis=1)
    # Of a ray cos(e) ahead + sin(e) up, the sine of its elevation over the sensor is across cos(e) + upright sin(e).
    across, upright = (turns[:, :2, 2] * ahead).sum(axis=1), turns[:, 2, 2]
    sine = np.sin(np.radians(ELEVATIONS[config.beams])) / np.hypot(across, upright)[:, None]
    elevation = np.arcsin(sine) - np.arctan2(across, upright)[:, None]
    return RayPlanes(places, ahead, np.tan(elevation))


def _echoes(
    planes: RayPlanes, hits: Hits, config: LidarConfig, biases: np.ndarray, rng: Rng
) -> tuple[np.ndarray, np.ndarray]:
    """Points (C, B, 3) as measured, and which (C, B) of them are: fewer, the farther and the flatter rays meet."""
    found = np.isfinite(hits.distance)
    distance, length = np.where(found, hits.distance, 0.0), np.sqrt(1 + planes.slopes**2)
    true = distance * length
    facing = _ROUGHNESS + (1 - _ROUGHNESS) * hits.cosine
    strength = hits.reflectance * facing * (_HALF_LOST / np.maximum(true, 1.0)) ** 2
    echo = (1 - _LOST) * strength**_SHARPNESS / (1 + strength**_SHARPNESS)
    measured = true + biases + rng.normal(0, _NOISE, true.shape)
    kept = found & (rng.random(true.shape) < echo) & (measured < config.range)
    return planes.points(measured / length), kept
