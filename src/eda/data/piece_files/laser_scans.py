"""Scans of laser scanners: LAS and LAZ by laspy, E57 by pye57, which raise `ImportError` where they are missing."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from eda.data.piece_files.piece_file import Geometry
from eda.data.reading import check_promise, damage_error, reading
from eda.errors import InputError

_LAS_HEADER = 375  # bytes of the longest
_LAZ = 64  # formats of points from here on are compressed
_CHUNK = 1_000_000  # points: what is promised but not there is never allocated


def read_las(path: Path) -> list[Geometry]:
    """One cloud."""
    laspy: Any = importlib.import_module("laspy")
    _check_las_header(path)
    with _scan(path, "a LAS or LAZ scan"), open(path, "rb") as file, laspy.open(file, closefd=False) as reader:
        chunks = [(_xyz(chunk), _las_colors(chunk)) for chunk in reader.chunk_iterator(_CHUNK)]
        promised = reader.header.point_count
    if not chunks or sum(len(points) for points, _ in chunks) != promised:
        raise InputError(f"{path}: fewer points than the {promised} that its header promises; copy it again")
    colors = [of_chunk for _, of_chunk in chunks if of_chunk is not None]
    points = np.concatenate([points for points, _ in chunks])
    return [Geometry(points, colors=np.concatenate(colors) if colors else None)]


def _check_las_header(path: Path) -> None:
    """laspy believes the counts in a header, and would look for billions of records after the end of the file."""
    with reading(path, "a LAS or LAZ scan"), open(path, "rb") as file:
        head, size = file.read(_LAS_HEADER), path.stat().st_size
        if head[:4] != b"LASF":
            raise InputError(f"{path}: not a LAS or LAZ file; look whether its ending is right")
        start, num_records, kind, row, count = struct.unpack_from("<IIBHI", head, 96)
        if head[25] >= 4:  # version 1.4 counts further
            num_late_records, count = struct.unpack_from("<IQ", head, 243)
            check_promise(path, f"{num_late_records} late records", 60 * num_late_records, size)
        check_promise(path, f"{num_records} records", 54 * num_records, size)
        if kind < _LAZ:
            check_promise(path, f"{count} points", count * row, size - start)


def read_e57(path: Path) -> list[Geometry]:
    """Every scan of the file, each at its own place in the file's frame."""
    pye57: Any = importlib.import_module("pye57")
    with _scan(path, "an E57 scan"):
        file = pye57.E57(str(path))
        try:
            return [_e57_scan(file, index, path) for index in range(file.scan_count)]
        finally:
            file.close()


def _e57_scan(file: Any, index: int, path: Path) -> Geometry:
    header = file.get_header(index)
    check_promise(path, f"{header.point_count} points", header.point_count, path.stat().st_size)
    names = [f"color{channel}" for channel in ("Red", "Green", "Blue")]
    has_colors = set(names) <= set(header.point_fields)
    data = file.read_scan(index, colors=has_colors, ignore_missing_fields=True)
    points = np.column_stack([data[f"cartesian{axis}"] for axis in "XYZ"])
    return Geometry(points, colors=np.column_stack([data[name] for name in names]) if has_colors else None)


def _xyz(chunk: Any) -> np.ndarray:
    return np.column_stack([chunk.x, chunk.y, chunk.z])


def _las_colors(chunk: Any) -> np.ndarray | None:
    if "red" not in chunk.point_format.dimension_names:
        return None
    return np.column_stack([chunk.red, chunk.green, chunk.blue])


@contextmanager
def _scan(path: Path, expected: str) -> Iterator[None]:
    """As `reading`, for libraries with errors of their own."""
    try:
        with reading(path, expected):
            yield
    except InputError:
        raise
    except Exception as error:
        raise damage_error(path, expected, error) from error
