"""The peers' files: GARF's HDF5, Rectified Point Flow's HDF5, and folders of PLY parts. All are in assembled position.

    GARF   data_split/<category>/<split>, <fracture>/pieces/<k>/{vertices, faces, shared_faces}
    RPF    data_split/<dataset>/<split>, <object>/<fragmentation>/<part>/{vertices, normals?, faces?}
    PLY    [<dataset>/]data_split/<split>.txt, <object>/.../part_000.ply; or just folders of parts

Meshes are drawn from evenly; parts that are clouds are taken as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from eda.data.example import OUTER, Example
from eda.data.fragments import MIN_SAMPLES, checked_mesh, merged, one_sided, sampled_example
from eda.data.reading import as_cloud, read_lines, reading
from eda.data.source import Source, generator_for
from eda.errors import InputError
from eda.settings import check_whole

SPLITS = "data_split"


@dataclass(frozen=True)
class Garf(Source[str]):
    """Fractures of a GARF file; which faces touch which piece is written in it."""

    path: Path
    category: str = "everyday"
    split: str = "train"
    min_pieces: int = 2
    max_pieces: int = 8
    num_points: int = 4000  # of a puzzle
    seed: int = 0  # of the points that are drawn

    def __post_init__(self) -> None:
        check_whole("num_points", self.num_points, 8, 10**7)

    @property
    def items(self) -> tuple[str, ...]:
        """The fractures' places in the file."""
        return self._listed[0]

    @property
    def num_missing(self) -> int:
        """Fractures that the split names but the file does not hold."""
        return self._listed[1]

    @cached_property
    def _listed(self) -> tuple[tuple[str, ...], int]:
        return _listed_in_hdf5(self.path, self.category, self.split, lambda group: len(group["pieces"]), self)

    def read(self, item: str) -> Example:
        """One fracture."""
        where = f"{self.path}: {item}"
        with _hdf5(self.path) as file, reading(self.path, f"{item}/pieces/<k> with vertices, faces, shared_faces"):
            pieces = file[item]["pieces"]
            numbers = sorted(int(key) for key in pieces)
            columns = [_arrays(pieces[str(number)], "vertices", "faces", "shared_faces") for number in numbers]
        meshes, labels = [], []
        for vertices, faces, shared in columns:
            mesh = checked_mesh(vertices, faces, where)
            if shared.shape != (len(mesh.faces),) or not set(np.unique(shared)) <= {-1, *numbers}:
                raise InputError(f"{where}: shared_faces must hold -1 or the number of a piece for every face")
            meshes.append(mesh)
            # The file speaks of a piece by its name; a label is its place in the order of the pieces.
            labels.append(np.where(shared < 0, OUTER, np.searchsorted(numbers, shared)))
        return sampled_example(item, meshes, self.num_points, generator_for(self.seed, item), face_labels=labels)


class Part(NamedTuple):
    """One piece as a file gives it."""

    vertices: np.ndarray  # (V, 3)
    normals: np.ndarray | None  # (V, 3)
    faces: np.ndarray | None  # (F, 3)


@dataclass(frozen=True)
class RectifiedPointFlow(Source[str]):
    """Objects of a Rectified Point Flow file."""

    path: Path
    dataset: str = ""  # as `data_split` names it; empty if the file holds only one
    split: str = "train"
    min_pieces: int = 2
    max_pieces: int = 64
    contact: bool = False  # label contact by geometry: for meshes of parts that fit face to face, such as fractures
    num_points: int = 4000  # of a puzzle
    seed: int = 0  # of the points that are drawn

    def __post_init__(self) -> None:
        check_whole("num_points", self.num_points, 8, 10**7)

    @property
    def items(self) -> tuple[str, ...]:
        """The objects' places in the file."""
        return self._listed[0]

    @property
    def num_missing(self) -> int:
        """Objects that the split names but the file does not hold."""
        return self._listed[1]

    @cached_property
    def _listed(self) -> tuple[tuple[str, ...], int]:
        return _listed_in_hdf5(self.path, self.dataset, self.split, len, self)

    def read(self, item: str) -> Example:
        """One object."""
        with _hdf5(self.path) as file, reading(self.path, f"{item}/<part> with vertices"):
            parts = [_read_part(group) for _, group in sorted(file[item].items())]
        return _example_of_parts(item, parts, self, f"{self.path}: {item}")


