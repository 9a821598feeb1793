"""Solids swept by rings: what is turned on a lathe, drawn along a path, or swollen from a ball.

In: profiles, paths and radii. Out: solids of a few hundred triangles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from eda.data.fracture.solids import solid_of

if TYPE_CHECKING:
    from manifold3d import Manifold

FINE = 0.12  # edges of flat faces, short enough for the faces to be bent

Vector = Sequence[float] | np.ndarray
Relief = Callable[[np.ndarray, np.ndarray], np.ndarray]  # angle, height -> factor of the radius; they broadcast


def thickness(rng: np.random.Generator, least: float, most: float) -> float:
    """A random thickness; it is as often in the thinner half of the range, by ratio, as in the thicker."""
    return float(np.exp(rng.uniform(np.log(least), np.log(most))))


def loft(rings: np.ndarray) -> Manifold:
    """The solid through rings (k, s, 3), one above the other, each anticlockwise seen from above; with flat ends."""
    ends = rings[[0, -1]].mean(axis=1)
    vertices = np.concatenate([rings.reshape(-1, 3), ends])
    return solid_of(vertices, _ring_faces(*rings.shape[:2]), "shape")


@lru_cache(maxsize=256)
def _ring_faces(num_rings: int, segments: int) -> np.ndarray:
    ring = np.arange(num_rings * segments).reshape(num_rings, segments)
    after = np.roll(ring, -1, axis=1)
    a, b, c, d = ring[:-1], after[:-1], after[1:], ring[1:]
    low, high = np.full(segments, num_rings * segments), np.full(segments, num_rings * segments + 1)
    quads = [np.stack(corners, axis=-1).reshape(-1, 3) for corners in ((a, b, c), (a, c, d))]
    caps = [np.stack([low, after[0], ring[0]], axis=-1), np.stack([high, ring[-1], after[-1]], axis=-1)]
    return np.concatenate([*quads, *caps])


def lathe(profile: np.ndarray, segments: int, relief: Relief | None = None) -> Manifold:
    """The solid of revolution of a profile (k, 2) of radii > 0 and heights, closed by discs at both of its ends."""
    angle = np.linspace(0, 2 * np.pi, segments, endpoint=False)
    radius, height = profile[:, :1], profile[:, 1:]
    if relief is not None:
        radius = radius * relief(angle, height)
    return loft(np.stack(np.broadcast_arrays(radius * np.cos(angle), radius * np.sin(angle), height), axis=-1))


def tube(path: np.ndarray, radii: np.ndarray, segments: int = 10, flatness: float = 1.0) -> Manifold:
    """The solid along a path (k, 3) with radii (k,); `flatness` is the ratio of the section's two axes.

    In tight bends it is thinner than asked for, or it would cross itself.
    """
    tangent = np.gradient(path, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    side = np.empty_like(tangent)
    last = np.eye(3)[np.abs(tangent[0]).argmin()]
    for i, t in enumerate(tangent):  # carried along without turning about the path
        last = last - (last @ t) * t
        side[i] = last = last / np.linalg.norm(last)
    other = np.cross(tangent, side) * flatness
    radii = np.minimum(radii, 0.7 / max(1, flatness) / np.maximum(_curvature(path), 1e-9))[:, None, None]
    angle = np.linspace(0, 2 * np.pi, segments, endpoint=False)[:, None]
    return loft(path[:, None] + radii * (np.cos(angle) * side[:, None] + np.sin(angle) * other[:, None]))


def _curvature(path: np.ndarray) -> np.ndarray:
    """(k,) the largest about every point of a path (k, 3)."""
    steps = np.diff(path, axis=0)
    lengths = np.linalg.norm(steps, axis=1)
    directions = steps / lengths[:, None]
    bends = np.linalg.norm(np.diff(directions, axis=0), axis=1) / np.minimum(lengths[:-1], lengths[1:])
    bends = np.concatenate([[0, 0], bends, [0, 0]])
    return np.maximum.reduce([bends[:-2], bends[1:-1], bends[2:]])


def ball(center: Vector, radii: Vector, *, squareness: float = 1.0, segments: int = 16) -> Manifold:
    """A superellipsoid: round for squareness 1, towards a box for 0."""
    steps = segments // 2 + 1
    polar = np.pi * (np.arange(steps) + 0.5) / steps
    profile = np.stack([_power(np.sin(polar), squareness), -_power(np.cos(polar), squareness)], axis=-1)
    angle = np.linspace(0, 2 * np.pi, segments, endpoint=False)
    around = np.stack([_power(np.cos(angle), squareness), _power(np.sin(angle), squareness)], axis=-1)
    rings = np.concatenate(
        [profile[:, None, :1] * around, np.broadcast_to(profile[:, None, 1:], (steps, segments, 1))], axis=-1
    )
    return loft(np.asarray(center) + rings * np.asarray(radii))


def _power(x: np.ndarray, exponent: float) -> np.ndarray:
    return np.sign(x) * np.abs(x) ** exponent


def block(low: Vector, high: Vector) -> Manifold:
    """A box between two corners."""
    from manifold3d import Manifold

    return Manifold.cube(np.subtract(high, low)).translate(low).refine_to_length(FINE)


def slab(polygons: Sequence[Sequence[tuple[float, float]] | np.ndarray], thickness: float) -> Manifold:
    """A flat outline from z = 0 up to a thickness; polygons turn anticlockwise, holes clockwise."""
    from manifold3d import CrossSection, Manifold

    return Manifold.extrude(CrossSection([np.asarray(p) for p in polygons]), thickness).refine_to_length(FINE)


def outline(knots: Sequence[tuple[float, float]], count: int) -> np.ndarray:
    """A line (count, 2) through knots (radius, height) that keeps between them, so that it never crosses itself."""
    from scipy.interpolate import PchipInterpolator

    points, length = _with_length(knots)
    return PchipInterpolator(length, points)(np.linspace(0, length[-1], count))


def inside(line: np.ndarray, wall: float, floor: float) -> np.ndarray:
    """The inside (k, 2) of an outline, from the bottom up.

    It has the heights of the outline above its floor, and a smaller radius at each, so the two never cross.
    """
    radius, height = line.T
    heights = np.concatenate([[height[0] + floor], height[height > height[0] + 1.2 * floor]])
    slope = np.interp(heights, height, np.gradient(radius, height))
    outer = np.interp(heights, height, radius)
    return np.stack([np.maximum(outer - wall * np.minimum(np.hypot(1, slope), 2.5), 0.25 * outer), heights], axis=-1)


def bow(knots: Sequence[Vector], count: int) -> np.ndarray:
    """A smooth path (count, d) through knots (k, d), which swings out between them."""
    from scipy.interpolate import CubicSpline

    points, length = _with_length(knots)
    return CubicSpline(length, points, bc_type="natural")(np.linspace(0, length[-1], count))


def _with_length(knots: Sequence[Vector]) -> tuple[np.ndarray, np.ndarray]:
    points = np.asarray(knots, dtype=float)
    return points, np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
