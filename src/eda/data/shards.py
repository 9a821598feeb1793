"""A dataset on disk: a folder with `dataset.json` and shards of examples, read a slice at a time.

A shard is one safetensors file: the arrays of its examples one after the other, so that reading an example touches only
its own bytes and nothing in the file is ever executed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialize

from eda.atomic import write_atomically
from eda.data.example import Example
from eda.errors import InputError

FORMAT, VERSION = "eda-dataset", 1
MANIFEST = "dataset.json"

# What a point carries, and how it is kept: normals to 1e-3 are finer than any scanner's.
_POINT_ARRAYS = {"points": np.float32, "normals": np.float16, "contact": np.int16, "gaps": np.float32}


def write_shard(path: Path, examples: Sequence[Example], skipped: int = 0) -> None:
    """Examples in farthest-point order as one file. Examples of one shard must know the same about their points."""
    ordered = [example.ordered() for example in examples]
    arrays = {
        "sizes": np.concatenate([e.sizes for e in ordered]) if ordered else np.zeros(0, np.int64),
        "counts": np.array([e.num_pieces for e in ordered], dtype=np.int64),
        "foreign": np.concatenate([~e.own for e in ordered]) if ordered else np.zeros(0, bool),
    }
    for name, dtype in _POINT_ARRAYS.items():
        columns = [getattr(e, name) for e in ordered]
        known = [column for column in columns if column is not None]
        if known and len(known) < len(columns):
            raise InputError(f"{path.name}: some examples have {name} and some have not")
        if known:
            arrays[name] = np.concatenate(known).astype(dtype)
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "names": json.dumps([e.name for e in ordered]),
        "skipped": str(skipped),
    }
    write_atomically(path, serialize(arrays, metadata))


class Shard:
    """One file of examples; `shard[i]` reads only the rows of example i."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = safe_open(path, framework="np")
            self._metadata = self._file.metadata() or {}
            self._keys = frozenset(self._file.keys())
            self.names: list[str] = json.loads(self._metadata["names"])
            sizes, counts = self._file.get_tensor("sizes"), self._file.get_tensor("counts")
            self._foreign = self._file.get_tensor("foreign")
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise InputError(f"{path}: not a shard of a dataset, or an incomplete one ({error})") from error
        self.skipped = int(self._metadata.get("skipped", "0"))
        self.counts: np.ndarray = counts  # (S,) pieces of each example
        self._piece_start = np.concatenate([[0], np.cumsum(counts)])
        self._sizes = sizes
        point_start = np.concatenate([[0], np.cumsum(sizes)])
        self._point_start = point_start[self._piece_start]
        if len(self.names) != len(counts) or self._piece_start[-1] != len(sizes):
            raise InputError(f"{path}: a damaged shard: its tables do not agree; make it again")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def num_points(self) -> np.ndarray:
        """(S,) points of each example."""
        return np.diff(self._point_start)

    def __getitem__(self, index: int) -> Example:
        if not 0 <= index < len(self):
            raise IndexError(f"{self.path} has {len(self)} examples, not one number {index}")
        pieces = slice(int(self._piece_start[index]), int(self._piece_start[index + 1]))
        rows = slice(int(self._point_start[index]), int(self._point_start[index + 1]))
        columns = {name: self._rows(name, rows) for name in _POINT_ARRAYS if name in self._keys}
        if "normals" in columns:
            columns["normals"] = columns["normals"].astype(np.float32)
        return Example(name=self.names[index], sizes=self._sizes[pieces], foreign=self._foreign[pieces], **columns)

    def _rows(self, name: str, rows: slice) -> np.ndarray:
        try:
            return self._file.get_slice(name)[rows]
        except SafetensorError as error:
            raise InputError(f"{self.path}: a damaged shard ({error}); make it again") from error


class Dataset(Sequence[Example]):
    """The examples of a folder, in order, without holding them in memory."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder)
        missing = [path.name for path in self.shard_paths if not path.is_file()]
        if missing:
            raise InputError(
                f"{self.folder}: {len(missing)} of {len(self.shard_paths)} shards are not there yet, e.g. {missing[0]}: "
                f"run the command that makes it again, and it goes on where it stopped"
            )

    @property
    def shard_paths(self) -> list[Path]:
        """Where the shards lie, also those not written yet."""
        return [self.folder / shard_name(i) for i in range(self.manifest["num_shards"])]

    def shard(self, index: int) -> Shard:
        """The shard with this number; the last few stay open."""
        return _open_shard(self.shard_paths[index])

    @cached_property
    def _first(self) -> np.ndarray:
        lengths = [len(_open_shard.__wrapped__(path)) for path in self.shard_paths]
        return np.concatenate([[0], np.cumsum(lengths)])

    @property
    def num_shards(self) -> int:
        """How many files."""
        return len(self.shard_paths)

    def __len__(self) -> int:
        return int(self._first[-1])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"{self.folder} has {len(self)} examples, not one number {index}")
        index %= len(self)
        shard = int(np.searchsorted(self._first, index, side="right")) - 1
        return self.shard(shard)[index - int(self._first[shard])]

    def __iter__(self) -> Iterator[Example]:
        for number in range(self.num_shards):
            shard = self.shard(number)
            yield from (shard[i] for i in range(len(shard)))


@lru_cache(maxsize=8)
def _open_shard(path: Path) -> Shard:
    return Shard(path)


def shard_name(index: int) -> str:
    """The file name of a shard."""
    return f"shard-{index:05d}.safetensors"


def read_manifest(folder: Path) -> dict[str, Any]:
    """What `dataset.json` says; raises `InputError` where it is not one."""
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(f"{folder}: not a dataset (no {MANIFEST}); make one with `eda fracture` or `eda prepare`")
    try:
        manifest = json.loads(path.read_bytes())
        version, num_shards = manifest["version"], manifest["num_shards"]
    except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        raise InputError(f"{path}: damaged ({type(error).__name__}: {error})") from error
    if manifest.get("format") != FORMAT or type(num_shards) is not int or num_shards < 0:
        raise InputError(f"{path}: not the description of an Eda dataset")
    if type(version) is not int or version > VERSION:
        raise InputError(f"{path}: written by a newer Eda (version {version}); upgrade eda-assembly")
    return manifest