@dataclass(frozen=True)
class PlyFolders(Source[str]):
    """Folders of PLY parts, one puzzle each."""

    path: Path
    split: str = "all"  # "all": every folder with parts, else those that data_split/<split>.txt lists
    min_pieces: int = 2
    max_pieces: int = 64
    contact: bool = False  # label contact by geometry: for meshes of parts that fit face to face, such as fractures
    num_points: int = 4000  # of a puzzle
    seed: int = 0  # of the points that are drawn

    def __post_init__(self) -> None:
        check_whole("num_points", self.num_points, 8, 10**7)

    @property
    def items(self) -> tuple[str, ...]:
        """The folders, relative to `path`."""
        return self._listed[0]

    @property
    def num_missing(self) -> int:
        """Folders that the split names but that are not there."""
        return self._listed[1]

    @cached_property
    def _listed(self) -> tuple[tuple[str, ...], int]:
        if not self.path.is_dir():
            raise InputError(f"{self.path}: not a folder")
        folders = _folders_of_parts(self.path)
        if not folders:
            raise InputError(f"{self.path}: no folder with parts as .ply below it")
        listed = sorted(folders) if self.split == "all" else _folders_of_split(self.path, self.split)
        present = [folder for folder in listed if folder in folders]
        wanted = [folder for folder in present if self.min_pieces <= folders[folder] <= self.max_pieces]
        if not wanted:
            raise InputError(
                f"{self.path}: of {len(listed)} folders {len(present)} are there, and none has {self.min_pieces} to "
                f"{self.max_pieces} parts"
            )
        return tuple(wanted), len(listed) - len(present)

    def read(self, item: str) -> Example:
        """One folder."""
        folder = self.path / item
        parts = [read_ply(path) for path in sorted(folder.glob("*.ply"))]
        name = self.path.resolve().name if item == "." else Path(item).as_posix()
        return _example_of_parts(name, parts, self, str(folder))


# -- folders -----------------------------------------------------------------------------------------------


def _folders_of_parts(root: Path) -> dict[str, int]:
    """The folders below a root that hold parts, relative to it, and how many."""
    counts = {}
    for folder, _, files in os.walk(root):
        parts = sum(name.endswith(".ply") for name in files)
        if parts:
            counts[str(Path(folder).relative_to(root))] = parts
    return counts


def _folders_of_split(root: Path, split: str) -> list[str]:
    """What the lists of a split name, relative to the root: its own list, or those of the datasets in it."""
    lists = sorted([*root.glob(f"{SPLITS}/{split}.txt"), *root.glob(f"*/{SPLITS}/{split}.txt")])
    if not lists:
        raise InputError(f"{root}: no {SPLITS}/{split}.txt in it or in its folders; take split=all, or another split")
    return [str((path.parent.parent / line).relative_to(root)) for path in lists for line in read_lines(path)]


def read_ply(path: Path) -> Part:
    """One part: a mesh, or a cloud with or without normals."""
    from trimesh.exchange.ply import load_ply

    with reading(path, "a mesh or a cloud as PLY"), open(path, "rb") as file:
        columns = load_ply(file)
        return Part(columns["vertices"], columns.get("vertex_normals"), _faces_if_any(columns.get("faces")))


def _faces_if_any(faces: np.ndarray | None) -> np.ndarray | None:
    return faces if faces is not None and len(faces) else None


# -- HDF5 --------------------------------------------------------------------------------------------------


