"""Closed meshes and the solids that they bound.

In: vertices and triangles. Out: a `manifold3d.Manifold`, whose booleans give closed surfaces again, and back to
triangles, each with a record of the surface that it came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eda.data.meshes import Mesh
from eda.errors import InputError

if TYPE_CHECKING:
    from manifold3d import Manifold

# Crumbs below this share of a solid are rounding errors: booleans leave some where a cut passes through an edge.
NOTHING = 1e-12


def solid_of(vertices: np.ndarray, faces: np.ndarray, what: str = "mesh") -> Manifold:
    """The solid inside a closed mesh. Raises `InputError`, which names `what`, if there is none."""
    from manifold3d import Error

    vertices = np.ascontiguousarray(vertices, dtype=np.float64)
    bad = int((~np.isfinite(vertices)).any(axis=1).sum())
    if bad:
        raise InputError(f"{what}: {bad} vertices with NaN or infinite coordinates; remove them first")
    if not len(faces):
        raise InputError(f"{what}: no triangles; a mesh with a closed surface is needed")
    solid, _ = solid_with_id(vertices, faces)
    if solid.status() != Error.NoError:
        raise InputError(f"{what}: not a closed surface ({solid.status().name}); close its holes first")
    if not solid.volume() > 0:
        raise InputError(f"{what}: it encloses no volume, or is inside out: turn its triangles around")
    return solid


def solid_with_id(vertices: np.ndarray, faces: np.ndarray) -> tuple[Manifold, int]:
    """A solid and the id by which `origins_of` knows its faces; nothing is checked."""
    from manifold3d import Manifold, Mesh64

    mark = Manifold.reserve_ids(1)
    triangles = np.ascontiguousarray(faces, dtype=np.uint64)
    runs = {"run_index": np.array([0, triangles.size], np.uint64), "run_original_id": np.array([mark], np.uint32)}
    return Manifold(Mesh64(vertices, triangles, **runs)), mark


def mesh_of(solid: Manifold) -> Mesh:
    """The surface of a solid."""
    raw = solid.to_mesh64()
    return Mesh(np.array(raw.vert_properties[:, :3]), np.array(raw.tri_verts, dtype=np.int64))


def origins_of(solid: Manifold) -> tuple[np.ndarray, np.ndarray]:
    """For the triangles of `mesh_of`, (F,) each: the id of the solid it was cut from, and if it faces its inside."""
    raw = solid.to_mesh64()
    ends = np.array(raw.run_index, dtype=np.int64) // 3
    triangles = ends[1:] - ends[:-1]
    origin = np.repeat(np.array(raw.run_original_id, dtype=np.int64), triangles)
    return origin, np.repeat(np.array(raw.run_flags, dtype=np.int64) & 1, triangles).astype(bool)


def rotate_solid(solid: Manifold, rotation: np.ndarray) -> Manifold:
    """The solid turned about the origin by a rotation (3, 3)."""
    return solid.transform(np.hstack([rotation, np.zeros((3, 1))]))


def box_of(solid: Manifold) -> np.ndarray:
    """(2, 3) the lowest and the highest coordinates."""
    return np.array(solid.bounding_box()).reshape(2, 3)


def size_of(solid: Manifold) -> float:
    """The diagonal of the bounding box."""
    return float(np.linalg.norm(np.ptp(box_of(solid), axis=0)))


def union(solids: list[Manifold]) -> Manifold:
    """One solid of all of them."""
    from manifold3d import Manifold, OpType

    return Manifold.batch_boolean(solids, OpType.Add)


def connected_parts(solid: Manifold) -> list[Manifold]:
    """The parts that hang together, the largest first.

    The surface of an enclosed void is a part of its own to the library, with a negative volume. A solid of one part
    keeps its voids; in several parts they are filled.
    """
    least = NOTHING * solid.volume()
    volumes = [(part.volume(), part) for part in solid.decompose()]
    parts = sorted((pair for pair in volumes if pair[0] > least), key=lambda pair: -pair[0])
    has_voids = any(volume < -least for volume, _ in volumes)
    return [solid] if len(parts) == 1 and has_voids else [part for _, part in parts]


def one_solid(solid: Manifold, what: str) -> Manifold:
    """The solid if it hangs together, or its main part; overlapping parts are joined. Raises `InputError` otherwise."""
    parts = connected_parts(solid)
    if len(parts) > 1:
        parts = connected_parts(union(parts))
    main, volume = parts[0], sum(part.volume() for part in parts)
    if main.volume() < 0.95 * volume:
        raise InputError(
            f"{what}: {len(parts)} separate solids, the largest with {main.volume() / volume:.0%} of the volume; "
            "give each a file of its own"
        )
    return main


def simplify(solid: Manifold, most: int) -> Manifold:
    """The solid with `most` triangles or fewer, or as few as it gets while its surface moves by 1 % of its size."""
    tolerance = 1e-4 * size_of(solid)
    for doublings in range(7):
        if solid.num_tri() <= most:
            break
        solid = solid.simplify(2**doublings * tolerance)
    return solid
