"""Puzzles as folders of piece files, each piece lying in its assembled position.

In: a folder of meshes or clouds (PLY, OBJ, STL, OFF, glTF, PCD, XYZ, NPY), or a folder of such folders. Out: one
`Example` a folder: the points of clouds as they are, points drawn evenly from the surfaces of meshes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from eda.data.example import Example
from eda.data.fragments import checked_mesh, sampled_example
from eda.data.interchange import Part
from eda.data.piece_files import read_file
from eda.data.reading import as_cloud
from eda.data.source import Source, generator_for
from eda.errors import InputError
from eda.settings import check_whole

SUFFIXES = (".ply", ".obj", ".stl", ".off", ".glb", ".gltf", ".pcd", ".xyz", ".npy")


@dataclass(frozen=True)
class PieceFolders(Source[str]):
    """Every folder at or below `path` with two or more piece files, in the order of their names."""

    path: Path
    num_points: int = 4000  # of a puzzle of meshes
    seed: int = 0  # of the points that are drawn

    def __post_init__(self) -> None:
        check_whole("num_points", self.num_points, 8, 10**7)

    @property
    def items(self) -> tuple[str, ...]:
        """The folders, relative to `path`."""
        return self._folders

    @cached_property
    def _folders(self) -> tuple[str, ...]:
        if not self.path.is_dir():
            raise InputError(f"{self.path}: not a folder")
        walked = [Path(folder) for folder, _, _ in os.walk(self.path)]
        found = sorted(str(folder.relative_to(self.path)) for folder in walked if len(piece_files(folder)) > 1)
        if not found:
            raise InputError(
                f"{self.path}: no folder of pieces at or below it; expected two or more files ({', '.join(SUFFIXES)}) "
                f"in assembled position, or a dataset made by `eda fracture` or `eda prepare`"
            )
        return tuple(found)

    def read(self, item: str) -> Example:
        """One folder."""
        name = self.path.resolve().name if item == "." else item
        files = piece_files(self.path / item)
        parts = [read_piece(path) for path in files]
        if all(part.faces is not None for part in parts):
            meshes = [checked_mesh(part.vertices, part.faces, path) for part, path in zip(parts, files, strict=True)]
            return sampled_example(name, meshes, self.num_points, generator_for(self.seed, name))
        if any(part.faces is not None for part in parts):
            raise InputError(f"{self.path / item}: some pieces are meshes and some are clouds; make them all the same")
        normals = [part.normals for part in parts if part.normals is not None]
        clouds = [as_cloud(part.vertices, path) for part, path in zip(parts, files, strict=True)]
        return Example.from_clouds(name, clouds, normals if len(normals) == len(parts) else None)


def piece_files(folder: Path) -> list[Path]:
    """The files of a folder that may be pieces, sorted by name."""
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())


def read_piece(path: Path) -> Part:
    """A mesh, or a cloud with or without normals; several in one file are taken as one."""
    pieces = read_file(path)
    if len(pieces) == 1:
        return Part(pieces[0].points, pieces[0].normals, pieces[0].faces)
    starts = np.cumsum([0, *(len(piece.points) for piece in pieces)])
    faces = [piece.faces + start for piece, start in zip(pieces, starts, strict=False) if piece.faces is not None]
    return Part(np.concatenate([piece.points for piece in pieces]), None, np.concatenate(faces) if faces else None)
