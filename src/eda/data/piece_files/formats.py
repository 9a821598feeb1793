"""The one table of file endings: what a file of each ending may hold, how it is read, and what reading it needs.

Every command looks here: `eda assemble`, `eda evaluate` and `eda show` for pieces, `eda fracture` and `eda rooms` for
meshes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from eda.data.piece_files.gltf import read_gltf
from eda.data.piece_files.laser_scans import read_e57, read_las
from eda.data.piece_files.number_tables import begins_with_numbers, read_archive, read_array, read_text
from eda.data.piece_files.off import read_off
from eda.data.piece_files.pcd import read_pcd
from eda.data.piece_files.piece_file import Geometry
from eda.data.piece_files.ply import read_ply
from eda.data.piece_files.trimesh_formats import read_mesh
from eda.errors import InputError


class Format(NamedTuple):
    """What is known of the files of one ending."""

    read: Callable[[Path], list[Geometry]]
    mesh: bool = False  # whether such a file may hold a mesh; any may hold a cloud
    extra: str | None = None  # the extra of eda-assembly that has its library
    prose: bool = False  # whether, in a folder, such a file may also be a readme or a list


FORMATS: dict[str, Format] = {
    ".ply": Format(read_ply, mesh=True),
    ".obj": Format(read_mesh, mesh=True),
    ".stl": Format(read_mesh, mesh=True),
    ".off": Format(read_off, mesh=True),
    ".glb": Format(read_gltf, mesh=True),
    ".gltf": Format(read_gltf, mesh=True),
    ".pcd": Format(read_pcd),
    ".xyz": Format(read_text),
    ".txt": Format(read_text, prose=True),
    ".csv": Format(read_text, prose=True),
    ".npy": Format(read_array),
    ".npz": Format(read_archive),
    ".las": Format(read_las, extra="scan"),
    ".laz": Format(read_las, extra="scan"),
    ".e57": Format(read_e57, extra="scan"),
}
MESH_ENDINGS = tuple(ending for ending, known in FORMATS.items() if known.mesh)
COMPANIONS = (".mtl", ".bin", ".png", ".jpg", ".jpeg")  # what lies beside meshes


def list_endings(*, meshes_only: bool = False) -> str:
    """The endings in words for messages, those that need an extra marked."""
    chosen = {ending: known for ending, known in FORMATS.items() if known.mesh or not meshes_only}
    plain = ", ".join(ending for ending, known in chosen.items() if known.extra is None)
    extras: dict[str, list[str]] = {}
    for ending, known in chosen.items():
        if known.extra is not None:
            extras.setdefault(known.extra, []).append(ending)
    return "; ".join([plain, *(f"with the extra {extra}: {', '.join(some)}" for extra, some in extras.items())])


def format_of(path: Path) -> Format:
    """What is known of a file by its ending. Raises `InputError` for an ending that is not in the table."""
    known = FORMATS.get(path.suffix.lower())
    if known is None:
        raise InputError(f"{path}: unknown ending {path.suffix!r}; pieces may be {list_endings()}")
    return known


def read_geometries(path: Path) -> list[Geometry]:
    """The meshes and clouds of a file. Raises `InputError` where the library for its ending is missing."""
    known = format_of(path)
    try:
        return known.read(path)
    except ImportError as error:
        if known.extra is None:
            raise
        raise InputError(
            f"{path}: reading {path.suffix.lower()} needs {error.name}; in the clone of Eda, run: "
            f"pip install '.[{known.extra}]'"
        ) from error


def may_be_piece(path: Path) -> bool:
    """Whether a file of a folder may be a piece, by its ending; texts must begin with numbers."""
    known = FORMATS.get(path.suffix.lower())
    if known is None or path.name.startswith(".") or not path.is_file():
        return False
    return not known.prose or begins_with_numbers(path)
