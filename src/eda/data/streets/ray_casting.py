"""Rays against ground and bodies.

A spinning lidar fires all its beams at one azimuth nearly at once. Here the rays of an azimuth lie exactly in one
upright plane, also where the sensor leans (`lidar.py` chooses them so). In such a plane every ray is a slope, the
ground is a line, and a body is an interval: what a ray hits is a problem in two dimensions. Distances are horizontal.

In: planes with their rays, a height field, bodies. Out: for every ray how far away it hits something, and what.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eda.data.streets.bodies import BOX, ELLIPSOID, Bodies
from eda.data.streets.height_field import HeightField

_NEAREST = 0.5  # metres: nothing nearer is seen
_STEPS = 260  # along the ground, each longer than the one before by the same factor
_SLACK = 5.0  # metres that the sensor moves during a rotation, at most
_COLUMNS_AT_ONCE = 64  # which bounds memory, and keeps it near the processor
GROUND_REFLECTANCE = 0.25


class RayPlanes(NamedTuple):
    """C upright half-planes that begin at the sensor, with B rays each."""

    origins: np.ndarray  # (C, 3)
    ahead: np.ndarray  # (C, 2) unit
    slopes: np.ndarray  # (C, B) rise for every metre ahead

    def points(self, distance: np.ndarray) -> np.ndarray:
        """The points (C, B, 3) of the rays at these horizontal distances (C, B)."""
        across = self.origins[:, None, :2] + distance[..., None] * self.ahead[:, None]
        return np.concatenate([across, (self.origins[:, None, 2] + distance * self.slopes)[..., None]], axis=-1)

    def rows(self, chosen: slice) -> RayPlanes:
        """Some of the planes."""
        return RayPlanes(*(array[chosen] for array in self))


class Hits(NamedTuple):
    """What C x B rays meet first."""

    distance: np.ndarray  # (C, B) horizontal, infinite where there is nothing
    cosine: np.ndarray  # (C, B) between the ray and the surface's normal, 0 to 1
    reflectance: np.ndarray  # (C, B)


def cast_rays(planes: RayPlanes, ground: HeightField, bodies: Bodies, reach: float, rng: np.random.Generator) -> Hits:
    """The first thing that every ray meets within a horizontal distance of `reach`."""
    offset = np.linalg.norm(bodies.middle[:, :2] - planes.origins[:, :2].mean(axis=0), axis=1)
    bodies = bodies.rows(offset < reach + np.hypot(bodies.half[:, 0], bodies.half[:, 1]) + _SLACK)
    parts = []
    for first in range(0, len(planes.origins), _COLUMNS_AT_ONCE):
        some = planes.rows(slice(first, first + _COLUMNS_AT_ONCE))
        below = cast_on_ground(some, ground, reach)
        distance, row = cast_on_bodies(some, bodies, reach, rng)
        parts.append(_nearer(some, ground, bodies, below, distance, row))
    return Hits(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _nearer(
    planes: RayPlanes, ground: HeightField, bodies: Bodies, below: np.ndarray, distance: np.ndarray, row: np.ndarray
) -> Hits:
    """Of the hits on the ground and on bodies, those that come first, with the surface there."""
    nearest = np.minimum(below, distance)
    on_body = np.nonzero((distance < below) & np.isfinite(distance))
    on_ground = np.nonzero((below <= distance) & np.isfinite(below))
    cosine, reflectance = np.zeros_like(nearest), np.zeros_like(nearest)
    hit = planes.points(np.where(np.isfinite(nearest), nearest, 0.0))
    rays = np.concatenate([np.broadcast_to(planes.ahead[:, None], (*nearest.shape, 2)), planes.slopes[..., None]], 2)
    rays = rays / np.linalg.norm(rays, axis=-1, keepdims=True)
    x, y = ground.slopes(hit[on_ground][:, 0], hit[on_ground][:, 1])
    up = np.stack([-x, -y, np.ones_like(x)], axis=1) / np.sqrt(1 + x**2 + y**2)[:, None]
    cosine[on_ground] = np.abs((up * rays[on_ground]).sum(axis=1))
    reflectance[on_ground] = GROUND_REFLECTANCE
    met = bodies.rows(row[on_body])
    cosine[on_body] = np.where(met.depth > 0, 1.0, np.abs((_normals(met, hit[on_body]) * rays[on_body]).sum(axis=1)))
    reflectance[on_body] = met.reflectance
    return Hits(nearest, cosine, reflectance)


# -- ground ----------------------------------------------------------------------------------------------------


def cast_on_ground(planes: RayPlanes, ground: HeightField, reach: float) -> np.ndarray:
    """(C, B) how far away the rays meet the ground; infinite where they do not.

    A ray meets the ground where the horizon, the steepest view of the ground up to there, rises to the ray.
    """
    steps = np.geomspace(_NEAREST, reach, _STEPS)
    x, y = (planes.origins[:, None, k] + steps * planes.ahead[:, None, k] for k in (0, 1))
    view = (ground.height(x, y) - planes.origins[:, 2:]) / steps
    horizon = np.maximum.accumulate(view, axis=1)
    first = (horizon[:, None, :] < planes.slopes[:, :, None]).sum(axis=2)
    met = (first > 0) & (first < _STEPS)
    column, beam = np.nonzero(met)
    far = first[column, beam]
    distance = np.full(planes.slopes.shape, np.inf)
    distance[column, beam] = _between(planes, ground, column, beam, steps[far - 1], steps[far])
    return distance


def _between(
    planes: RayPlanes, ground: HeightField, column: np.ndarray, beam: np.ndarray, near: np.ndarray, far: np.ndarray
) -> np.ndarray:
    """(n,) where rays that are above the ground at `near` and below it at `far` meet it: the false position, thrice."""
    origin, ahead, slope = planes.origins[column], planes.ahead[column], planes.slopes[column, beam]

    def clearance(distance: np.ndarray) -> np.ndarray:
        x, y = (origin[:, k] + distance * ahead[:, k] for k in (0, 1))
        return origin[:, 2] + distance * slope - ground.height(x, y)

    above, below = clearance(near), clearance(far)
    for _ in range(3):
        middle = near + (far - near) * above / np.maximum(above - below, 1e-12)
        gap = clearance(middle)
        near, above = np.where(gap > 0, middle, near), np.where(gap > 0, gap, above)
        far, below = np.where(gap > 0, far, middle), np.where(gap > 0, below, gap)
    return near + (far - near) * above / np.maximum(above - below, 1e-12)


# -- bodies ----------------------------------------------------------------------------------------------------


class _Chords(NamedTuple):
    """P pairs of a plane and a body whose plan it crosses, sorted by plane."""

    column: np.ndarray  # (P,)
    body: np.ndarray  # (P,)
    enter: np.ndarray  # (P,) horizontal distances
    leave: np.ndarray  # (P,)
    height: np.ndarray  # (P,) half of that of the section; less than the body's where an ellipsoid is cut aside


def cast_on_bodies(
    planes: RayPlanes, bodies: Bodies, reach: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(C, B) how far away the rays meet a body, infinite where they do not; and (C, B) its row."""
    shape = planes.slopes.shape
    best, row = np.full(shape, np.inf), np.zeros(shape, dtype=np.int64)
    chords = _chords(planes, bodies, reach)
    if not len(chords.column):
        return best, row
    low = bodies.middle[chords.body, 2] - planes.origins[chords.column, 2]  # of the middle, above the sensor
    distance = np.empty((len(chords.column), shape[1]))
    round_ones = bodies.form[chords.body] == ELLIPSOID
    for cut, of_kind in ((_through_ellipsoids, round_ones), (_through_prisms, ~round_ones)):
        kind = np.flatnonzero(of_kind)
        some = _Chords(*(array[kind] for array in chords))
        near, far = cut(some, low[kind, None], planes.slopes[some.column])
        distance[kind] = _stopped(near, far, bodies.depth[some.body], rng)
    starts = np.flatnonzero(np.diff(chords.column, prepend=-1))
    columns = chords.column[starts]
    best[columns] = np.minimum.reduceat(distance, starts, axis=0)
    pair, beam = np.nonzero((distance == best[chords.column]) & np.isfinite(distance))
    row[chords.column[pair], beam] = chords.body[pair]
    return best, row


