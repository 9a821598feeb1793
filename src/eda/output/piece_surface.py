"""PieceSurface: a piece as a surface to measure distances from and to, at the finest scale that its file has.

In: a piece as it was given. A mesh is its triangles; a cloud is a small disc around each of its points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from scipy.spatial import cKDTree

from eda.cloud import estimate_normals
from eda.data.mesh_repair import Repair
from eda.data.mesh_samples import sample_surfaces
from eda.data.meshes import Mesh
from eda.data.reading import move_points
from eda.render.input_piece import InputPiece

_CANDIDATES = 6  # of these, the nearest ones that are tried for a point
_NEIGHBORS = 6  # by which the spacing of a cloud is measured


class Nearest(NamedTuple):
    """For every point of n, what is nearest on a surface."""

    distance: np.ndarray  # (n,) infinite where nothing is within reach
    offset: np.ndarray  # (n, 3) from the point to it
    normal: np.ndarray  # (n, 3) there


class _Elements(Protocol):
    """What a surface consists of."""

    @property
    def places(self) -> np.ndarray:
        """(m, 3) points on the surface, by which the elements near a point are found."""
        ...

    def normals(self, rows: np.ndarray) -> np.ndarray:
        """(n, 3) unit, of the elements at places (n,)."""
        ...

    def offsets(self, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(n, k, 3) from points (n, 3) to the nearest point of the elements at places (n, k)."""
        ...


@dataclass(frozen=True)
class PieceSurface:
    """A surface, in coordinates around `origin`."""

    origin: np.ndarray  # (3,) so that coordinates of maps keep their digits
    points: np.ndarray  # (n, 3) random and even over the surface
    normals: np.ndarray  # (n, 3) unit
    oriented: bool  # whether the normals point outward
    area: float  # that each of the points stands for
    elements: _Elements
    spacing: float  # between neighbouring places, roughly

    @staticmethod
    def of(piece: InputPiece, count: int, num_places: int) -> PieceSurface:
        """The surface of a piece, with about `count` points to measure from.

        At most `num_places` of its triangles or points are measured to; of more, a random choice.
        """
        rng = np.random.default_rng(0)
        if piece.file is not None and piece.file.repair is not None:
            return _surface_of_mesh(piece.file.repair, count, num_places, rng)
        if piece.file is not None:
            return _surface_of_cloud(piece.file.points, piece.file.normals, count, num_places, rng)
        return _surface_of_cloud(piece.points, piece.normals, count, num_places, rng)

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.elements.places)

    def nearest(self, points: np.ndarray, reach: float) -> Nearest:
        """What lies within `reach` of points (n, 3), which are around the same origin."""
        tree, wide = self._tree, reach + 2 * self.spacing  # a large triangle may be nearer than any of its places
        result = Nearest(np.full(len(points), np.inf), np.zeros_like(points), np.zeros_like(points))
        near = np.flatnonzero(((points >= tree.mins - wide) & (points <= tree.maxes + wide)).all(axis=1))
        near = near[np.isfinite(tree.query(points[near], distance_upper_bound=wide)[0])]
        if not len(near):
            return result
        rows = tree.query(points[near], k=range(1, min(_CANDIDATES, tree.n) + 1))[1]
        offsets = self.elements.offsets(points[near], rows)
        distance = np.linalg.norm(offsets, axis=2)
        best = distance.argmin(axis=1)
        each = np.arange(len(near))
        found = distance[each, best] <= reach
        near, each, best = near[found], each[found], best[found]
        result.distance[near] = distance[each, best]
        result.offset[near] = offsets[each, best]
        result.normal[near] = self.elements.normals(rows[each, best])
        return result

    def motion_to(self, other: PieceSurface, pose: np.ndarray, other_pose: np.ndarray) -> np.ndarray:
        """(4, 4) from our coordinates to those of another surface, for poses of both pieces."""
        motion = np.eye(4)
        back = other_pose[:3, :3].T
        motion[:3, :3] = back @ pose[:3, :3]
        motion[:3, 3] = back @ (move_points(self.origin, pose) - other_pose[:3, 3]) - other.origin
        return motion


