"""HDF5 files of the peers: opened, and the puzzles of one of their splits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from eda.data.reading import reading
from eda.data.source import Listing
from eda.errors import InputError

SPLITS = "data_split"


def open_hdf5(path: Path) -> Any:
    """The file, for reading. Raises `InputError` where h5py is missing."""
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"{path}: reading HDF5 needs h5py; in the clone of Eda, run: pip install '.[hdf5]'") from error
    with reading(path, "an HDF5 file"):
        return h5py.File(path, "r")


def list_split(path: Path, dataset: str, split: str, count: Callable[[Any], int], least: int, most: int) -> Listing:
    """The puzzles of a split that are in the file and have `least` to `most` pieces, which `count` counts."""
    with open_hdf5(path) as file, reading(path, f"{SPLITS}/<dataset>/<split>"):
        splits = file[SPLITS]
        if not dataset and len(splits) == 1:
            dataset = next(iter(splits))
        if dataset not in splits or split not in splits[dataset]:
            known = [f"{name}/{part}" for name in splits for part in splits[name]]
            raise InputError(f"{path}: no split {dataset or '<dataset>'}/{split}; it has {', '.join(known)}")
        listed = [name.decode() if isinstance(name, bytes) else str(name) for name in splits[dataset][split][()]]
        counts = {name: count(file[name]) for name in listed if name in file}
    chosen = tuple(name for name in counts if least <= counts[name] <= most)
    if not chosen:
        raise InputError(
            f"{path}: of {len(listed)} puzzles of {dataset}/{split}, {len(counts)} are in the file, and none has "
            f"{least} to {most} pieces"
        )
    return Listing(chosen, len(listed) - sum(name in counts for name in listed))
