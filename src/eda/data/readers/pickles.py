"""Old pickled files, read without running them: numbers, text and arrays of these, and nothing else.

A pickle is a program. Here its only words are the ones with which numpy arrays and Python's containers are built, and
each of them is our own function: a file that says anything else is refused before it does anything.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eda.data.reading import DamageError, reading

_PLAIN_KINDS = "biufUS"  # booleans, integers, floats, text: no dtype that holds pointers
_TORCH_MAGIC = 0x1950A86A20F9469CFC6C  # what a file of torch's oldest format begins with


class _RefusedError(DamageError):
    """The pickle says something that is not on the list."""


class _Dtype:
    """Stands for a `numpy.dtype` while its pickle is read."""

    def __init__(self, code: str, *_: object) -> None:
        self.dtype = np.dtype(str(code))
        if self.dtype.kind not in _PLAIN_KINDS:
            raise _RefusedError(f"an array of {code!r}")

    def __setstate__(self, state: tuple) -> None:
        self.dtype = self.dtype.newbyteorder(">" if state[1] == ">" else "<")


class _Array(np.ndarray):
    """An array that takes its content from a pickle only if that is plain bytes of a plain dtype."""

    def __setstate__(self, state: Any) -> None:
        version, shape, dtype, fortran, content = state
        if not isinstance(dtype, _Dtype) or not isinstance(content, bytes):
            raise _RefusedError("an array of objects")
        super().__setstate__((version, shape, dtype.dtype, fortran, content))


def _empty_array(*_: object) -> _Array:
    return np.zeros(0, dtype=np.int8).view(_Array)


def _scalar(dtype: _Dtype, content: bytes) -> Any:
    return np.frombuffer(content, dtype=dtype.dtype, count=1)[0]


def _from_buffer(content: bytes | bytearray, dtype: _Dtype, shape: tuple[int, ...], order: Any) -> np.ndarray:
    return np.frombuffer(bytes(content), dtype=dtype.dtype).reshape(shape, order=order)


def _encode(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise _RefusedError(f"text as {encoding!r}")
    return text.encode("latin-1")


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("_codecs", "encode"): _encode,
    ("builtins", "list"): list,
    ("builtins", "dict"): dict,
    ("builtins", "tuple"): tuple,
    ("builtins", "set"): set,
    ("collections", "OrderedDict"): dict,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
}


class _SafeUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        module = "builtins" if module == "__builtin__" else module  # as Python 2 wrote it
        if (module, name) not in _ALLOWED:
            raise _RefusedError(f"it wants to call {module}.{name}, which is not needed to read numbers")
        return _ALLOWED[module, name]


def read_pickle(path: Path) -> Any:
    """The containers, numbers and arrays in a pickle."""
    with reading(path, "a pickle of numbers, text and arrays alone"), open(path, "rb") as file:
        return _SafeUnpickler(file).load()


def read_torch(path: Path) -> Any:
    """What `torch.save` wrote: a tensor by torch's own safe reader, arrays and containers of them by ours."""
    with reading(path, "an array saved with torch"), open(path, "rb") as file:
        zipped = file.read(2) == b"PK"
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception:  # it has more in it than tensors, or is damaged: our reader finds out which
            return _zipped_object(path) if zipped else _object_after_prologue(path)


def _zipped_object(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        pickles = [name for name in archive.namelist() if name.endswith("data.pkl")]
        return _SafeUnpickler(io.BytesIO(archive.read(pickles[0]))).load()


def _object_after_prologue(path: Path) -> Any:
    """Torch's oldest format: magic number, version and system as pickles of their own, then the object."""
    with open(path, "rb") as file:
        magic, _version, _system = (_SafeUnpickler(file).load() for _ in range(3))
        if magic != _TORCH_MAGIC:
            raise _RefusedError("it does not begin as torch's files do")
        return _SafeUnpickler(file).load()
