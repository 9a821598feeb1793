"""Meshes as pictures, with the same camera and light as points.

In: vertices and faces. Out: a picture; normals are smoothed where a surface bends little, so edges stay edges.
"""

from __future__ import annotations

import numpy as np

from eda.render.point_drawing import OVERSAMPLING
from eda.render.raster import (
    Fragments,
    GBuffer,
    Strip,
    depth_buffer,
    fill_spans,
    pixel_center,
    rows_between,
    write_fragments,
)
from eda.render.shading import shade_picture
from eda.render.virtual_camera import Camera

_SMOOTH = 0.85  # cosine between a face and the mean around its corner above which the corner counts as round


def draw_mesh(
    vertices: np.ndarray, faces: np.ndarray, colors: np.ndarray, *, camera: Camera, size: int = 400
) -> np.ndarray:
    """A picture (size, size, 3) uint8 of triangles (F, 3) over vertices (V, 3), in colours (F, 3) or one (3,)."""
    side = size * OVERSAMPLING
    half = side / 2
    projected = camera.project(vertices) * [half, -half, half] + [half, half, 0]
    corners = projected[faces].astype(np.float32)  # (F, 3 corners, column row depth)
    normals = camera.rotate(corner_normals(vertices, faces).reshape(-1, 3)).reshape(-1, 3, 3)
    tints = np.broadcast_to(colors, (len(faces), 3))[:, None].repeat(3, axis=1)
    attributes = np.concatenate([corners[..., 2:], normals, tints], axis=2).astype(np.float32)
    return shade_picture([_draw_strip(corners, attributes, strip) for strip in Strip.all_of(side)], OVERSAMPLING)


def corner_normals(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """(F, 3 corners, 3) unit normals: the mean around the vertex where it is round, the face's own where it is not."""
    corners = vertices[faces]
    area = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    around = np.zeros_like(vertices, dtype=np.float64)
    for corner in faces.T:
        np.add.at(around, corner, area)
    flat = _unit(area)[:, None].repeat(3, axis=1)
    smooth = _unit(around)[faces]
    return np.where((flat * smooth).sum(axis=2, keepdims=True) > _SMOOTH, smooth, flat)


def _draw_strip(corners: np.ndarray, attributes: np.ndarray, strip: Strip) -> GBuffer:
    """The visible triangles in a strip; attributes (F, 3 corners, 7) are depth, normal and colour."""
    low, high = corners[..., 1].min(axis=1), corners[..., 1].max(axis=1)
    here = (high > strip.top) & (low < strip.top + strip.height)
    corners, attributes = corners[here], attributes[here]
    cells = _triangle_pixels(corners, low[here], high[here], strip)
    share = _barycentric(corners, cells)
    depth = np.einsum("fc,fc->f", share, attributes[cells.item, :, 0])
    front = np.flatnonzero(depth >= depth_buffer(cells.pixel, depth, strip)[cells.pixel])
    visible = np.einsum("fc,fck->fk", share[front], attributes[cells.item[front], :, 1:])
    # The inside of an open surface is lit like its outside.
    visible[:, :3] = _unit(visible[:, :3] * np.where(visible[:, 2:3] < 0, -1, 1))
    return write_fragments(cells.pixel[front], depth[front], visible, strip)


def _triangle_pixels(corners: np.ndarray, low: np.ndarray, high: np.ndarray, strip: Strip) -> Fragments:
    """The pixels inside the triangles: on every row, from the leftmost to the rightmost crossing of its edges."""
    item, row = rows_between(low, high, strip)
    start, end = corners[item], np.roll(corners, -1, axis=1)[item]  # the three edges of the triangle of every row
    drop = end[..., 1] - start[..., 1]
    along = (pixel_center(row)[:, None] - start[..., 1]) / np.where(drop == 0, 1, drop)
    crossed = (drop != 0) & (along >= 0) & (along <= 1)
    column = start[..., 0] + along * (end[..., 0] - start[..., 0])
    left, right = np.where(crossed, column, np.inf).min(axis=1), np.where(crossed, column, -np.inf).max(axis=1)
    return fill_spans(item, row, left, right, strip)


def _barycentric(corners: np.ndarray, cells: Fragments) -> np.ndarray:
    """(cells, 3) barycentric coordinates: the weight of every corner in a pixel."""
    origin, first, second = (corners[:, i, :2] for i in range(3))
    u, v = first - origin, second - origin
    area = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
    inverse = 1 / np.where(area == 0, 1, area)
    item = cells.item
    x, y = cells.x - origin[:, 0][item], cells.y - origin[:, 1][item]
    b = (x * v[:, 1][item] - y * v[:, 0][item]) * inverse[item]
    c = (y * u[:, 0][item] - x * u[:, 1][item]) * inverse[item]
    return np.stack([1 - b - c, b, c], axis=1)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-30)
