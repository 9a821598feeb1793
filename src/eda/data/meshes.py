"""Meshes of triangles: checked, freed of doubled vertices and of inner walls, joined.

In: vertices and faces, as a file or a generator gives them. Out: a `Mesh`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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
        a, b, c = np.moveaxis(self.corners, 1, 0)
        return np.cross(b - a, c - a) / 2

    @property
    def area(self) -> float:
        """The area of all triangles together."""
        return float(np.linalg.norm(self.area_vectors, axis=1).sum())

    @property
    def volume(self) -> float:
        """The volume inside, if the mesh is closed."""
        a, b, c = np.moveaxis(self.corners - self.vertices.mean(axis=0), 1, 0)
        return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)


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
    cells = np.round(mesh.vertices / tolerance)
    _, first, index = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    return Mesh(mesh.vertices[first], index.reshape(-1)[mesh.faces])


def cancel_opposite_faces(mesh: Mesh) -> np.ndarray:
    """The faces (indices) that remain when faces of opposite winding on the same vertices cancel each other.

    A solid that was glued together from cells has the walls between them as such pairs. Copies of a face count once.
    """
    order = np.sort(mesh.faces, axis=1)
    _, group = np.unique(order, axis=0, return_inverse=True)
    group = group.reshape(-1)
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


def make_one_sided(mesh: Mesh) -> Mesh:
    """One face of each pair, if a mesh has every face twice, once for each side; other meshes are returned unchanged.

    Furniture is often modelled so. The faces that are kept are turned outward; which side that is is a guess, good
    for closed parts.
    """
    if len(cancel_opposite_faces(mesh)):
        return mesh
    import trimesh

    _, first = np.unique(np.sort(mesh.faces, axis=1), axis=0, return_index=True)
    shell = trimesh.Trimesh(mesh.vertices, mesh.faces[np.sort(first)], process=False)
    trimesh.repair.fix_normals(shell, multibody=True)
    return Mesh(np.asarray(shell.vertices), np.asarray(shell.faces))


def is_closed(mesh: Mesh) -> bool:
    """Whether every edge is passed as often in one direction as in the other: no holes, and one outside."""
    joined = merge_vertices(mesh)
    start = joined.faces.ravel()
    end = np.roll(joined.faces, -1, axis=1).ravel()
    count = len(joined.vertices)
    proper = start != end  # a triangle that has shrunk to a line has such edges
    forward, backward = (start * count + end)[proper], (end * count + start)[proper]
    return bool(np.array_equal(np.sort(forward), np.sort(backward)))
