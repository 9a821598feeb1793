"""Files that somebody else wrote: what is missing, damaged or something else becomes an `InputError` naming the file.

Nothing here, or in any reader, executes what a file says.
"""

from __future__ import annotations

import json
import pickle
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from eda.errors import InputError
from eda.registration.rigid import is_rigid

LONGEST_LINE = 2**20

# What readers of damaged files raise, in numpy, scipy, trimesh, h5py and here.
_DAMAGE = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    RecursionError,
    struct.error,
    pickle.UnpicklingError,
    tokenize.TokenError,  # in the header of an .npy file
    zlib.error,
    zipfile.BadZipFile,
)


class DamageError(ValueError):
    """What is wrong with a file, in words for the person who has it; `reading` adds the rest."""


@contextmanager
def reading(path: Path, expected: str) -> Iterator[None]:
    """Turns any error inside into an `InputError` that says which file, what it should have been, and what to do."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():  # a pipe would wait, a device never end
            raise InputError(f"{path}: neither a file nor a folder; expected {expected}")
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{path}: not there; expected {expected}") from error
    except MemoryError as error:
        raise InputError(f"{path}: it needs more memory than there is; write it again, with fewer points") from error
    except _DAMAGE as error:
        raise damage_error(path, expected, error) from error


def damage_error(path: Path, expected: str, error: Exception) -> InputError:
    """The error to raise. Errors of libraries speak of their own internals, so they stay the cause, not quoted."""
    if isinstance(error, OSError) and error.strerror:
        return InputError(f"{path}: expected {expected}, but it cannot be read: {error.strerror}")
    found = f" ({error})" if isinstance(error, DamageError) else ""
    return InputError(
        f"{path}: expected {expected}{found}; the file is damaged or something else, "
        "look at its ending, or write or copy it again"
    )


def check_promise(path: Path, what: str, needed: int, there: int) -> None:
    """Raise `InputError` if a header promises more bytes than follow it, before anything is made to hold them."""
    if not 0 <= needed <= there:
        raise InputError(
            f"{path}: it promises {what}, which need {needed} bytes, but holds {there}; it is incomplete or damaged, "
            "write or copy it again"
        )


def check_offsets(path: Path, what: str, offset: np.ndarray, count: int) -> None:
    """Raise `InputError` unless offsets begin at 0, do not fall, and end at the count of what they divide."""
    whole = offset.ndim == 1 and len(offset) > 1 and np.issubdtype(offset.dtype, np.integer)
    if not whole or offset[0] != 0 or offset[-1] != count or (np.diff(offset) < 0).any():
        raise InputError(f"{path}: {what} must rise from 0 to {count}")


def check_line_lengths(content: bytes) -> None:
    """Raise `DamageError` if a line of a text is longer than any that people write: taken apart, it grows fiftyfold."""
    ends = np.flatnonzero(_is_line_end(np.frombuffer(content, np.uint8)))
    longest = int(np.diff(ends, prepend=-1, append=len(content)).max()) - 1
    if longest > LONGEST_LINE:
        raise DamageError(f"a line of {longest} bytes, and a line may have {LONGEST_LINE}")


def _is_line_end(codes: np.ndarray) -> np.ndarray:
    return (codes == ord("\n")) | (codes == ord("\r"))


def limited_lines(file: TextIO) -> Iterator[str]:
    """The lines of a text; raises `DamageError` for one that is longer than any that people write."""
    while line := file.readline(LONGEST_LINE + 2):
        if len(line) > LONGEST_LINE + 1:
            raise DamageError(f"a line may have {LONGEST_LINE} characters, and there is a longer one")
        yield line


def decode_text(content: bytes) -> str:
    """Text as UTF-8, or else as Latin-1, which programs wrote before it and which any bytes can be read as."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def read_json(path: Path) -> Any:
    """A JSON file."""
    with reading(path, "a JSON file"):
        try:
            return json.loads(path.read_bytes())
        except json.JSONDecodeError as error:
            raise DamageError(f"it is none from line {error.lineno}, column {error.colno} on") from error


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that say something."""
    with reading(path, "a text file"):
        content = path.read_bytes()
        check_line_lengths(content)
        lines = content.decode("utf-8").splitlines()
        return [line.strip() for line in lines if line.strip()]


def as_cloud(array: Any, where: object) -> np.ndarray:
    """(n, 3) float64 and finite, or `InputError`."""
    try:
        cloud = np.asarray(array, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InputError(f"{where}: expected points (n, 3) ({error})") from error
    if cloud.ndim != 2 or cloud.shape[1] != 3 or not len(cloud):
        raise InputError(f"{where}: expected points (n, 3), got an array of shape {cloud.shape}")
    bad = int((~np.isfinite(cloud)).any(axis=1).sum())
    if bad:
        raise InputError(f"{where}: {bad} of {len(cloud)} points have NaN or infinite coordinates; remove them first")
    return cloud


def as_motion(array: Any, where: object) -> np.ndarray:
    """(4, 4) float64 from a rigid motion given as 4x4 or 3x4, or `InputError`."""
    try:
        rows = np.asarray(array, dtype=np.float64).reshape(-1, 4)
    except (ValueError, TypeError) as error:
        raise InputError(f"{where}: expected a rigid motion as a 3x4 or 4x4 matrix ({error})") from error
    # The published poses are rounded to a few digits, so "rigid" means to about that.
    if len(rows) not in (3, 4) or not is_rigid(rows, 1e-2):
        raise InputError(f"{where}: expected a rigid motion as a 3x4 or 4x4 matrix, and this one is not rigid")
    return np.vstack([rows[:3], [0, 0, 0, 1]])


def move_points(cloud: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """A cloud (n, 3) under a rigid motion (4, 4)."""
    return cloud @ motion[:3, :3].T + motion[:3, 3]
