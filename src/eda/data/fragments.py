"""Pieces given as meshes of triangles: checked, freed of inner walls, and turned into points.

In: vertices and faces of every piece, in assembled position. Out: an `Example` of points drawn evenly from their
surfaces, with outward normals and labels of contact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from eda.data.contact import contact_labels
from eda.data.example import Example
from eda.data.reading import as_cloud
from eda.data.solids import Mesh
from eda.errors import InputError

MIN_SAMPLES = 20  # even the smallest piece gets this many points
_DENSER = 8  # contact is looked for in this many times as many points


class Sample(NamedTuple):
    """Points drawn from a surface."""

    points: np.ndarray  # (n, 3)
    normals: np.ndarray  # (n, 3) unit, outward
    faces: np.ndarray  # (n,) the face each was drawn from


def checked_mesh(vertices: Any, faces: Any, where: object) -> Mesh:
    """A mesh of finite vertices whose faces exist, or `InputError`."""
    points, corners = as_cloud(vertices, where), np.asarray(faces)
    if corners.ndim != 2 or corners.shape[1] != 3 or not np.issubdtype(corners.dtype, np.integer) or not len(corners):
        raise InputError(f"{where}: expected triangles (F, 3) of whole numbers, got {corners.dtype} {corners.shape}")
    corners = corners.astype(np.int64)
    if corners.min() < 0 or corners.max() >= len(points):
        raise InputError(f"{where}: its faces name vertices {corners.min()} to {corners.max()} of {len(points)}")
    return Mesh(points, corners)


def merged(mesh: Mesh, tolerance: float = 1e-10) -> Mesh:
    """The same surface with one vertex at every place."""
    cells = np.round(mesh.vertices / tolerance)
    _, first, index = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    return Mesh(mesh.vertices[first], index.reshape(-1)[mesh.faces])


def lasting_faces(mesh: Mesh) -> np.ndarray:
    """The faces (indices) that are left when faces of opposite winding on the same vertices cancel each other.

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


def one_sided(mesh: Mesh) -> Mesh:
    """A mesh that shows every face from both sides, with one face of each pair, turned outward; others as they are.

    Furniture is often modelled so; which side is out is then a guess, good for closed parts.
    """
    if len(lasting_faces(mesh)):
        return mesh
    import trimesh

    _, first = np.unique(np.sort(mesh.faces, axis=1), axis=0, return_index=True)
    shell = trimesh.Trimesh(mesh.vertices, mesh.faces[np.sort(first)], process=False)
    trimesh.repair.fix_normals(shell, multibody=True)
    return Mesh(np.asarray(shell.vertices), np.asarray(shell.faces))


def _winding(faces: np.ndarray, order: np.ndarray) -> np.ndarray:
    """(F,) +1 where a face passes its sorted vertices (F, 3) in their order, -1 backwards, 0 if two are the same."""
    following = faces[np.arange(len(faces)), (faces.argmin(axis=1) + 1) % 3]
    degenerate = (order[:, 0] == order[:, 1]) | (order[:, 1] == order[:, 2])
    return np.where(degenerate, 0, np.where(following == order[:, 1], 1, -1))


def sample_surfaces(meshes: Sequence[Mesh], num_points: int, rng: np.random.Generator) -> list[Sample]:
    """About `num_points` points in all, uniform over the area, so equally dense on all pieces."""
    area = np.array([_area(mesh) for mesh in meshes])
    if not area.min() > 0:
        raise InputError(f"piece {int(area.argmin())} has no surface")
    counts = np.maximum(np.rint(num_points * area / area.sum()).astype(int), MIN_SAMPLES)
    return [_sample(mesh, int(count), rng) for mesh, count in zip(meshes, counts, strict=True)]


def _area(mesh: Mesh) -> float:
    return float(np.linalg.norm(mesh.area_vectors, axis=1).sum())


def _sample(mesh: Mesh, count: int, rng: np.random.Generator) -> Sample:
    vectors = mesh.area_vectors
    area = np.linalg.norm(vectors, axis=1)
    ends = np.cumsum(area)
    # Below the end, and never a face without area: a number equal to an end belongs to the face that begins there.
    drawn = np.minimum(rng.random(count) * ends[-1], np.nextafter(ends[-1], 0))
    faces = np.searchsorted(ends, drawn, side="right")
    along, across = np.sqrt(rng.random((count, 1))), rng.random((count, 1))
    a, b, c = np.moveaxis(mesh.corners[faces], 1, 0)
    points = (1 - along) * a + along * ((1 - across) * b + across * c)
    outward = -1 if Mesh(mesh.vertices - mesh.vertices.mean(axis=0), mesh.faces).volume < 0 else 1
    return Sample(points, outward * vectors[faces] / area[faces, None], faces)


def sampled_example(
    name: str,
    meshes: Sequence[Mesh],
    num_points: int,
    rng: np.random.Generator,
    *,
    contact: bool = True,
    face_labels: Sequence[np.ndarray] | None = None,
) -> Example:
    """A puzzle drawn from the surfaces of its pieces; contact from labels (F,) of their faces, or from geometry."""
    samples = sample_surfaces(meshes, num_points, rng)
    labels = None
    if face_labels is not None:
        labels = [of_faces[s.faces] for of_faces, s in zip(face_labels, samples, strict=True)]
    elif contact:
        labels = _contact_of(samples, meshes, num_points, rng)
    return Example.from_clouds(name, [s.points for s in samples], [s.normals for s in samples], labels)


def _contact_of(
    samples: Sequence[Sample], meshes: Sequence[Mesh], num_points: int, rng: np.random.Generator
) -> list[np.ndarray]:
    dense = sample_surfaces(meshes, _DENSER * num_points, rng)
    # Twice the spacing: a disc that holds a dozen points of what is touched, so that none is missed by chance.
    reach = 2 * float(np.sqrt(sum(map(_area, meshes)) / (_DENSER * num_points)))
    surfaces = [(s.points, s.normals) for s in dense]
    return contact_labels([s.points for s in samples], [s.normals for s in samples], reach, surfaces)