def _chords(planes: RayPlanes, bodies: Bodies, reach: float) -> _Chords:
    """What of the bodies' plans lies in each plane."""
    radius = np.hypot(bodies.half[:, 0], bodies.half[:, 1])
    offset = bodies.middle[None, :, :2] - planes.origins[:, None, :2]
    ahead = planes.ahead[:, None]
    along = offset[..., 0] * ahead[..., 0] + offset[..., 1] * ahead[..., 1]
    aside = offset[..., 1] * ahead[..., 0] - offset[..., 0] * ahead[..., 1]
    column, body = np.nonzero((np.abs(aside) < radius) & (along > -radius) & (along < reach + radius))
    start, turned = -offset[column, body], planes.ahead[column]
    c, s, half = np.cos(bodies.yaw[body]), np.sin(bodies.yaw[body]), bodies.half[body]
    # Where the plane begins and how it runs, in the body's own frame and in units of its half sides.
    p, v = (np.stack([c * a[:, 0] + s * a[:, 1], c * a[:, 1] - s * a[:, 0]], 1) / half[:, :2] for a in (start, turned))
    enter, leave, height = np.where(bodies.form[body] == BOX, _across_square(p, v), _across_circle(p, v))
    height = np.where(bodies.form[body] == ELLIPSOID, height, 1) * half[:, 2]
    kept = (enter < leave) & (leave > _NEAREST) & (enter < reach)
    return _Chords(*(array[kept] for array in (column, body, enter, leave, height)))


