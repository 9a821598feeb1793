"""The parts of an object, meshes or clouds in assembled position, as an example."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eda.data.example import Example
from eda.data.mesh_repair import repair_mesh
from eda.data.mesh_samples import MIN_SAMPLES, sample_example
from eda.data.meshes import mesh_from_arrays
from eda.data.piece_files.piece_file import Geometry, unit_normals
from eda.data.reading import as_cloud


def example_of_meshes(
    name: str, parts: Sequence[Geometry], num_points: int, rng: np.random.Generator, where: str, *, contact: bool
) -> Example:
    """Points drawn evenly from the surfaces of meshes; `contact` labels by geometry which piece they touch."""
    meshes = [mesh_from_arrays(part.points, part.faces, f"{where}, part {i}") for i, part in enumerate(parts)]
    return sample_example(name, [repair_mesh(mesh).mesh for mesh in meshes], num_points, rng, contact=contact)


def example_of_clouds(
    name: str, parts: Sequence[Geometry], most: int | None, rng: np.random.Generator, where: str, neighbors: int
) -> Example:
    """About `most` of the points as they are, each with the same chance; None: all of them.

    Normals are those of the parts if all have them, or else estimated from so many `neighbors`.
    """
    clouds = [as_cloud(part.points, f"{where}, part {i}") for i, part in enumerate(parts)]
    share = min(1.0, most / sum(map(len, clouds))) if most else 1.0
    rows = [np.arange(len(cloud)) if share == 1 else _some_rows(len(cloud), share, rng) for cloud in clouds]
    normals = [unit_normals(part.normals, len(part.points)) for part in parts]
    known = [unit[chosen] for unit, chosen in zip(normals, rows, strict=True) if unit is not None]
    clouds = [cloud[chosen] for cloud, chosen in zip(clouds, rows, strict=True)]
    return Example.from_clouds(name, clouds, known if len(known) == len(parts) else None).with_normals(neighbors)


def _some_rows(count: int, share: float, rng: np.random.Generator) -> np.ndarray:
    return np.sort(rng.permutation(count)[: max(round(share * count), MIN_SAMPLES)])
