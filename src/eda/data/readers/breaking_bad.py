"""Breaking Bad: fractures of everyday objects and artifacts, from the compressed release or the decompressed folders.

In: the folder into which the archives and `data_split` were unpacked. Out: one `Example` a fracture, drawn evenly from
the surfaces of its pieces, which lie in assembled position on disk, with outward normals and labels of contact.

    compressed     <object>/compressed_mesh.obj, compressed_data.npz, <fracture>/compressed_fracture.npy
    decompressed   <object>/<fracture>/piece_<i>.obj
    splits         data_split/<subset>.<split>.txt, one `<subset>/[<category>/]<id>` a line; some are not on disk
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse

from eda.data.archives import check_npz, read_npy
from eda.data.example import Example
from eda.data.mesh_samples import (
    SurfaceSample,
    example_of_samples,
    label_contact,
    points_of_grid,
    sample_on_grid,
    sample_surfaces,
)
from eda.data.meshes import Mesh, cancel_opposite_faces, merge_vertices, mesh_from_arrays
from eda.data.reading import check_line_lengths, read_lines, reading
from eda.data.references import check_names_inside
from eda.data.source import LeftOut, ListedSource, Listing, check_number_of_pieces, generator_for
from eda.errors import InputError
from eda.settings import check_choice, check_positive, check_whole

SUBSETS = ("everyday", "artifact", "other")
SPLITS = ("train", "val", "all")
MESH, DATA, FRACTURE = "compressed_mesh.obj", "compressed_data.npz", "compressed_fracture.npy"


@dataclass(frozen=True)
class BreakingBad(ListedSource):
    """The defaults are the paper's: the everyday subset, 2 to 8 pieces, none under 1/40 of the object's volume."""

    path: Path
    subset: str = "everyday"
    split: str = "train"  # of the official lists; "all" needs none
    min_pieces: int = 2
    max_pieces: int = 8
    smallest_share: float = 1 / 40  # of the whole's volume, that every piece must have; 0 takes all
    num_points: int = 10_000  # of a puzzle, if there is no grid
    grid: float = 0.0  # the paper's is 0.02: one point for every cube of this edge; 0: points evenly by area
    max_piece_points: int = 0  # at most so many a piece, as the paper's 2,500; 0: all
    seed: int = 0  # of the points that are drawn

    def __post_init__(self) -> None:
        check_choice("subset", self.subset, SUBSETS)
        check_choice("split", self.split, SPLITS)
        check_whole("num_points", self.num_points, 8, 10**7)
        check_whole("max_piece_points", self.max_piece_points, 0, 10**7)
        if self.grid != 0:
            check_positive("grid", self.grid)

    @cached_property
    def listing(self) -> Listing:
        """The folders of the fractures, relative to `path`; objects that the split names may not be on disk."""
        objects = find_objects(self.path, self.subset)
        if not objects:
            raise InputError(
                f"{self.path}: nothing of Breaking Bad's '{self.subset}' below it; expected folders with {MESH} and "
                f"{DATA}, or folders of fractures with piece_<i>.obj"
            )
        keys = sorted(objects) if self.split == "all" else self._split_keys()
        present = [key for key in keys if key in objects]
        if not present:
            raise InputError(f"{self.path}: none of the {len(keys)} objects of the split '{self.split}' is on disk")
        return Listing(tuple(fracture for key in present for fracture in objects[key]), len(keys) - len(present))

    def _split_keys(self) -> list[str]:
        name = f"{self.subset}.{self.split}.txt"
        folders = ("data_split", "data_split/data_split", "../data_split", ".")
        for folder in folders:
            if (self.path / folder / name).is_file():
                lines = read_lines(self.path / folder / name)
                check_names_inside(lines, self.path / folder / name)
                return [_key(Path(line).parts, self.subset) or line for line in lines]
        raise InputError(
            f"{self.path}: no data_split/{name} in it or beside it; unpack data_split there, or take split=all"
        )

    def read(self, item: str) -> Example:
        """One fracture."""
        folder = self.path / item
        pieces = read_compressed(folder) if (folder / FRACTURE).is_file() else read_decompressed(folder)
        check_number_of_pieces(item, len(pieces), self.min_pieces, self.max_pieces)
        volumes = np.abs([piece.volume for piece in pieces])
        if volumes.min() < self.smallest_share * volumes.sum():
            raise LeftOut(f"{item}: a piece has less than {self.smallest_share:.3g} of the whole's volume")
        rng = generator_for(self.seed, item)
        density = points_of_grid(pieces, self.grid) if self.grid else self.num_points
        samples = sample_on_grid(pieces, self.grid, rng) if self.grid else sample_surfaces(pieces, density, rng)
        if self.max_piece_points:
            samples = [self._limit_points(sample, rng) for sample in samples]
        return example_of_samples(item, samples, label_contact(samples, pieces, density, rng))

    def _limit_points(self, sample: SurfaceSample, rng: np.random.Generator) -> SurfaceSample:
        """At most as many points as a piece may have, each with the same chance."""
        count = len(sample.points)
        return sample.take(np.sort(rng.permutation(count)[: self.max_piece_points]))


# -- finding -----------------------------------------------------------------------------------------------


def find_objects(root: Path, subset: str) -> dict[str, list[str]]:
    """The objects of a subset, `[<category>/]<id>`, and the folders of their fractures. The compressed release wins."""
    if not root.is_dir():
        raise InputError(f"{root}: not a folder")
    found: dict[bool, dict[str, list[str]]] = {True: {}, False: {}}  # compressed, decompressed
    for folder, subfolders, files in os.walk(root):
        subfolders.sort()
        relative = Path(folder).relative_to(root)
        compressed = MESH in files and DATA in files
        if compressed:
            fractures = [str(relative / name) for name in subfolders if (Path(folder) / name / FRACTURE).is_file()]
            subfolders.clear()
        elif any(_piece_number(name) is not None for name in files):
            fractures, relative = [str(relative)], relative.parent
        else:
            continue
        key = _key((root.resolve().name, *relative.parts), subset)
        if key is not None:
            found[compressed].setdefault(key, []).extend(fractures)
    return {**found[False], **found[True]}


def _key(parts: tuple[str, ...], subset: str) -> str | None:
    """`[<category>/]<id>`: what follows the subset's folder in a path; None if it lies in another subset's."""
    bare = [part.removeprefix("volume_constrained-").removesuffix("_compressed") for part in parts]
    depth = max((depth for depth, part in enumerate(bare) if part in SUBSETS), default=None)
    if depth is None:
        return "/".join(parts[1:])
    return "/".join(parts[depth + 1 :]) if bare[depth] == subset else None


def _piece_number(name: str) -> int | None:
    match = re.fullmatch(r"piece_(\d+)\.obj", name)
    return int(match[1]) if match else None


# -- reading -----------------------------------------------------------------------------------------------


def read_decompressed(folder: Path) -> list[Mesh]:
    """The pieces of a fracture's folder, in the order of their numbers."""
    with reading(folder, "a folder with piece_<i>.obj"):
        numbered = {_piece_number(path.name): path for path in folder.iterdir()}
    files = [numbered[number] for number in sorted(number for number in numbered if number is not None)]
    return _drop_inner_walls([merge_vertices(read_obj(path)) for path in files], folder)


