"""Points as a closed surface: every point is a small disc in its tangent plane, blended with those around it.

In: points with colours, in any unit. Out: a picture.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eda.cloud import estimate_normals
from eda.errors import InputError
from eda.render.raster import (
    GBuffer,
    Strip,
    blend,
    depth_buffer,
    fill_spans,
    pixel_center,
    rows_between,
    sum_per_pixel,
)
from eda.render.shading import shade_picture
from eda.render.virtual_camera import Camera

OVERSAMPLING = 2
_NEIGHBORS = 16  # of a point, among which those on its own side of a thin wall are found
_DISC_SCALE = 1.15  # radius of a disc over the distance to the sixth neighbour on its sheet
_DENSE = 0.5  # weight of the discs at a pixel of a surface: 2.6 inside, 1.3 at its end, on average
_PEELS = 4  # layers that are looked at in a pixel
_THINNEST = 0.3  # a disc seen from its edge keeps this fraction of its width, or outlines would fall apart


def draw_points(
    points: np.ndarray,
    colors: np.ndarray,
    normals: np.ndarray | None = None,
    *,
    camera: Camera,
    size: int = 400,
    radius: np.ndarray | float | None = None,
) -> np.ndarray:
    """A picture (size, size, 3) uint8 of points (P, 3) in colours (P, 3).

    Normals point outward; if there are none, they are estimated and turned to the viewer. The radius, one for all or
    (P,), is the distance from a point to those around it, by default its `point_spacing`.
    """
    if points.ndim != 2 or points.shape[1] != 3 or len(points) < 2:
        raise InputError(f"a picture needs at least 2 points of shape (P, 3), got {points.shape}")
    if np.shape(colors) != points.shape:
        raise InputError(f"points of shape {points.shape} need as many colours, got {np.shape(colors)}")
    if radius is None:
        radius = point_spacing(points, normals)
    if normals is None:
        normals = _orient_to_viewer(estimate_normals(points), camera)
    radii = _DISC_SCALE * np.broadcast_to(radius, len(points))
    discs = _Discs.project(points, normals, colors, radii, camera, size * OVERSAMPLING)
    discs = discs.select(_may_be_visible(discs))
    return shade_picture([_draw_strip(discs, strip) for strip in Strip.all_of(discs.side)], OVERSAMPLING)


def point_spacing(points: np.ndarray, normals: np.ndarray | None = None) -> np.ndarray:
    """(P,) the distance from every point to its sixth neighbour; with normals, among those that face the same way.

    Otherwise the other side of a thin wall would count as near.
    """
    from scipy.spatial import cKDTree

    distance, near = cKDTree(points).query(points, min(_NEIGHBORS, len(points)))
    if normals is not None:
        same_way = np.einsum("pi,pki->pk", normals, normals[near]) > 0.3
        distance = np.sort(np.where(same_way, distance, distance[:, -1:]), axis=1)
    sixth = distance[:, min(6, distance.shape[1] - 1)]
    return np.median(sixth[near], axis=1)


def _orient_to_viewer(normals: np.ndarray, camera: Camera) -> np.ndarray:
    """Normals with their signs chosen so that they point to the viewer."""
    return np.where(camera.rotate(normals)[:, 2:] < 0, -normals, normals)


@dataclass(frozen=True)
class _Discs:
    """Discs on a square picture of `side` pixels; rows count downwards, depth towards the viewer, all in pixels."""

    center: np.ndarray  # (P, 3) float32, column, row, depth
    radius: np.ndarray  # (P,)
    attributes: np.ndarray  # (P, 6) normal (right, up, towards the viewer) and colour
    side: int

    @staticmethod
    def project(
        points: np.ndarray, normals: np.ndarray, colors: np.ndarray, radii: np.ndarray, camera: Camera, side: int
    ) -> _Discs:
        """The discs as the camera sees them. Those that face away step back, so thin walls show their near side."""
        half = side / 2
        center = (camera.project(points) * [half, -half, half] + [half, half, 0]).astype(np.float32)
        radius = np.maximum(radii * camera.magnification(points) * half, 0.75).astype(np.float32)
        rotated = camera.rotate(normals).astype(np.float32)
        away = rotated[:, 2] < 0
        center[:, 2] -= np.where(away, radius, 0)
        attributes = np.concatenate([np.where(away[:, None], -rotated, rotated), colors], axis=1).astype(np.float32)
        return _Discs(center, radius, attributes, side)

    def select(self, rows: np.ndarray) -> _Discs:
        """The discs in these rows."""
        return replace(self, center=self.center[rows], radius=self.radius[rows], attributes=self.attributes[rows])

    def fragments(self, strip: Strip) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Item, pixel, depth, and a weight that falls from 1 at the disc's centre to 0 at its edge.

        At x, y from its centre, a disc of normal n rises by -a x + u y with a, u = n_x / n_z, n_y / n_z, as rows count
        downwards; its edge is the ellipse x^2 + y^2 + (u y - a x)^2 = r^2.
        """
        a, u = (self.attributes[:, :2] / np.maximum(self.attributes[:, 2:3], _THINNEST)).T
        column, line, depth = self.center.T
        wide, square = 1 + a * a, np.square(self.radius)
        tall = np.sqrt(square * wide / (wide + u * u))
        item, row = rows_between(line - tall, line + tall, strip)
        y = pixel_center(row) - line[item]
        center = (a * u)[item] * y
        half = np.sqrt(np.maximum(center * center - wide[item] * ((1 + u * u)[item] * y * y - square[item]), 0))
        cells = fill_spans(
            item, row, column[item] + (center - half) / wide[item], column[item] + (center + half) / wide[item], strip
        )
        item = cells.item
        x, y = cells.x - column[item], cells.y - line[item]
        rise = u[item] * y - a[item] * x
        distance = (x * x + y * y + rise * rise) / square[item]
        return item, cells.pixel, depth[item] + rise, np.square(np.maximum(1 - distance, 1e-3))


