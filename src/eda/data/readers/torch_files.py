"""What `torch.save` wrote, read without torch: arrays of numpy, tensors as arrays, and containers of them.

The newer format is a zip archive: a pickle, and beside it the content of every tensor. The older one is a row of
pickles with the contents after them. Torch's own reader allocates what a file promises; this one gives views of what
is there.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from eda.data.archives import check_archive
from eda.data.readers.pickles import WORDS, RefusedError, Word, Words, unpickle
from eda.data.reading import reading

_MAGIC = 0x1950A86A20F9469CFC6C  # what a file of the older format begins with
_DTYPES = {
    Word("torch", f"{kind}Storage"): np.dtype(code)
    for kind, code in {
        "Double": "<f8", "Float": "<f4", "Half": "<f2", "Long": "<i8", "Int": "<i4", "Short": "<i2", "Char": "i1",
        "Byte": "u1", "Bool": "?",
    }.items()
}  # fmt: skip
_REBUILD = Word("torch._utils", "_rebuild_tensor_v2")


class _Storage(NamedTuple):
    """The numbers of one or more tensors, one after the other."""

    dtype: np.dtype
    content: bytes


def read_torch(path: Path) -> Any:
    """The containers, arrays and tensors in a file, tensors as arrays."""
    with reading(path, "an array saved with torch"):
        content = path.read_bytes()
        return _zipped_object(path) if content[:2] == b"PK" else _object_after_prologue(io.BytesIO(content))


def _zipped_object(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        check_archive(archive, path)
        (name,) = (name for name in archive.namelist() if name.endswith("data.pkl"))
        folder = name.removesuffix("data.pkl")
        if f"{folder}byteorder" in archive.namelist() and archive.read(f"{folder}byteorder") != b"little":
            raise RefusedError("numbers that are not in little-endian order")
        contents = dict[str, bytes]()

        def storage_of(name: Any) -> _Storage:
            key, dtype = _key_and_dtype(name)
            if key not in contents:
                contents[key] = archive.read(f"{folder}data/{key}")
            return _Storage(dtype, contents[key])

        return unpickle(io.BytesIO(archive.read(name)), _words(_tensor), storage_of)


def _object_after_prologue(stream: BinaryIO) -> Any:
    """The older format: magic number, version and system as pickles of their own, the object, then the storages."""
    magic, _version, _system = (unpickle(stream) for _ in range(3))
    if magic != _MAGIC:
        raise RefusedError("it does not begin as torch's files do")
    start, dtypes = stream.tell(), dict[str, np.dtype]()

    def note(name: Any) -> None:
        key, dtypes_of_key = _key_and_dtype(name)
        dtypes[key] = dtypes_of_key

    # The storages follow the object that needs them, so it is gone through twice.
    found = unpickle(stream, _words(lambda *_: None), note)
    if not dtypes:
        return found
    contents = _contents(stream, dtypes)
    stream.seek(start)
    return unpickle(stream, _words(_tensor), lambda name: contents[_key_and_dtype(name)[0]])


def _contents(stream: BinaryIO, dtypes: Mapping[str, np.dtype]) -> dict[str, _Storage]:
    contents = {}
    for key in unpickle(stream):
        (count,) = struct.unpack("<q", stream.read(8))
        if count < 0:
            raise RefusedError(f"a tensor of {count} numbers")
        contents[key] = _Storage(dtypes[key], stream.read(count * dtypes[key].itemsize))
    return contents


def _key_and_dtype(name: Any) -> tuple[str, np.dtype]:
    """Of ("storage", class, key, device, count, ...)."""
    kind, storage, key, *_ = name
    if kind != "storage" or storage not in _DTYPES or not isinstance(key, str):
        raise RefusedError("a tensor of another kind than plain numbers")
    return key, _DTYPES[storage]


def _words(tensor: Any) -> Words:
    return {**WORDS, **dict.fromkeys(_DTYPES), _REBUILD: tensor}


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: object) -> np.ndarray:
    """A view of a storage. Numpy checks that it stays within; a view that repeats numbers would grow when copied."""
    if not isinstance(storage, _Storage) or not all(type(size) is int and size >= 0 for size in (*shape, *strides)):
        raise RefusedError("a tensor without a storage")
    width = storage.dtype.itemsize
    if int(np.prod(shape, dtype=object)) * width > len(storage.content):
        raise RefusedError(f"a tensor of shape {shape} with {len(storage.content)} bytes of numbers")
    steps = tuple(stride * width for stride in strides)
    return np.ndarray(tuple(shape), storage.dtype, storage.content, offset * width, steps)