def _hdf5(path: Path) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"{path}: reading HDF5 needs h5py; in the clone of Eda, run: pip install '.[hdf5]'") from error
    with reading(path, "an HDF5 file"):
        return h5py.File(path, "r")


def _read_part(group: Any) -> Part:
    normals, faces = (group[key][()] if key in group else None for key in ("normals", "faces"))
    return Part(group["vertices"][()], normals, _faces_if_any(faces))


def _arrays(group: Any, *keys: str) -> tuple[np.ndarray, ...]:
    return tuple(group[key][()] for key in keys)


def _listed_in_hdf5(
    path: Path, dataset: str, split: str, count: Callable[[Any], int], wanted: Garf | RectifiedPointFlow
) -> tuple[tuple[str, ...], int]:
    """The names of a split that are in the file and have the wanted number of pieces; and how many are not in it."""
    with _hdf5(path) as file, reading(path, f"{SPLITS}/<dataset>/<split>"):
        splits = file[SPLITS]
        if not dataset and len(splits) == 1:
            dataset = next(iter(splits))
        if dataset not in splits or split not in splits[dataset]:
            known = [f"{name}/{part}" for name in splits for part in splits[name]]
            raise InputError(f"{path}: no split {dataset or '<dataset>'}/{split}; it has {', '.join(known)}")
        listed = [name.decode() if isinstance(name, bytes) else str(name) for name in splits[dataset][split][()]]
        counts = {name: count(file[name]) for name in listed if name in file}
    chosen = tuple(name for name in counts if wanted.min_pieces <= counts[name] <= wanted.max_pieces)
    if not chosen:
        raise InputError(
            f"{path}: of {len(listed)} puzzles of {dataset}/{split}, {len(counts)} are in the file, and none has "
            f"{wanted.min_pieces} to {wanted.max_pieces} pieces"
        )
    return chosen, len(listed) - sum(name in counts for name in listed)


# -- parts -------------------------------------------------------------------------------------------------


def _example_of_parts(
    name: str, parts: Sequence[Part], options: RectifiedPointFlow | PlyFolders, where: str
) -> Example:
    rng = generator_for(options.seed, name)
    if any(part.faces is None for part in parts):
        return _example_of_clouds(name, parts, options.num_points, rng, where)
    meshes = [checked_mesh(part.vertices, part.faces, f"{where}, part {i}") for i, part in enumerate(parts)]
    meshes = [one_sided(merged(mesh)) for mesh in meshes]
    return sampled_example(name, meshes, options.num_points, rng, contact=options.contact)


def _example_of_clouds(
    name: str, parts: Sequence[Part], num_points: int, rng: np.random.Generator, where: str
) -> Example:
    """Some of the points as they are, each with the same chance."""
    clouds = [as_cloud(part.vertices, f"{where}, part {i}") for i, part in enumerate(parts)]
    share = min(1.0, num_points / sum(map(len, clouds)))
    rows = [np.sort(rng.permutation(len(cloud))[: max(round(share * len(cloud)), MIN_SAMPLES)]) for cloud in clouds]
    normals = [_normals(part, chosen) for part, chosen in zip(parts, rows, strict=True)]
    known = [directions for directions in normals if directions is not None]
    clouds = [cloud[chosen] for cloud, chosen in zip(clouds, rows, strict=True)]
    return Example.from_clouds(name, clouds, known if len(known) == len(parts) else None)


def _normals(part: Part, rows: np.ndarray) -> np.ndarray | None:
    """The unit normals of some points, or None where they are not known: some writers put zeros for that."""
    if part.normals is None or np.shape(part.normals) != np.shape(part.vertices):
        return None
    chosen = np.asarray(part.normals, dtype=np.float64)[rows]
    length = np.linalg.norm(chosen, axis=1, keepdims=True)
    return chosen / length if np.isfinite(length).all() and length.min() > 0 else None
