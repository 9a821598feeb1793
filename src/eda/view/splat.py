"""Points as a closed surface: every point a small disc in its tangent plane, blended with those around it.

In: points with colours, in any unit. Out: a picture.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eda.errors import InputError
from eda.view.camera import Camera
from eda.view.light import lit
from eda.view.raster import Strip, Surface, blend, fill, middle, nearest, rows_of, summed

OVERSAMPLING = 2
NEIGHBORS = 16  # to look at around a point
_REACH = 1.15  # radius of a disc over the distance to the sixth neighbour on its sheet
_DENSE = 0.5  # weight of the discs at a pixel of a surface: 2.6 inside, 1.3 at its end, on average
_PEELS = 4  # sheets to look at in a pixel
_THINNEST = 0.3  # a disc seen from its edge keeps this much of its width, or outlines would fall apart


def splat(
    points: np.ndarray,
    colors: np.ndarray,
    normals: np.ndarray | None = None,
    *,
    camera: Camera,
    size: int = 400,
    radius: np.ndarray | float | None = None,
) -> np.ndarray:
    """A picture (size, size, 3) uint8 of points (P, 3) in colours (P, 3).

    Normals point outward; without them they come from the neighbours, turned to the viewer. The radius, one for all or
    (P,), is the distance from a point to those around it, by default its `spacing`.
    """
    if points.ndim != 2 or points.shape[1] != 3 or len(points) < 2:
        raise InputError(f"a picture needs at least 2 points of shape (P, 3), got {points.shape}")
    if np.shape(colors) != points.shape:
        raise InputError(f"points of shape {points.shape} need as many colours, got {np.shape(colors)}")
    if radius is None:
        radius = spacing(points, normals)
    if normals is None:
        normals = _towards(estimated_normals(points), camera)
    radii = _REACH * np.broadcast_to(radius, len(points))
    discs = _Discs.seen(points, normals, colors, radii, camera, size * OVERSAMPLING)
    discs = discs.some(_unhidden(discs))
    return lit([_surface(discs, strip) for strip in Strip.all_of(discs.side)], OVERSAMPLING)


def spacing(points: np.ndarray, normals: np.ndarray | None = None) -> np.ndarray:
    """How far the sixth neighbour of every point is, (P,); with normals, of those that face the same way.

    On thin walls the other side would else count as near.
    """
    distance, near = _neighbors(points)
    own = distance
    if normals is not None:
        same_way = np.einsum("pi,pki->pk", normals, normals[near]) > 0.3
        own = np.sort(np.where(same_way, distance, distance[:, -1:]), axis=1)
    reach = own[:, min(6, own.shape[1] - 1)]
    return np.median(reach[near], axis=1)


def estimated_normals(points: np.ndarray) -> np.ndarray:
    """(P, 3) unit normals, of either sign, of the planes through the neighbours."""
    near = points[_neighbors(points)[1]]
    around = near - near.mean(axis=1, keepdims=True)
    return np.linalg.eigh(np.einsum("pki,pkj->pij", around, around))[1][:, :, 0]


def _towards(normals: np.ndarray, camera: Camera) -> np.ndarray:
    """Of either sign, the one that looks at the viewer."""
    return np.where(camera.turn(normals)[:, 2:] < 0, -normals, normals)


def _neighbors(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from scipy.spatial import cKDTree

    return cKDTree(points).query(points, min(NEIGHBORS, len(points)))


@dataclass(frozen=True)
class _Discs:
    """Discs on a square picture of `side` pixels; rows count downwards, depth towards the viewer, all in pixels."""

    place: np.ndarray  # (P, 3) float32, column, row, depth
    radius: np.ndarray  # (P,)
    look: np.ndarray  # (P, 6) normal (right, up, towards the viewer) and colour
    side: int

    @staticmethod
    def seen(
        points: np.ndarray, normals: np.ndarray, colors: np.ndarray, radii: np.ndarray, camera: Camera, side: int
    ) -> _Discs:
        """As the camera sees them. What looks away from the viewer steps back: thin walls show their near side."""
        half = side / 2
        place = (camera.project(points) * [half, -half, half] + [half, half, 0]).astype(np.float32)
        radius = np.maximum(radii * camera.magnification(points) * half, 0.75).astype(np.float32)
        turned = camera.turn(normals).astype(np.float32)
        away = turned[:, 2] < 0
        place[:, 2] -= np.where(away, radius, 0)
        look = np.concatenate([np.where(away[:, None], -turned, turned), colors], axis=1).astype(np.float32)
        return _Discs(place, radius, look, side)

    def some(self, chosen: np.ndarray) -> _Discs:
        """Some of them."""
        return replace(self, place=self.place[chosen], radius=self.radius[chosen], look=self.look[chosen])

    def fragments(self, strip: Strip) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Item, pixel, depth, and a weight that falls from 1 in the disc's middle to 0 at its edge.

        At x, y from its middle, a disc of normal n rises by -a x + u y with a, u = n_x / n_z, n_y / n_z, as rows count
        downwards; its edge is the ellipse x^2 + y^2 + (u y - a x)^2 = r^2.
        """
        a, u = (self.look[:, :2] / np.maximum(self.look[:, 2:3], _THINNEST)).T
        column, line, depth = self.place.T
        wide, square = 1 + a * a, np.square(self.radius)
        tall = np.sqrt(square * wide / (wide + u * u))
        item, row = rows_of(line - tall, line + tall, strip)
        y = middle(row) - line[item]
        center = (a * u)[item] * y
        half = np.sqrt(np.maximum(center * center - wide[item] * ((1 + u * u)[item] * y * y - square[item]), 0))
        cells = fill(
            item, row, column[item] + (center - half) / wide[item], column[item] + (center + half) / wide[item], strip
        )
        item = cells.item
        x, y = cells.x - column[item], cells.y - line[item]
        rise = u[item] * y - a[item] * x
        away = (x * x + y * y + rise * rise) / square[item]
        return item, cells.pixel, depth[item] + rise, np.square(np.maximum(1 - away, 1e-3))


