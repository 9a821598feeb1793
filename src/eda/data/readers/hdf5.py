"""HDF5 files of the peers: opened, read within bounds, and the puzzles of one of their splits.

An HDF5 file can name other files, whose content then appears as its own, and can promise arrays that it does not hold.
Neither is followed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from eda.data.archives import check_unpacked_size
from eda.data.reading import DamageError, reading
from eda.data.source import Listing
from eda.errors import InputError

SPLITS = "data_split"
_NAMES_AT_ONCE = 100


def open_hdf5(path: Path) -> Any:
    """The file, for reading. Raises `InputError` where h5py is missing."""
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"{path}: reading HDF5 needs h5py; in the clone of Eda, run: pip install '.[hdf5]'") from error
    with reading(path, "an HDF5 file"):
        return h5py.File(path, "r")


def member(group: Any, name: str) -> Any:
    """What a group calls `a/b/c`, reached without links. Raises `KeyError` if it is not there."""
    import h5py

    for part in name.strip("/").split("/"):
        link = group.get(part, getlink=True) if isinstance(group, h5py.Group) else None
        if link is None:
            raise KeyError(name)
        if not isinstance(link, h5py.HardLink):
            raise DamageError(f"{part} is a link to {link.path}, and links are not followed")
        group = group[part]
    return group


def has_member(group: Any, name: str) -> bool:
    """Whether there is such a member."""
    try:
        return member(group, name) is not None
    except KeyError:
        return False


def read_numbers(group: Any, name: str) -> np.ndarray:
    """An array of numbers that lies in the file itself, and is not much larger than it."""
    dataset = member(group, name)
    if dataset.external or dataset.is_virtual:
        raise DamageError(f"the numbers of {name} lie in other files")
    if dataset.dtype.kind not in "biuf":
        raise DamageError(f"{name} holds something else than numbers")
    check_unpacked_size(Path(dataset.file.filename), dataset.nbytes)
    return dataset[()]


def _read_names(group: Any, name: str) -> list[str]:
    """A list of texts. One text of the file may be there many times, so their lengths are watched."""
    dataset = member(group, name)
    if dataset.external or dataset.is_virtual or dataset.ndim != 1:
        raise DamageError(f"{name} is not a list of names")
    path, names, length = Path(dataset.file.filename), list[str](), 0
    check_unpacked_size(path, dataset.nbytes)
    for start in range(0, len(dataset), _NAMES_AT_ONCE):
        some = dataset[start : start + _NAMES_AT_ONCE]
        names += [text.decode() if isinstance(text, bytes) else str(text) for text in some]
        length += sum(map(len, names[start:]))
        check_unpacked_size(path, length)
    return names


def list_split(path: Path, dataset: str, split: str, count: Callable[[Any], int], least: int, most: int) -> Listing:
    """The puzzles of a split that are in the file and have `least` to `most` pieces, which `count` counts."""
    with open_hdf5(path) as file, reading(path, f"{SPLITS}/<dataset>/<split>"):
        splits = member(file, SPLITS)
        if not dataset and len(splits) == 1:
            dataset = next(iter(splits))
        if not has_member(splits, f"{dataset}/{split}"):
            known = [f"{name}/{part}" for name in splits for part in member(splits, name)]
            raise InputError(f"{path}: no split {dataset or '<dataset>'}/{split}; it has {', '.join(known)}")
        listed = _read_names(splits, f"{dataset}/{split}")
        counts = {name: count(member(file, name)) for name in listed if has_member(file, name)}
    chosen = tuple(name for name in counts if least <= counts[name] <= most)
    if not chosen:
        raise InputError(
            f"{path}: of {len(listed)} puzzles of {dataset}/{split}, {len(counts)} are in the file, and none has "
            f"{least} to {most} pieces"
        )
    return Listing(chosen, len(listed) - sum(name in counts for name in listed))
