"""Zip archives and numpy's .npz files, which are checked before anything in them is unpacked.

Zeros pack a thousandfold, coordinates hardly at all: a small file may ask for more memory than there is. What is
unpacked is bounded by the size of the file, and every array is as large as its own header says.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from eda.data.reading import DamageError, reading
from eda.errors import InputError

ALWAYS_UNPACKED, DENSEST = 2 * 10**8, 50  # bytes; and bytes for every one of the file
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others unpack a block at once, however large it becomes


def check_unpacked_size(path: Path, unpacked: int) -> None:
    """Raise `InputError` if a file would become far larger in memory than packed coordinates do."""
    most = max(ALWAYS_UNPACKED, DENSEST * path.stat().st_size)
    if unpacked > most:
        raise InputError(
            f"{path}: it would unpack to {_size(unpacked)}, and a file of its size may unpack to {_size(most)}; "
            "save its points alone, with np.save"
        )


def _size(count: int) -> str:
    return f"{count / 1e9:.0f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def check_archive(archive: zipfile.ZipFile, path: Path) -> None:
    """Raise `InputError` if a zip archive would unpack to too much, or is packed in a way that hides how much."""
    if any(entry.compress_type not in _METHODS for entry in archive.infolist()):
        raise DamageError("packed in another way than numpy and torch do")
    check_unpacked_size(path, sum(entry.file_size for entry in archive.infolist()))


def check_npz(path: Path) -> None:
    """Raise `InputError` unless every array of an `.npz` file has the size that its header promises."""
    with zipfile.ZipFile(path) as archive:
        check_archive(archive, path)
        for entry in archive.infolist():
            if entry.filename.endswith(".npy"):
                with archive.open(entry) as file:
                    check_npy_header(file, entry.file_size, entry.filename)


def check_npy_header(file: IO[bytes], size: int, name: str) -> None:
    """Raise `DamageError` if the header of an `.npy` file of this size promises other than what follows it."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise DamageError(f"{name} is of version {version[0]}.{version[1]}")
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(file)
    count, there = math.prod(shape), size - file.tell()
    # Numbers that take no space could be any number of them.
    if min(shape, default=0) < 0 or (dtype.itemsize == 0 and count > 1):
        raise DamageError(f"{name} promises {count} numbers of {dtype.itemsize} bytes")
    if not dtype.hasobject and count * dtype.itemsize > there:
        raise DamageError(f"{name} promises {count} numbers of {dtype.itemsize} bytes, and {there} bytes follow")


def read_npz(path: Path, keys: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Some arrays of an `.npz` file."""
    # Opened here, because numpy leaves a damaged file open.
    with reading(path, f"an .npz file with {', '.join(keys)}"), open(path, "rb") as file:
        check_npz(path)
        archive = np.load(file, allow_pickle=False)
        return {key: archive[key] for key in keys}


def read_npy(path: Path) -> np.ndarray:
    """The array of an `.npy` file."""
    with reading(path, "one array of numbers as .npy"), open(path, "rb") as file:
        check_npy_header(file, path.stat().st_size, path.name)
        # A map is never larger than its file, whatever the header promises.
        return np.array(np.lib.format.open_memmap(path, mode="r"))
