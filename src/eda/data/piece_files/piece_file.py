"""What a file holds: `Geometry`, as a format's reader gives it; and `PieceFile`, which is whole and has a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from eda.data.mesh_repair import Repair, repair_mesh
from eda.data.meshes import Mesh, mesh_from_arrays
from eda.data.reading import as_cloud
from eda.errors import InputError
from eda.pieces import MIN_POINTS

# A cloud this much thinner than it is long is a line: coordinates in float32 have 7 digits.
_LINE = 1e-6
# No unit of length makes a piece this large, but bytes read as numbers of the wrong kind do.
_LARGEST = 1e100


class Geometry(NamedTuple):
    """A mesh or a cloud as a file gives it, nothing checked."""

    points: np.ndarray  # (n, 3)
    normals: np.ndarray | None = None  # (n, 3)
    faces: np.ndarray | None = None  # (f, 3)
    colors: np.ndarray | None = None  # (n, 3) of any type
    label: str = ""  # its name inside the file


def join_geometries(parts: Sequence[Geometry]) -> Geometry:
    """All geometries as one, with normals and colours if all of them have these."""
    starts = np.cumsum([0, *(len(part.points) for part in parts)])
    faces = [part.faces + start for part, start in zip(parts, starts, strict=False) if part.faces is not None]
    normals = [part.normals for part in parts if part.normals is not None]
    colors = [part.colors for part in parts if part.colors is not None]
    return Geometry(
        np.concatenate([part.points for part in parts]),
        np.concatenate(normals) if len(normals) == len(parts) else None,
        np.concatenate(faces) if faces else None,
        np.concatenate(colors) if len(colors) == len(parts) else None,
    )


@dataclass(frozen=True)
class PieceFile:
    """One piece: a mesh, or a cloud."""

    name: str  # of the file, without its ending; of several in one file, with the name or number inside it
    path: Path
    points: np.ndarray  # (n, 3) float64
    normals: np.ndarray | None  # (n, 3) float64 unit vectors, or None
    faces: np.ndarray | None  # (f, 3) int64, or None for a cloud
    colors: np.ndarray | None  # (n, 3) uint8, or None
    scene_index: int | None  # which of several in one file

    @property
    def where(self) -> str:
        """What a message calls it."""
        return str(self.path) if self.scene_index is None else f"{self.path}: {self.name}"

    @property
    def mesh(self) -> Mesh | None:
        """The surface, if it is a mesh."""
        return None if self.faces is None else Mesh(self.points, self.faces)

    @cached_property
    def repair(self) -> Repair | None:
        """The surface as it is sampled and judged, if it is a mesh. What is written is the mesh of the user."""
        return None if self.mesh is None else repair_mesh(self.mesh)


def piece_of(geometry: Geometry, name: str, path: Path, scene_index: int | None) -> PieceFile:
    """The geometry with its types in order. Raises `InputError` for what is not finite or names points not there."""
    where = str(path) if scene_index is None else f"{path}: {name}"
    points, faces = as_cloud(geometry.points, where), None
    if geometry.faces is not None and len(geometry.faces):
        faces = mesh_from_arrays(points, geometry.faces, where).faces
    normals = unit_normals(geometry.normals, len(points))
    return PieceFile(name, path, points, normals, faces, _byte_colors(geometry.colors, len(points)), scene_index)


def check_piece(piece: PieceFile) -> None:
    """Raise `InputError` for what is sound as a file, but cannot be put anywhere as a piece."""
    where, count = piece.where, len(piece.points)
    if count < MIN_POINTS:
        raise InputError(f"{where}: {count} points; at least {MIN_POINTS} are needed to orient a piece")
    largest = float(np.abs(piece.points).max())
    if largest > _LARGEST:
        raise InputError(f"{where}: coordinates as large as {largest:.0e}; the file is damaged, write it again")
    if float(np.abs(piece.points - piece.points.mean(axis=0)).max()) <= 1e-12 * largest:
        raise InputError(f"{where}: all of its {count} points coincide; give a piece with an extent")
    _, middle, most = spread(piece.points)
    if middle <= _LINE * most:
        raise InputError(f"{where}: all of its points lie on one line, which leaves its orientation open; leave it out")
    if piece.faces is not None and not Mesh(_scale_to_unit(piece.points), piece.faces).area > 0:
        raise InputError(f"{where}: its triangles have no area; give a mesh with a surface, or its points alone")


def spread(points: np.ndarray) -> np.ndarray:
    """(3,) how far points (n, 3) lie apart along their principal axes, ascending, as shares of their reach."""
    scaled = _scale_to_unit(points)
    return np.sqrt(np.maximum(np.linalg.eigvalsh(scaled.T @ scaled / len(points)), 0))


def _scale_to_unit(points: np.ndarray) -> np.ndarray:
    """Around the origin and within 1 of it, because areas and squares of tiny or remote pieces lose their digits."""
    centred = points - points.mean(axis=0)
    return centred / np.abs(centred).max()


def unit_normals(normals: Any, count: int) -> np.ndarray | None:
    """Unit vectors (n, 3), or None if some are not known, for which some writers put zeros."""
    if normals is None or np.shape(normals) != (count, 3):
        return None
    directions = np.asarray(normals, dtype=np.float64)
    length = np.linalg.norm(directions, axis=1, keepdims=True)
    return directions / length if np.isfinite(length).all() and length.min() > 1e-6 else None


def _byte_colors(colors: Any, count: int) -> np.ndarray | None:
    """Colours as bytes: fractions are scaled to 255, and of two bytes the higher one is kept. None if not valid."""
    if colors is None or np.shape(colors) != (count, 3):
        return None
    values = np.asarray(colors)
    if values.dtype == np.uint8:
        return values
    if not np.isfinite(values).all():
        return None
    most = values.max()
    scale = 255 if values.dtype.kind == "f" and most <= 1 else 1 / 257 if most > 255 else 1
    return np.clip(np.rint(values * float(scale)), 0, 255).astype(np.uint8)
