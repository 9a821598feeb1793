"""Meshes to break that lie on disk: a file, a folder of files, or a pack of many in two files.

In: a path. Out: solids, each with its name and licence. A pack is a folder with `meshes.npz` (`verts_u16`, with
vertex = u16 / 65535 - 0.5; `faces_u16`; `vert_offset`; `face_offset`) and `index.json`, a list with the `name` and the
`licence` of every mesh. Meshes of more than `MOST_TRIANGLES` are simplified: the time of a cut grows with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eda.data.archives import read_npz
from eda.data.fracture.solids import one_solid, simplify, solid_of
from eda.data.meshes import merge_vertices, mesh_from_arrays
from eda.data.piece_files import read_as_one
from eda.data.piece_files.formats import MESH_ENDINGS, list_endings
from eda.data.reading import check_offsets, read_json
from eda.errors import InputError

if TYPE_CHECKING:
    from manifold3d import Manifold

MOST_TRIANGLES = 6000
PACK, INDEX = "meshes.npz", "index.json"

# What a licence can ask for beside attribution; one that asks for it matches only a wish that names it.
RESTRICTIONS = frozenset({"NC", "ND", "SA"})


@dataclass(frozen=True)
class MeshFiles:
    """Files of one mesh each."""

    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def name(self, index: int) -> str:
        """The file's name without its ending."""
        return self.paths[index].stem

    def licence(self, index: int) -> str | None:
        """None: mesh files do not tell their licence."""
        return None

    def solid(self, index: int) -> Manifold:
        """Raises `InputError`, which names the file, if it does not hold one closed surface."""
        return _file_solid(self.paths[index])


@dataclass(frozen=True)
class MeshPack:
    """Some of the meshes of a pack."""

    folder: Path
    rows: tuple[int, ...]  # which of them
    entries: tuple[dict[str, Any], ...] = field(repr=False, hash=False)  # what the index says of each of these

    def __len__(self) -> int:
        return len(self.rows)

    def name(self, index: int) -> str:
        """What the index of the pack says."""
        return str(self.entries[index].get("name", self.rows[index]))

    def licence(self, index: int) -> str | None:
        """What the index of the pack says."""
        licence = self.entries[index].get("licence")
        return None if licence is None else str(licence)

    def solid(self, index: int) -> Manifold:
        """Raises `InputError`, which names pack and mesh, if it is not one closed surface."""
        return _pack_solid(self.folder, self.rows[index], self.name(index))


Meshes = MeshFiles | MeshPack


def open_meshes(path: str | Path, licences: Sequence[str] | None = None) -> Meshes:
    """The meshes at a path: a file, a folder of files and of folders, or a pack.

    With `licences`, only those of a pack whose licence contains one of these texts, e.g. "CC BY", and has no
    restriction (NC, ND, SA) that the text does not name. Raises `InputError` if there is no mesh.
    """
    path = Path(path)
    folder = path.parent if path.name == PACK else path
    if (folder / PACK).is_file():
        return _pack(folder, licences)
    if licences is not None:
        raise InputError(f"{path}: mesh files do not tell their licence; only a pack with an {INDEX} can be filtered")
    if path.is_file():
        return MeshFiles((path,))
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder")
    paths = tuple(sorted(file for file in path.rglob("*") if file.suffix.lower() in MESH_ENDINGS and file.is_file()))
    if not paths:
        raise InputError(f"{path}: no meshes in this folder ({list_endings(meshes_only=True)})")
    return MeshFiles(paths)


def _pack(folder: Path, licences: Sequence[str] | None) -> MeshPack:
    entries = read_json(folder / INDEX)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{folder / INDEX}: expected a list with an entry for every mesh")
    num_meshes = len(_pack_arrays(folder)["face_offset"]) - 1
    if len(entries) != num_meshes:
        raise InputError(f"{folder}: {len(entries)} meshes in {INDEX} but {num_meshes} in {PACK}")
    rows = [row for row, entry in enumerate(entries) if licences is None or is_allowed(entry.get("licence"), licences)]
    if not rows:
        raise InputError(f"{folder}: none of its {num_meshes} meshes has a licence like {', '.join(licences or [])}")
    return MeshPack(folder, tuple(rows), tuple(entries[row] for row in rows))


def is_allowed(licence: str | None, wishes: Sequence[str]) -> bool:
    """Whether a licence contains one of the wishes and no restriction that this wish does not name."""
    text = str(licence or "").upper()
    restrictions = RESTRICTIONS & _words(text)
    return any(wish.upper() in text and restrictions <= _words(wish.upper()) for wish in wishes)


def _words(text: str) -> set[str]:
    return set(text.replace("-", " ").split())


@lru_cache(maxsize=2)
def _pack_arrays(folder: Path) -> dict[str, np.ndarray]:
    arrays = read_npz(folder / PACK, ("verts_u16", "faces_u16", "vert_offset", "face_offset"))
    for values, offset in (("verts_u16", "vert_offset"), ("faces_u16", "face_offset")):
        check_offsets(folder / PACK, offset, arrays[offset], len(arrays[values]))
    if arrays["vert_offset"].shape != arrays["face_offset"].shape:
        raise InputError(f"{folder / PACK}: vertices and faces are not of the same number of meshes")
    return arrays


# A dataset visits its meshes in turn, so that the last few hundred are worth keeping.
@lru_cache(maxsize=512)
def _pack_solid(folder: Path, row: int, name: str) -> Manifold:
    arrays = _pack_arrays(folder)
    vertices = arrays["verts_u16"][slice(*arrays["vert_offset"][row : row + 2])] / 65535 - 0.5
    faces = arrays["faces_u16"][slice(*arrays["face_offset"][row : row + 2])]
    return _usable_solid(vertices, faces, f"{folder / PACK}: {name}")


@lru_cache(maxsize=512)
def _file_solid(path: Path) -> Manifold:
    part = read_as_one(path)
    if part.faces is None:
        raise InputError(f"{path}: a cloud of points; a mesh with a closed surface is needed")
    return _usable_solid(part.points, part.faces, str(path))


def _usable_solid(vertices: np.ndarray, faces: np.ndarray, what: str) -> Manifold:
    """One solid that is not too large to be cut in reasonable time."""
    mesh = merge_vertices(mesh_from_arrays(vertices, faces, what))
    a, b, c = mesh.faces.T
    proper = (a != b) & (b != c) & (c != a)  # some formats write a triangle that has shrunk to a line
    return one_solid(simplify(solid_of(mesh.vertices, mesh.faces[proper], what), MOST_TRIANGLES), what)
