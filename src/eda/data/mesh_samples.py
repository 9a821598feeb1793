"""Points drawn evenly from the surfaces of pieces.

In: the meshes of the pieces, in assembled position. Out: an `Example` with outward normals and labels of contact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from eda.cloud import voxel_grid
from eda.data.contact_labels import contact_labels
from eda.data.example import Example
from eda.data.meshes import Mesh
from eda.errors import InputError

MIN_SAMPLES = 20  # even the smallest piece gets this many points
_DENSER = 8  # contact is looked for in this many times as many points, and a grid is filled by as many


class SurfaceSample(NamedTuple):
    """Points drawn from a surface."""

    points: np.ndarray  # (n, 3)
    normals: np.ndarray  # (n, 3) unit, outward
    faces: np.ndarray  # (n,) the face each was drawn from

    def take(self, rows: np.ndarray) -> SurfaceSample:
        """Some of the points."""
        return SurfaceSample(self.points[rows], self.normals[rows], self.faces[rows])


def sample_surfaces(meshes: Sequence[Mesh], num_points: int, rng: np.random.Generator) -> list[SurfaceSample]:
    """About `num_points` points in all, uniform over the area, so equally dense on all pieces."""
    area = np.array([mesh.area for mesh in meshes])
    if not area.min() > 0:
        raise InputError(f"piece {int(area.argmin())} has no surface")
    counts = np.maximum(np.rint(num_points * area / area.sum()).astype(int), MIN_SAMPLES)
    return [_sample(mesh, int(count), rng) for mesh, count in zip(meshes, counts, strict=True)]


def _sample(mesh: Mesh, count: int, rng: np.random.Generator) -> SurfaceSample:
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
    return SurfaceSample(points, outward * vectors[faces] / area[faces, None], faces)


def sample_on_grid(meshes: Sequence[Mesh], grid: float, rng: np.random.Generator) -> list[SurfaceSample]:
    """One point for every cube of edge `grid` that a surface passes through, up to a few that chance misses."""
    dense = sample_surfaces(meshes, _DENSER * points_of_grid(meshes, grid), rng)
    return [sample.take(voxel_grid(sample.points, grid)) for sample in dense]


def points_of_grid(meshes: Sequence[Mesh], grid: float) -> int:
    """About how many cubes of edge `grid` the surfaces pass through; at least one."""
    return max(1, round(sum(mesh.area for mesh in meshes) / grid**2))


def label_contact(
    samples: Sequence[SurfaceSample], meshes: Sequence[Mesh], num_points: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """By geometry, (n,) for every sample: the piece that each point touches. `num_points` says how dense they are."""
    dense = sample_surfaces(meshes, _DENSER * num_points, rng)
    # Twice the spacing: a disc that holds a dozen points of what is touched, so that none is missed by chance.
    reach = 2 * float(np.sqrt(sum(mesh.area for mesh in meshes) / (_DENSER * num_points)))
    surfaces = [(s.points, s.normals) for s in dense]
    return contact_labels([s.points for s in samples], [s.normals for s in samples], reach, surfaces)


def example_of_samples(
    name: str, samples: Sequence[SurfaceSample], contact: Sequence[np.ndarray] | None = None
) -> Example:
    """The puzzle of these points."""
    return Example.from_clouds(name, [s.points for s in samples], [s.normals for s in samples], contact)


def sample_example(
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
        labels = label_contact(samples, meshes, num_points, rng)
    return example_of_samples(name, samples, labels)