def _draw_strip(discs: _Discs, strip: Strip) -> GBuffer:
    low, high = strip.top, strip.top + strip.height
    discs = discs.select(np.abs(discs.center[:, 1] - (low + high) / 2) < discs.radius + strip.height / 2)
    item, pixel, depth, weight = discs.fragments(strip)
    front = _front(pixel, depth, weight, discs.radius[item], strip)
    item, pixel, depth, weight = item[front], pixel[front], depth[front], weight[front]
    return blend(pixel, weight * weight * weight, depth, [column[item] for column in discs.attributes.T], strip)


def _front(pixel: np.ndarray, depth: np.ndarray, weight: np.ndarray, slack: np.ndarray, strip: Strip) -> np.ndarray:
    """The rows of the visible fragments: in every pixel, the nearest layer that is dense enough to be a surface.

    Where a surface ends, the density falls to half. What protrudes there is peeled off, and the layer behind is tried.
    """
    left = np.arange(len(pixel))
    layers, visible = [], []
    for _ in range(_PEELS):
        here = pixel[left]
        layer = depth[left] >= depth_buffer(here, depth[left], strip)[here] - slack[left]
        dense = (sum_per_pixel(here[layer], weight[left[layer]], strip) > _DENSE)[here]
        layers.append(left[layer])
        visible.append(left[layer & dense])
        left = left[~layer & ~dense]
    front = np.concatenate(visible)
    holes = _holes(pixel[front], strip, float(np.median(slack)) if len(slack) else 0.0)
    return np.concatenate([front, layers[0][holes[pixel[layers[0]]]]])


def _holes(pixel: np.ndarray, strip: Strip, radius: float) -> np.ndarray:
    """(pixels of the strip,) bool, the gaps between the given pixels that are no larger than a disc of this radius."""
    from scipy.ndimage import label

    gaps = np.ones((strip.height, strip.width), dtype=bool)
    gaps.ravel()[pixel] = False
    gap, _ = label(gaps)
    small = np.bincount(gap.ravel()) < np.pi * radius**2
    return small[gap.ravel()] & gaps.ravel()


def _may_be_visible(discs: _Discs) -> np.ndarray:
    """(P,) bool, False for discs that lie far behind others in their whole neighbourhood. It saves half the work."""
    from scipy.ndimage import minimum_filter

    cell = 1.5 * float(np.median(discs.radius))  # large enough to hold a point wherever there is a surface
    count = int(discs.side / cell) + 1
    column, row = np.clip(discs.center[:, :2] / cell, 0, count - 1).astype(np.int32).T
    buffer = np.full((count, count), -np.inf, dtype=np.float32)
    np.maximum.at(buffer, (row, column), discs.center[:, 2])
    return discs.center[:, 2] >= minimum_filter(buffer, 3)[row, column] - 3 * discs.radius
