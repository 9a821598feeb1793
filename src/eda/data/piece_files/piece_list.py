"""The pieces in files and folders: which files are pieces, in which order, and by which names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from eda.data.piece_files.formats import COMPANIONS, list_endings, may_be_piece, read_geometries
from eda.data.piece_files.piece_file import Geometry, PieceFile, check_piece, join_geometries, piece_of
from eda.data.reading import reading
from eda.errors import InputError


class UsablePieces(NamedTuple):
    """What is in files and folders."""

    pieces: list[PieceFile]
    refused: dict[str, str]  # why others, by their names, cannot be put anywhere


def read_pieces(paths: Sequence[str | Path]) -> list[PieceFile]:
    """The pieces in some files and folders, in the order given; those of a folder in the order people count.

    A file may hold several. Raises `InputError`, which names the file, for what cannot be a piece.
    """
    pieces, refused = read_usable_pieces(paths)
    for reason in refused.values():
        raise InputError(reason)
    return pieces


@np.errstate(invalid="ignore", over="ignore")  # in the numbers of a damaged file, which are checked once they are read
def read_usable_pieces(paths: Sequence[str | Path]) -> UsablePieces:
    """As `read_pieces`, but what can be read and cannot be a piece is left out, with the reason."""
    found = [one for path in paths for file in _files_at(Path(path)) for one in _read_geometries(file)]
    if not found:
        raise InputError(f"no pieces: give files ({list_endings()}), or folders of them")
    pieces, refused = [], dict[str, str]()
    for one, name in zip(found, _distinct([one.name for one in found]), strict=True):
        try:
            pieces.append(_checked(one._replace(name=name)))
        except InputError as error:
            refused[name] = str(error)
    return UsablePieces(pieces, refused)


@np.errstate(invalid="ignore", over="ignore")
def read_file(path: Path) -> list[PieceFile]:
    """What one file holds, which may be less than a usable piece: a single point, say."""
    return [piece_of(*one) for one in _read_geometries(path)]


class _Found(NamedTuple):
    """As `piece_of` wants it."""

    geometry: Geometry
    name: str
    path: Path
    scene_index: int | None


def _checked(found: _Found) -> PieceFile:
    piece = piece_of(*found)
    check_piece(piece)
    return piece


def _read_geometries(path: Path) -> list[_Found]:
    with reading(path, "a file"):
        if not path.is_file():
            raise InputError(f"{path}: {'neither a file nor a folder' if path.exists() else 'not there'}")
        if path.stat().st_size == 0:
            raise InputError(f"{path}: the file is empty; write or copy it again")
    geometries = read_geometries(path)
    if not geometries:
        raise InputError(f"{path}: no mesh and no cloud in it")
    if len(geometries) == 1:
        return [_Found(geometries[0], path.stem, path, None)]
    labels = [re.sub(r"[\\/:\s]+", "_", geometry.label) or str(i) for i, geometry in enumerate(geometries)]
    return [
        _Found(geometry, f"{path.stem}_{label}", path, index)
        for index, (geometry, label) in enumerate(zip(geometries, labels, strict=True))
    ]


def read_as_one(path: Path) -> Geometry:
    """All that a file holds as one mesh, or as one cloud if nothing in it has faces."""
    return join_geometries([Geometry(piece.points, piece.normals, piece.faces) for piece in read_file(path)])


def _files_at(path: Path) -> list[Path]:
    with reading(path, "a file or a folder"):
        if path.is_dir():
            return _files_in(path)
    return [] if path.suffix.lower() in COMPANIONS else [path]


def _files_in(folder: Path) -> list[Path]:
    files = [path for path in folder.iterdir() if may_be_piece(path)]
    if not files:
        raise InputError(f"{folder}: no pieces in this folder; {_suggestion(folder)}")
    return sorted(files, key=_counting_order)


def _suggestion(folder: Path) -> str:
    """What to do about a folder without pieces. Only two levels are looked at: below them may be a whole disk."""
    for level in ("*/*", "*/*/*"):
        holders = {path.parent for path in folder.glob(level) if may_be_piece(path)}
        if holders:
            first = min(holders, key=lambda path: [_counting_order(Path(part)) for part in path.parts])
            return f"folders inside it are not searched, but {first} has some: give that one, or the files themselves"
    return f"expected files of {list_endings()}"


def _counting_order(path: Path) -> tuple[list[tuple[int, int, str]], str]:
    """A key that sorts as people count: piece_2 before piece_10."""
    parts = re.split(r"(\d+)", path.name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part.casefold()) for part in parts], path.name


def _distinct(names: list[str]) -> Iterator[str]:
    """No two the same: a.ply and a.obj become a and a_2."""
    seen: Counter[str] = Counter()
    taken = set(names)
    for name in names:
        seen[name] += 1
        candidate = name
        while seen[name] > 1 and candidate in taken:
            candidate = f"{name}_{seen[name]}"
            seen[name] += candidate in taken
        taken.add(candidate)
        yield candidate
