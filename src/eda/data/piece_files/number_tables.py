"""Clouds as tables of numbers: text (XYZ, TXT, CSV) and numpy's files.

Three columns are points, six are points and normals, or points and colours if the last three are whole numbers up to
255. Of any other number of columns the first three are points.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from eda.data.archives import check_npz, read_npy
from eda.data.piece_files.piece_file import Geometry
from eda.data.reading import DamageError, limited_lines, reading
from eda.errors import InputError

_POINTS, _NORMALS, _COLORS = ("points", "vertices", "xyz"), ("normals",), ("colors", "rgb")


def read_text(path: Path) -> list[Geometry]:
    """Rows of numbers between spaces, commas or semicolons, perhaps after a line with their names or their count."""
    with reading(path, "rows of at least three numbers"), open(path, encoding="utf-8-sig", errors="replace") as file:
        lines = limited_lines(file)
        start = list(itertools.islice((line for line in lines if _has_content(line)), 2))
        if not any(_is_point(line) for line in start):
            raise DamageError("its first lines have none")
        heading, sample = not _is_point(start[0]), start[-1]
        rows = (_plain(line, sample) for line in itertools.chain(start[heading:], lines))
        try:
            table = np.loadtxt(rows, ndmin=2, delimiter=_separator(sample))
        except ValueError as error:
            raise DamageError(_first_odd_line(path, len(_numbers(sample)))) from error
        return [_geometry_of_columns(table, path)]


def begins_with_numbers(path: Path) -> bool:
    """Whether one of the first two lines is a point; a readme has none."""
    with reading(path, "a text file"), open(path, encoding="utf-8-sig", errors="replace") as file:
        start = itertools.islice((line for line in limited_lines(file) if _has_content(line)), 2)
        return any(_is_point(line) for line in start)


def _first_odd_line(path: Path, width: int) -> str:
    """What cannot be parsed, by its number as an editor counts it: numpy leaves out headings and comments."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        lines = ((number, line.partition("#")[0].strip()) for number, line in enumerate(limited_lines(file), 1))
        body = itertools.dropwhile(lambda entry: not _is_point(entry[1]), lines)
        odd = next(((number, line) for number, line in body if line and len(_numbers(line)) != width), None)
    return "some lines have other things than numbers" if odd is None else f"not so line {odd[0]}: {odd[1][:40]!r}"


def read_array(path: Path) -> list[Geometry]:
    """An array (n, 3) or (n, 6)."""
    return [_geometry_of_columns(read_npy(path), path)]


def read_archive(path: Path) -> list[Geometry]:
    """An .npz file with points, vertices or xyz, and perhaps normals and colors."""
    with reading(path, f"an .npz file of numbers with one of {', '.join(_POINTS)}"), open(path, "rb") as file:
        check_npz(path)
        archive = np.load(file, allow_pickle=False)
        points, normals, colors = (
            next((archive[key] for key in keys if key in archive.files), None) for keys in (_POINTS, _NORMALS, _COLORS)
        )
        if points is None:
            raise InputError(f"{path}: none of {', '.join(_POINTS)} among its arrays {', '.join(archive.files)}")
        given = _geometry_of_columns(points, path)
        return [given._replace(normals=given.normals if normals is None else normals, colors=colors)]


def _geometry_of_columns(table: np.ndarray, path: Path) -> Geometry:
    if table.ndim != 2 or table.shape[1] < 3 or table.dtype.kind not in "iuf":
        raise InputError(f"{path}: expected numbers (n, 3) or (n, 6), got {table.dtype} {table.shape}")
    if table.shape[1] != 6:
        return Geometry(table[:, :3])
    points, rest = table[:, :3], table[:, 3:]
    whole = len(rest) > 0 and 1 < rest.max() <= 255 and rest.min() >= 0 and (rest == np.floor(rest)).all()
    return Geometry(points, colors=rest.astype(np.uint8)) if whole else Geometry(points, normals=rest)


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(("#", "//"))


def _separator(sample: str) -> str | None:
    """What stands between the numbers of a line; None for spaces."""
    return next((mark for mark in ";," if mark in sample), None)


def _plain(line: str, sample: str) -> str:
    """A line whose decimal commas, which go with semicolons, are points."""
    return line.replace(",", ".") if ";" in sample else line


def _is_point(line: str) -> bool:
    return len(_numbers(line)) >= 3


def _numbers(line: str) -> list[float]:
    """The numbers of a line; none if something else is in it."""
    try:
        return [float(entry) for entry in _plain(line, line).split(_separator(line))]
    except ValueError:
        return []
