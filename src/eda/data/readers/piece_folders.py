"""Puzzles as folders of piece files, each piece in its assembled position; Rectified Point Flow's PLY folders, too.

In: a folder of meshes or clouds in any format of `eda.data.piece_files`, or a folder of such folders, with or without
lists of splits: `[<dataset>/]data_split/<split>.txt`. Out: one `Example` a folder: points drawn evenly from the
surfaces of meshes, points of clouds as they are.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from eda.data.example import Example
from eda.data.piece_files import read_as_one
from eda.data.piece_files.formats import list_endings, may_be_piece
from eda.data.readers.hdf5 import SPLITS
from eda.data.readers.part_examples import example_of_clouds, example_of_meshes
from eda.data.reading import read_lines
from eda.data.references import check_names_inside
from eda.data.source import ListedSource, Listing, generator_for
from eda.errors import InputError
from eda.settings import check_whole


@dataclass(frozen=True)
class PieceFolders(ListedSource):
    """Every folder at or below `path` with two or more piece files, in the order of their names."""

    path: Path
    split: str = "all"  # "all": every folder with pieces, else those that data_split/<split>.txt lists
    min_pieces: int = 2
    max_pieces: int = 64
    contact: bool = False  # label contact by geometry: for meshes of parts that fit face to face, such as fractures
    num_points: int = 4000  # of a puzzle: drawn from meshes, or taken of clouds, each with the same chance
    whole_clouds: bool = False  # take all points of clouds
    neighbors: int = 0  # by which normals are estimated for clouds that have none; 0: no normals
    seed: int = 0  # of the points that are drawn

    def __post_init__(self) -> None:
        check_whole("num_points", self.num_points, 8, 10**7)
        check_whole("neighbors", self.neighbors, 0, 4096)

    @staticmethod
    def whole(path: Path) -> PieceFolders:
        """All that a folder holds: every number of pieces, all points of clouds, and contact of meshes."""
        return PieceFolders(path, max_pieces=10**6, contact=True, whole_clouds=True)

    @cached_property
    def listing(self) -> Listing:
        """The folders, relative to `path`."""
        if not self.path.is_dir():
            raise InputError(f"{self.path}: not a folder")
        walk = [Path(folder) for folder, _, _ in os.walk(self.path)]
        counts = {str(folder.relative_to(self.path)): len(_piece_paths(folder)) for folder in walk}
        folders = {folder: count for folder, count in counts.items() if count > 1}
        if not folders:
            raise InputError(
                f"{self.path}: no folder of pieces at or below it; expected two or more files ({list_endings()}) in "
                "assembled position, or a dataset made by `eda fracture`, `rooms`, `streets` or `prepare`"
            )
        listed = sorted(folders) if self.split == "all" else _folders_of_split(self.path, self.split)
        present = [folder for folder in listed if folder in folders]
        chosen = tuple(folder for folder in present if self.min_pieces <= folders[folder] <= self.max_pieces)
        if not chosen:
            raise InputError(
                f"{self.path}: of {len(listed)} folders {len(present)} are there, and none has {self.min_pieces} to "
                f"{self.max_pieces} pieces"
            )
        return Listing(chosen, len(listed) - len(present))

    def read(self, item: str) -> Example:
        """One folder."""
        name = self.path.resolve().name if item == "." else Path(item).as_posix()
        where, rng = str(self.path / item), generator_for(self.seed, name)
        parts = [read_as_one(path) for path in _piece_paths(self.path / item)]
        if all(part.faces is not None for part in parts):
            return example_of_meshes(name, parts, self.num_points, rng, where, contact=self.contact)
        if any(part.faces is not None for part in parts):
            raise InputError(f"{where}: some pieces are meshes and some are clouds; make them all the same")
        most = None if self.whole_clouds else self.num_points
        return example_of_clouds(name, parts, most, rng, where, self.neighbors)


def _piece_paths(folder: Path) -> list[Path]:
    """The files of a folder that may be pieces, sorted by name."""
    return sorted(path for path in folder.iterdir() if may_be_piece(path))


def _folders_of_split(root: Path, split: str) -> list[str]:
    """What the lists of a split name, relative to the root: its own list, or those of the datasets in it."""
    lists = sorted([*root.glob(f"{SPLITS}/{split}.txt"), *root.glob(f"*/{SPLITS}/{split}.txt")])
    if not lists:
        raise InputError(f"{root}: no {SPLITS}/{split}.txt in it or in its folders; take split=all, or another split")
    folders = []
    for path in lists:
        names = read_lines(path)
        check_names_inside(names, path)
        folders += [str((path.parent.parent / name).relative_to(root)) for name in names]
    return folders