def _surface(discs: _Discs, strip: Strip) -> Surface:
    low, high = strip.top, strip.top + strip.height
    discs = discs.some(np.abs(discs.place[:, 1] - (low + high) / 2) < discs.radius + strip.height / 2)
    item, pixel, depth, weight = discs.fragments(strip)
    front = _front(pixel, depth, weight, discs.radius[item], strip)
    item, pixel, depth, weight = item[front], pixel[front], depth[front], weight[front]
    return blend(pixel, weight * weight * weight, depth, [column[item] for column in discs.look.T], strip)


def _front(pixel: np.ndarray, depth: np.ndarray, weight: np.ndarray, slack: np.ndarray, strip: Strip) -> np.ndarray:
    """The fragments that are seen: in every pixel the nearest sheet that is dense enough to be one.

    Where a surface ends the density falls to half; what hangs over is peeled off, and what lies behind it is looked at.
    """
    left = np.arange(len(pixel))
    sheets, seen = [], []
    for _ in range(_PEELS):
        here = pixel[left]
        sheet = depth[left] >= nearest(here, depth[left], strip)[here] - slack[left]
        dense = (summed(here[sheet], weight[left[sheet]], strip) > _DENSE)[here]
        sheets.append(left[sheet])
        seen.append(left[sheet & dense])
        left = left[~sheet & ~dense]
    front = np.concatenate(seen)
    holes = _holes(pixel[front], strip, float(np.median(slack)) if len(slack) else 0.0)
    return np.concatenate([front, sheets[0][holes[pixel[sheets[0]]]]])


def _holes(pixel: np.ndarray, strip: Strip, radius: float) -> np.ndarray:
    """(pixels of the strip,) which are gaps between the given ones, no larger than a disc of this radius."""
    from scipy.ndimage import label

    gaps = np.ones((strip.height, strip.width), dtype=bool)
    gaps.ravel()[pixel] = False
    gap, _ = label(gaps)
    small = np.bincount(gap.ravel()) < np.pi * radius**2
    return small[gap.ravel()] & gaps.ravel()


def _unhidden(discs: _Discs) -> np.ndarray:
    """(P,) which discs may be seen: not those far behind others wherever one looks near them. Saves half the work."""
    from scipy.ndimage import minimum_filter

    cell = 1.5 * float(np.median(discs.radius))  # large enough to hold a point wherever there is a surface
    count = int(discs.side / cell) + 1
    column, row = np.clip(discs.place[:, :2] / cell, 0, count - 1).astype(np.int32).T
    buffer = np.full((count, count), -np.inf, dtype=np.float32)
    np.maximum.at(buffer, (row, column), discs.place[:, 2])
    return discs.place[:, 2] >= minimum_filter(buffer, 3)[row, column] - 3 * discs.radius
