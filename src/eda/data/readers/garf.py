"""GARF's HDF5 file of fractures, in assembled position.

    data_split/<category>/<split>, <fracture>/pieces/<k>/{vertices, faces, shared_faces}

Points are drawn evenly from the meshes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from eda.data.example import OUTER, Example
from eda.data.mesh_samples import sample_example
from eda.data.meshes import mesh_from_arrays
from eda.data.readers.hdf5 import list_split, member, open_hdf5, read_numbers
from eda.data.reading import reading
from eda.data.source import ListedSource, Listing, generator_for
from eda.errors import InputError
from eda.settings import check_whole


@dataclass(frozen=True)
class Garf(ListedSource):
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

    @cached_property
    def listing(self) -> Listing:
        """The fractures' places in the file."""
        return list_split(
            self.path,
            self.category,
            self.split,
            _num_pieces,
            self.min_pieces,
            self.max_pieces,
        )

    def read(self, item: str) -> Example:
        """One fracture."""
        where = f"{self.path}: {item}"
        with open_hdf5(self.path) as file, reading(self.path, f"{item}/pieces/<k> with vertices, faces, shared_faces"):
            pieces = member(file, f"{item}/pieces")
            numbers = sorted(int(key) for key in pieces)
            keys = ("vertices", "faces", "shared_faces")
            columns = [[read_numbers(pieces, f"{number}/{key}") for key in keys] for number in numbers]
        meshes, labels = [], []
        for vertices, faces, shared in columns:
            mesh = mesh_from_arrays(vertices, faces, where)
            if shared.shape != (len(mesh.faces),) or not set(np.unique(shared)) <= {-1, *numbers}:
                raise InputError(f"{where}: shared_faces must hold -1 or the number of a piece for every face")
            meshes.append(mesh)
            # The file speaks of a piece by its name; a label is its place in the order of the pieces.
            labels.append(np.where(shared < 0, OUTER, np.searchsorted(numbers, shared)))
        return sample_example(item, meshes, self.num_points, generator_for(self.seed, item), face_labels=labels)


def _num_pieces(fracture: Any) -> int:
    return len(member(fracture, "pieces"))
