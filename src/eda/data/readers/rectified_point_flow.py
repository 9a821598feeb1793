"""Rectified Point Flow's HDF5 file of objects in parts, in assembled position. (Its PLY folders: `piece_folders`.)

    data_split/<dataset>/<split>, <object>/<fragmentation>/<part>/{vertices, normals?, faces?}

Meshes are drawn from evenly; of parts that are clouds, some points are taken as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from eda.data.example import Example
from eda.data.piece_files.piece_file import Geometry
from eda.data.readers.hdf5 import list_split, member, open_hdf5, read_numbers
from eda.data.readers.part_examples import example_of_clouds, example_of_meshes
from eda.data.reading import reading
from eda.data.source import ListedSource, Listing, generator_for
from eda.settings import check_whole


@dataclass(frozen=True)
class RectifiedPointFlow(ListedSource):
    """Objects of a Rectified Point Flow file."""

    path: Path
    dataset: str = ""  # as `data_split` names it; empty if the file holds only one
    split: str = "train"
    min_pieces: int = 2
    max_pieces: int = 64
    contact: bool = False  # label contact by geometry: for meshes of parts that fit face to face, such as fractures
    num_points: int = 4000  # of a puzzle
    neighbors: int = 0  # by which normals are estimated for clouds that have none; 0: no normals
    seed: int = 0  # of the points that are drawn

    def __post_init__(self) -> None:
        check_whole("num_points", self.num_points, 8, 10**7)
        check_whole("neighbors", self.neighbors, 0, 4096)

    @cached_property
    def listing(self) -> Listing:
        """The objects' places in the file."""
        return list_split(self.path, self.dataset, self.split, len, self.min_pieces, self.max_pieces)

    def read(self, item: str) -> Example:
        """One object."""
        with open_hdf5(self.path) as file, reading(self.path, f"{item}/<part> with vertices"):
            group = member(file, item)
            parts = [_read_part(member(group, name)) for name in sorted(group)]
        where, rng = f"{self.path}: {item}", generator_for(self.seed, item)
        if any(part.faces is None for part in parts):
            return example_of_clouds(item, parts, self.num_points, rng, where, self.neighbors)
        return example_of_meshes(item, parts, self.num_points, rng, where, contact=self.contact)


def _read_part(group: Any) -> Geometry:
    normals, faces = (read_numbers(group, key) if key in group else None for key in ("normals", "faces"))
    return Geometry(read_numbers(group, "vertices"), normals, faces if faces is not None and len(faces) else None)
