"""Many small groups of arrays in one file, each read without the others.

One safetensors file: every array holds the rows of all items one after the other, beside a table of how many rows each
item has. Reading an item touches only its own bytes, and nothing in the file is ever executed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialize

from eda.atomic import write_atomically
from eda.errors import InputError

_ROWS = "rows of "
_METADATA = "eda"


def write_ragged(path: Path, items: Sequence[Mapping[str, np.ndarray]], metadata: Mapping[str, Any]) -> None:
    """Items with the same names, and arrays of the same trailing shapes, as one file; `metadata` is kept as JSON."""
    names = set().union(*items) if items else set()
    incomplete = next((name for item in items for name in names if name not in item), None)
    if incomplete:
        raise InputError(f"{path.name}: some examples have {incomplete} and some have not")
    arrays = {name: np.concatenate([item[name] for item in items]) for name in names}
    tables = {_ROWS + name: np.array([len(item[name]) for item in items], dtype=np.int64) for name in names}
    # One entry: safetensors would write several in an order by chance, and the same dataset not have the same bytes.
    write_atomically(path, serialize(arrays | tables, {_METADATA: json.dumps(metadata, sort_keys=True)}))


class RaggedFile:
    """A file of `write_ragged`; `file[i]` is item i, `file.rows(name)` how many rows every item has."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = safe_open(path, framework="np")
            self.metadata: dict[str, Any] = dict(json.loads((self._file.metadata() or {})[_METADATA]))
            keys = list(self._file.keys())
            self._rows = {k[len(_ROWS) :]: self._file.get_tensor(k) for k in keys if k.startswith(_ROWS)}
        except (SafetensorError, OSError, KeyError, ValueError, TypeError, RecursionError) as error:
            raise InputError(f"{path}: damaged or incomplete ({error})") from error
        self._starts = {name: np.concatenate([[0], np.cumsum(rows)]) for name, rows in self._rows.items()}
        lengths = {len(rows) for rows in self._rows.values()}
        if len(lengths) > 1 or not all(self._fits(name, keys) for name in self._rows):
            raise InputError(f"{path}: damaged: its tables do not agree")
        self._length = lengths.pop() if lengths else 0

    def _fits(self, name: str, keys: Sequence[str]) -> bool:
        """Whether there is an array with as many rows as its table says."""
        rows = self._rows[name]
        return name in keys and rows.min(initial=0) >= 0 and self._file.get_slice(name).get_shape()[0] == rows.sum()

    def __len__(self) -> int:
        return self._length

    def rows(self, name: str) -> np.ndarray:
        """(S,) the rows of every item in one of the arrays."""
        if name not in self._rows:
            raise InputError(f"{self.path}: has no {name}, only {', '.join(sorted(self._rows))}")
        return self._rows[name]

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        if not 0 <= index < self._length:
            raise IndexError(f"{self.path} has {self._length} items, not one number {index}")
        starts = self._starts.items()
        try:
            return {name: self._slice(name, int(start[index]), int(start[index + 1])) for name, start in starts}
        except SafetensorError as error:
            raise InputError(f"{self.path}: damaged ({error})") from error

    def _slice(self, name: str, start: int, stop: int) -> np.ndarray:
        if start == stop:  # at the end of an array safetensors does not know an empty slice
            start, stop = 0, 0
        return self._file.get_slice(name)[start:stop]