# -- meshes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Triangles:
    """Triangles, found by their centroids and, where they are large, by points on them."""

    places: np.ndarray  # (m, 3)
    faces: np.ndarray  # (m,) the triangle at every place
    mesh: Mesh

    def normals(self, rows: np.ndarray) -> np.ndarray:
        a, b, c = np.moveaxis(self._corners(rows), 1, 0)
        normal = np.cross(b - a, c - a)
        return normal / np.linalg.norm(normal, axis=1, keepdims=True)

    def offsets(self, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return _nearest_to_origin(self._corners(rows) - points[:, None, None])

    def _corners(self, rows: np.ndarray) -> np.ndarray:
        return self.mesh.vertices[self.mesh.faces[self.faces[rows]]]


def _surface_of_mesh(repair: Repair, count: int, num_places: int, rng: np.random.Generator) -> PieceSurface:
    origin = repair.mesh.vertices.mean(axis=0)
    mesh = Mesh(repair.mesh.vertices - origin, repair.mesh.faces)
    area = np.linalg.norm(mesh.area_vectors, axis=1)
    (sample,) = sample_surfaces([mesh], count, rng)
    solid = _choose(np.flatnonzero(area > 0), num_places, rng)
    places = np.concatenate([mesh.corners[solid].mean(axis=1), sample.points])
    triangles = _Triangles(places, np.concatenate([solid, sample.faces]), mesh)
    each = float(area.sum()) / len(sample.points)
    return PieceSurface(origin, sample.points, sample.normals, repair.is_outward, each, triangles, each**0.5)


def _nearest_to_origin(corners: np.ndarray) -> np.ndarray:
    """(..., 3) the point nearest to the origin of triangles (..., 3, 3): inside, or else on one of the sides."""
    a, b, c = np.moveaxis(corners, -2, 0)
    normal = np.cross(b - a, c - a)
    square = np.maximum(_dot(normal, normal), 1e-300)[..., None]
    foot = normal * _dot(a, normal)[..., None] / square
    inside = np.all([_dot(np.cross(q - p, foot - p), normal) >= 0 for p, q in ((a, b), (b, c), (c, a))], axis=0)
    sides = np.stack([_nearest_on_side(p, q) for p, q in ((a, b), (b, c), (c, a))])
    best = np.linalg.norm(sides, axis=-1).argmin(axis=0)
    side = np.take_along_axis(sides, best[None, ..., None], axis=0)[0]
    return np.where(inside[..., None], foot, side)


def _nearest_on_side(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    along = end - start
    share = -_dot(start, along) / np.maximum(_dot(along, along), 1e-300)
    return start + np.clip(share, 0, 1)[..., None] * along


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(axis=-1)


# -- clouds --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Discs:
    """A disc around every point, as wide as points are apart: what lies between two points is on the surface."""

    places: np.ndarray  # (m, 3)
    directions: np.ndarray  # (m, 3) their normals
    radius: float

    def normals(self, rows: np.ndarray) -> np.ndarray:
        return self.directions[rows]

    def offsets(self, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
        offset, normal = self.places[rows] - points[:, None], self.directions[rows]
        upright = _dot(offset, normal)[..., None] * normal
        aside = offset - upright
        length = np.linalg.norm(aside, axis=-1, keepdims=True)
        return upright + aside * np.maximum(1 - self.radius / np.maximum(length, 1e-300), 0)


def _surface_of_cloud(
    points: np.ndarray, normals: np.ndarray | None, count: int, num_places: int, rng: np.random.Generator
) -> PieceSurface:
    origin = points.mean(axis=0)
    rows = _choose(np.arange(len(points)), num_places, rng)
    places = points[rows] - origin
    directions = estimate_normals(places) if normals is None else normals[rows]
    chosen = rng.permutation(len(places))[:count]
    distance = cKDTree(places).query(places[chosen], min(_NEIGHBORS + 1, len(places)))[0][:, -1]
    spacing = float(np.median(distance)) / 2  # six points on a circle of two spacings: as many as there is room for
    area = np.pi * float(np.median(distance)) ** 2 / _NEIGHBORS * len(places) / len(chosen)
    discs = _Discs(places, directions, spacing)
    return PieceSurface(origin, places[chosen], directions[chosen], normals is not None, area, discs, spacing)


def _choose(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    return rows if len(rows) <= count else rng.choice(rows, count, replace=False)
