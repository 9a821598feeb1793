"""The Breaking Bad pack: fractures as points in one file, for those who cannot fetch the original.

In: an .npz file with points_u16, normals_i8, contact, piece_offset, fracture_offset, origin, step and index (JSON), or
the folder of the only such file. Out: one `Example` a fracture.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from eda.data.archives import read_npz
from eda.data.example import OUTER, Example
from eda.data.reading import check_offsets, reading
from eda.data.source import ItemSource
from eda.errors import InputError
from eda.settings import check_choice

_HALVES = {"even": slice(0, None, 2), "odd": slice(1, None, 2)}  # of the shapes in alphabetical order


@dataclass(frozen=True)
class BreakingBadPack(ItemSource[int]):
    """Fractures as points with normals and labels of contact."""

    path: Path  # the .npz file, or the folder of the only one
    categories: tuple[str, ...] = ()  # empty: all
    half: str = ""  # "even" or "odd": every other shape, so that nothing is reported on a shape that was developed on

    def __post_init__(self) -> None:
        check_choice("half", self.half, ("", *_HALVES))

    @cached_property
    def items(self) -> tuple[int, ...]:
        """The numbers of the fractures in the file."""
        entries = _fractures(self._file).entries
        wanted = set(self.categories) if self.categories else {entry["category"] for entry in entries}
        shapes = sorted({str(entry["shape"]) for entry in entries})
        of_half = set(shapes[_HALVES.get(self.half, slice(None))])
        chosen = tuple(
            i for i, entry in enumerate(entries) if entry["category"] in wanted and str(entry["shape"]) in of_half
        )
        if not chosen:
            raise InputError(f"{self._file}: no fractures of {', '.join(self.categories)}")
        return chosen

    @cached_property
    def _file(self) -> Path:
        return _only_file(self.path, "*.npz")

    def read(self, item: int) -> Example:
        """One fracture."""
        return _fractures(self._file).example(item)


class _Fractures(NamedTuple):
    arrays: dict[str, np.ndarray]
    entries: list[dict[str, Any]]  # of every fracture: subset, category, shape, fracture

    def example(self, number: int) -> Example:
        a = self.arrays
        pieces = a["piece_offset"][a["fracture_offset"][number] : a["fracture_offset"][number + 1] + 1]
        rows = slice(pieces[0], pieces[-1])
        points = a["points_u16"][rows] * a["step"] + a["origin"]
        normals = a["normals_i8"][rows].astype(np.float64)
        contact = a["contact"][rows].astype(np.int16)
        entry = self.entries[number]
        return Example(
            name="/".join(str(entry[key]) for key in ("subset", "category", "shape", "fracture")),
            points=(points - points.mean(axis=0)).astype(np.float32),
            sizes=np.diff(pieces),
            normals=(normals / np.linalg.norm(normals, axis=1, keepdims=True)).astype(np.float32),
            contact=np.where(contact == 255, OUTER, contact).astype(np.int16),
        )


@lru_cache(maxsize=2)
def _fractures(path: Path) -> _Fractures:
    keys = ("points_u16", "normals_i8", "contact", "piece_offset", "fracture_offset", "origin", "step", "index")
    arrays = read_npz(path, keys)
    with reading(path, "an index with subset, category, shape and fracture of every fracture"):
        index = json.loads(str(arrays.pop("index")))
        for entry in index:
            _ = entry["subset"], entry["category"], entry["shape"], entry["fracture"]
    count = len(arrays["points_u16"])
    check_offsets(path, "piece_offset", arrays["piece_offset"], count)
    check_offsets(path, "fracture_offset", arrays["fracture_offset"], len(arrays["piece_offset"]) - 1)
    shapes = {key: arrays[key].shape for key in ("points_u16", "normals_i8", "contact")}
    if shapes != {"points_u16": (count, 3), "normals_i8": (count, 3), "contact": (count,)}:
        raise InputError(f"{path}: points, normals and contact do not belong together: {shapes}")
    if len(index) != len(arrays["fracture_offset"]) - 1 or not arrays["normals_i8"].any(axis=1).all():
        raise InputError(f"{path}: the index is of {len(index)} fractures, or normals are zero")
    return _Fractures(arrays, index)


def _only_file(path: Path, pattern: str) -> Path:
    """The path itself, or the only such file of a folder."""
    if not path.is_dir():
        return path
    found = sorted(path.glob(pattern))
    if len(found) != 1:
        raise InputError(f"{path}: expected one {pattern} in it, found {len(found)}; name the file itself")
    return found[0]
