"""Meshes of triangles: checked, joined, with one vertex at every place, and without inner walls.

In: vertices and faces, as a file or a generator gives them. Out: a `Mesh`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from eda.data.reading import as_cloud
from eda.errors import InputError


@dataclass(frozen=True)
class Mesh:
    """Triangles in space, anticlockwise as seen from outside."""

    vertices: np.ndarray  # (V, 3) float64
    faces: np.ndarray  # (F, 3) int64

    @property
    def corners(self) -> np.ndarray:
        """(F, 3, 3) the three corners of every triangle."""
        return self.vertices[self.faces]

    @property
    def area_vectors(self) -> np.ndarray:
        """(F, 3) outward normals, as long as the triangle's area."""
        return area_vectors(self.corners)

    @property
    def area(self) -> float:
        """The area of all triangles together."""
        return float(np.linalg.norm(self.area_vectors, axis=1).sum())

    @property
    def volume(self) -> float:
        """The volume inside, if the mesh is closed."""
        return float(cone_volumes(self.corners - self.vertices.mean(axis=0)).sum())

    def compact(self) -> Mesh:
        """The same faces, and only the vertices that they use."""
        is_used = np.zeros(len(self.vertices), dtype=bool)
        is_used[self.faces] = True
        return Mesh(self.vertices[is_used], (np.cumsum(is_used) - 1)[self.faces])


def area_vectors(corners: np.ndarray) -> np.ndarray:
    """(n, 3) for triangles (n, 3, 3): normals as long as their area."""
    a, b, c = np.moveaxis(corners, 1, 0)
    return np.cross(b - a, c - a) / 2


def cone_volumes(corners: np.ndarray) -> np.ndarray:
    """(n,) for triangles (n, 3, 3): signed volumes between them and the origin."""
    a, b, c = np.moveaxis(corners, 1, 0)
    return np.einsum("ij,ij->i", a, np.cross(b, c)) / 6


def mesh_from_arrays(vertices: Any, faces: Any, where: object) -> Mesh:
    """A mesh of finite vertices (V, 3) whose faces (F, 3) exist, or `InputError`."""
    points, corners = as_cloud(vertices, where), np.asarray(faces)
    if corners.ndim != 2 or corners.shape[1] != 3 or not np.issubdtype(corners.dtype, np.integer) or not len(corners):
        raise InputError(f"{where}: expected triangles (F, 3) of whole numbers, got {corners.dtype} {corners.shape}")
    corners = corners.astype(np.int64)
    if corners.min() < 0 or corners.max() >= len(points):
        raise InputError(f"{where}: its faces name vertices {corners.min()} to {corners.max()} of {len(points)}")
    return Mesh(points, corners)


def join_meshes(meshes: Sequence[Mesh]) -> Mesh:
    """All triangles as one mesh."""
    first = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    faces = [mesh.faces + start for mesh, start in zip(meshes, first, strict=False)]
    return Mesh(np.concatenate([mesh.vertices for mesh in meshes]), np.concatenate(faces))


def merge_vertices(mesh: Mesh, tolerance: float = 1e-10) -> Mesh:
    """The same surface with one vertex at every place."""
    return Mesh(mesh.vertices, first_at_place(mesh.vertices, tolerance)[mesh.faces]).compact()


def first_at_place(points: np.ndarray, tolerance: float) -> np.ndarray:
    """(n,) for every point the first one at its place: points closer than the tolerance are at one, also in chains."""
    # First by cells whose diagonal is shorter, so that pairs of millions of points at one place are never made.
    cell = equal_rows(np.floor(points * (2 / tolerance)))
    _, first = np.unique(cell, return_index=True)
    near = cKDTree(points[first]).query_pairs(tolerance, output_type="ndarray")
    place = linked_groups(len(first), near)[cell]
    _, first = np.unique(place, return_index=True)
    return first[place]


def equal_rows(rows: np.ndarray) -> np.ndarray:
    """(n,) numbers from 0 of the groups of equal rows (n, k)."""
    order = np.lexsort(rows.T)
    ordered = rows[order]
    group = np.empty(len(rows), dtype=np.int64)
    group[order] = np.cumsum(np.concatenate([[0], (ordered[1:] != ordered[:-1]).any(axis=1)])[: len(rows)])
    return group


def linked_groups(count: int, links: np.ndarray) -> np.ndarray:
    """(count,) numbers from 0 of the groups into which links (m, 2) join so many things."""
    graph = coo_matrix((np.ones(len(links), dtype=bool), (links[:, 0], links[:, 1])), shape=(count, count))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def cancel_opposite_faces(mesh: Mesh) -> np.ndarray:
    """The faces (indices) that remain when faces of opposite winding on the same vertices cancel each other.

    A solid that was glued together from cells has the walls between them as such pairs. Copies of a face count once.
    """
    order = np.sort(mesh.faces, axis=1)
    group = equal_rows(order)
    winding = _winding(mesh.faces, order)
    balance = np.bincount(group, weights=winding)
    candidates = np.flatnonzero(winding * balance[group] > 0)
    _, first = np.unique(group[candidates], return_index=True)
    return np.sort(candidates[first])


def _winding(faces: np.ndarray, order: np.ndarray) -> np.ndarray:
    """(F,) +1 where a face passes its sorted vertices (F, 3) in their order, -1 backwards, 0 if two are the same."""
    following = faces[np.arange(len(faces)), (faces.argmin(axis=1) + 1) % 3]
    degenerate = (order[:, 0] == order[:, 1]) | (order[:, 1] == order[:, 2])
    return np.where(degenerate, 0, np.where(following == order[:, 1], 1, -1))
