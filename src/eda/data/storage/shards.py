"""A dataset on disk: a folder with `dataset.json` and shards of examples, read a slice at a time.

A shard is one ragged file; reading an example touches only its own bytes.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from eda.data.example import Example
from eda.data.storage.ragged import RaggedFile, write_ragged
from eda.errors import InputError

_File = TypeVar("_File")

FORMAT, VERSION = "eda-dataset", 1
MANIFEST = "dataset.json"

# How an array of an example is kept: normals to 1e-3 are finer than any scanner's.
_DTYPES = {
    "points": np.float32,
    "sizes": np.int64,
    "normals": np.float16,
    "contact": np.int16,
    "foreign": np.bool_,
    "gaps": np.float32,
}


def arrays_of(example: Example) -> dict[str, np.ndarray]:
    """The arrays of an example as they are stored."""
    known = {name: getattr(example, name) for name in _DTYPES} | {"foreign": ~example.own}
    return {name: array.astype(_DTYPES[name]) for name, array in known.items() if array is not None}


def example_of(name: str, arrays: Mapping[str, np.ndarray]) -> Example:
    """The inverse of `arrays_of`; other arrays are left aside."""
    known = {key: arrays[key] for key in _DTYPES if key in arrays}
    if "normals" in known:
        known["normals"] = known["normals"].astype(np.float32)
    return Example(name=name, **known)


def write_shard(path: Path, examples: Sequence[Example], skipped: int = 0) -> None:
    """Examples in farthest-point order as one file. Examples of one shard must know the same about their points."""
    names = [example.name for example in examples]
    metadata = {"format": FORMAT, "version": VERSION, "names": names, "skipped": skipped}
    write_ragged(path, [arrays_of(example.sort_farthest_first()) for example in examples], metadata)


class Shard(Sequence[Example]):
    """One file of examples; `shard[i]` reads only the rows of example i."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = RaggedFile(path)
        known = self._file.metadata
        names, version, skipped = known.get("names"), known.get("version"), known.get("skipped")
        if known.get("format") != FORMAT or not isinstance(names, list) or type(skipped) is not int:
            raise InputError(f"{path}: not a shard of a dataset")
        _check_version(version, path)
        if len(names) != len(self._file):
            raise InputError(f"{path}: damaged: {len(names)} names for {len(self._file)} examples")
        self.names: list[str] = names
        self.skipped: int = skipped
        # (S,) points and pieces of each example
        self.num_points = self._file.rows("points") if names else np.zeros(0, np.int64)
        self.num_pieces = self._file.rows("sizes") if names else np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return example_of(self.names[index], self._file[index % len(self)])


class Dataset(Sequence[Example]):
    """The examples of a folder, or of several one after the other, without holding them in memory."""

    def __init__(self, *folders: str | os.PathLike[str]) -> None:
        self.folders = [Path(folder) for folder in folders]
        self.manifests = [read_manifest(folder) for folder in self.folders]
        self.shard_paths: list[Path] = []  # where the shards lie
        for folder, manifest in zip(self.folders, self.manifests, strict=True):
            self.shard_paths += _shard_paths(folder, manifest["num_shards"])

    @staticmethod
    def from_text(folders: str) -> Dataset:
        """The dataset of one folder, or of several joined by +."""
        parts = [folders] if Path(folders).is_dir() else folders.split("+")
        if not all(parts):
            raise InputError(f"{folders!r} names no folder: join several as in first+second")
        return Dataset(*parts)

    @property
    def name(self) -> str:
        """Its folders, for messages."""
        return "+".join(map(str, self.folders))

    def shard(self, index: int) -> Shard:
        """The shard with this number; the last few stay open."""
        return open_cached(Shard, self.shard_paths[index])

    @cached_property
    def _first(self) -> np.ndarray:
        lengths = [len(Shard(path)) for path in self.shard_paths]
        return np.concatenate([[0], np.cumsum(lengths)])

    @property
    def num_shards(self) -> int:
        """The number of files."""
        return len(self.shard_paths)

    def __len__(self) -> int:
        return int(self._first[-1])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"{self.name} has {len(self)} examples, not one number {index}")
        index %= len(self)
        shard = int(np.searchsorted(self._first, index, side="right")) - 1
        return self.shard(shard)[index - int(self._first[shard])]

    def __iter__(self) -> Iterator[Example]:
        for number in range(self.num_shards):
            shard = self.shard(number)
            yield from (shard[i] for i in range(len(shard)))


def _shard_paths(folder: Path, count: int) -> list[Path]:
    """Where the shards of a folder lie. Raises `InputError` unless all are there."""
    # From those that are there: a damaged manifest may promise billions.
    there = {path.name for path in folder.iterdir() if path.is_file()}
    first_missing = next(i for i in itertools.count() if shard_name(i) not in there)
    if first_missing < count:
        numbers = (int(match[1]) for name in there if (match := re.fullmatch(r"shard-(\d+)\.safetensors", name)))
        num_missing = count - sum(number < count for number in numbers)
        raise InputError(
            f"{folder}: {num_missing} of {count} shards are missing, e.g. {shard_name(first_missing)}: "
            f"run the command that makes it again, and it goes on where it stopped"
        )
    return [folder / shard_name(i) for i in range(count)]


def open_cached(kind: Callable[[Path], _File], path: Path) -> _File:
    """A file open_cached by its class; the last few stay open, unless another file now lies there."""
    try:
        there = path.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    return _open_cached(kind, path, (there.st_mtime_ns, there.st_size, there.st_ino))


# More than the shards that are mixed in training, with their pyramids.
@lru_cache(maxsize=64)
def _open_cached(kind: Callable[[Path], Any], path: Path, version: tuple[int, ...]) -> Any:
    return kind(path)


def shard_name(index: int) -> str:
    """The file name of a shard."""
    return f"shard-{index:05d}.safetensors"


def read_manifest(folder: Path) -> dict[str, Any]:
    """What `dataset.json` says; raises `InputError` where it is not one."""
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(
            f"{folder}: not a dataset (no {MANIFEST}); make one with `eda fracture`, `eda rooms`, `eda streets` or "
            "`eda prepare`"
        )
    try:
        manifest = json.loads(path.read_bytes())
        version, num_shards = manifest["version"], manifest["num_shards"]
    except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        raise InputError(f"{path}: damaged ({type(error).__name__}: {error})") from error
    if manifest.get("format") != FORMAT or type(num_shards) is not int or num_shards < 0:
        raise InputError(f"{path}: not the description of an Eda dataset")
    _check_version(version, path)
    return manifest


def _check_version(version: Any, path: Path) -> None:
    if type(version) is not int or version > VERSION:
        raise InputError(f"{path}: written by a newer Eda (version {version}); upgrade eda-assembly")