def _across_square(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    """(3, P) where lines enter and leave the square from -1 to 1, and 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = (-1 - p) / v, (1 - p) / v
    enter, leave = np.fmin(first, second).max(axis=1), np.fmax(first, second).min(axis=1)
    return np.stack([enter, leave, np.ones_like(enter)])


def _across_circle(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    """(3, P) where lines enter and leave the unit circle, and half the height of a unit ball above them."""
    square, product = (v**2).sum(axis=1), (p * v).sum(axis=1)
    height = np.sqrt(np.maximum(1 - (p**2).sum(axis=1) + product**2 / square, 0))
    middle, half = -product / square, height / np.sqrt(square)
    return np.stack([middle - half, middle + half, height])


def _through_prisms(chords: _Chords, low: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(P, B) twice, where rays enter and leave boxes and cylinders; they leave before they enter where they miss."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = (low - chords.height[:, None]) / slopes, (low + chords.height[:, None]) / slopes
    near = np.maximum(chords.enter[:, None], np.minimum(first, second))
    return near, np.minimum(chords.leave[:, None], np.maximum(first, second))


def _through_ellipsoids(chords: _Chords, low: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(P, B) twice, as for prisms: the section of an upright ellipsoid is an ellipse around the middle of its chord."""
    middle, half = (chords.enter + chords.leave)[:, None] / 2, (chords.leave - chords.enter)[:, None] / 2
    ratio = (half / np.maximum(chords.height[:, None], 1e-9)) ** 2
    # (r - middle)^2 + ratio (slope r - low)^2 = half^2
    a, b, c = 1 + ratio * slopes**2, middle + ratio * slopes * low, middle**2 + ratio * low**2 - half**2
    inside = b**2 - a * c
    root = np.sqrt(np.maximum(inside, 0))
    return np.where(inside > 0, (b - root) / a, np.inf), (b + root) / a


def _stopped(near: np.ndarray, far: np.ndarray, depth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(P, B) where the light comes back: where a ray enters, or somewhat further in foliage, or behind it: nowhere."""
    soft = np.flatnonzero(depth > 0)
    at = near.copy()
    at[soft] = np.maximum(near[soft], 0) + depth[soft, None] * rng.standard_exponential((len(soft), near.shape[1]))
    return np.where((at < far) & (at > _NEAREST), at, np.inf)


def _normals(met: Bodies, points: np.ndarray) -> np.ndarray:
    """(n, 3) unit, at points on the surfaces of as many bodies."""
    offset, c, s = points - met.middle, np.cos(met.yaw), np.sin(met.yaw)
    own = np.stack([c * offset[:, 0] + s * offset[:, 1], c * offset[:, 1] - s * offset[:, 0], offset[:, 2]], axis=1)
    own = own / met.half
    across = np.hypot(own[:, 0], own[:, 1])
    flat = np.abs(own) >= np.abs(own).max(axis=1, keepdims=True)
    level = (np.abs(own[:, 2]) > across)[:, None] == [False, False, True]
    kept = np.select([(met.form == BOX)[:, None], (met.form == ELLIPSOID)[:, None]], [flat, True], level)
    own = np.where(kept, own, 0) / met.half
    turned = np.stack([c * own[:, 0] - s * own[:, 1], s * own[:, 0] + c * own[:, 1], own[:, 2]], axis=1)
    return turned / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1e-12)