def read_compressed(folder: Path) -> list[Mesh]:
    """The pieces of a fracture that is stored as labels of the vertices of its object's mesh."""
    mesh, matrix = _read_object(folder.parent)
    labels = read_npy(folder / FRACTURE)
    if labels.shape != (matrix.shape[1],) or not np.issubdtype(labels.dtype, np.number):
        raise InputError(f"{folder / FRACTURE}: expected {matrix.shape[1]} labels, got {labels.dtype} {labels.shape}")
    of_vertex = matrix @ labels.astype(np.float64)
    if not np.isfinite(of_vertex).all():
        raise InputError(f"{folder / FRACTURE}: labels that are not numbers")
    of_face = np.rint(of_vertex).astype(np.int64)[mesh.first_vertex]
    pieces = [Mesh(mesh.surface.vertices, mesh.surface.faces[of_face == label]) for label in np.unique(of_face)]
    return _drop_inner_walls(pieces, folder)


class _ObjectMesh(NamedTuple):
    surface: Mesh  # with one vertex at every place
    first_vertex: np.ndarray  # (F,) the first vertex of every face, as the file numbers them: it has the face's label


@lru_cache(maxsize=2)
def _read_object(folder: Path) -> tuple[_ObjectMesh, scipy.sparse.csr_matrix]:
    """An object's mesh and the matrix that spreads labels over its vertices; its fractures follow each other."""
    mesh = read_obj(folder / MESH)
    with reading(folder / DATA, "a sparse matrix as scipy saves it"):
        check_npz(folder / DATA)
        matrix = scipy.sparse.load_npz(folder / DATA)
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        matrix = matrix.tocsr()
    if matrix.shape[0] != len(mesh.vertices):
        raise InputError(f"{folder / DATA}: {matrix.shape[0]} rows, but {MESH} has {len(mesh.vertices)} vertices")
    return _ObjectMesh(merge_vertices(mesh), mesh.faces[:, 0]), matrix


def _drop_inner_walls(pieces: list[Mesh], where: Path) -> list[Mesh]:
    """The simulator glues pieces from smaller cells, whose common walls stay in the files, twice, face to face."""
    cleaned = []
    for number, piece in enumerate(pieces):
        rows = cancel_opposite_faces(piece)
        if not len(rows):
            raise InputError(f"{where}: piece {number} has no surface")
        cleaned.append(Mesh(piece.vertices, piece.faces[rows]).compact())
    return cleaned


def read_obj(path: Path) -> Mesh:
    """An OBJ file of triangles with its vertices in the file's own order, which the labels of a fracture count on."""
    with reading(path, "a mesh of triangles as OBJ"):
        content = path.read_bytes()
        check_line_lengths(content)
        rows = [line.split() for line in content.decode("utf-8").splitlines()]
        vertices = np.array([row[1:4] for row in rows if row and row[0] == "v"], dtype=np.float64)
        corners = [row[1:] for row in rows if row and row[0] == "f"]
        faces = np.array([[corner.partition("/")[0] for corner in face] for face in corners], dtype=np.int64)
    return mesh_from_arrays(vertices, faces - 1, path)
