"""Mutations that know a format: they change what is inside, and mend the checksums and lengths around it.

Bytes changed by chance in a file with checksums only ever test the checksum. Each of these takes the content of a valid
file, a generator, and `change`, which mutates bytes; it returns the content of a file that is wrong further inside.
"""

from __future__ import annotations

import copy
import io
import json
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

Change = Callable[[bytes], bytes]
Structure = Callable[[bytes, np.random.Generator, Change], bytes]

# -- zip archives: .npz and .pth -----------------------------------------------------------------------------------


def inside_zip(content: bytes, rng: np.random.Generator, change: Change) -> bytes:
    """One member is mutated, packed or not, and the archive written again with the checksum of what it now holds."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = list(members)[int(rng.integers(len(members)))]
    members[name] = change(members[name])
    method = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)[int(rng.integers(3))]
    with zipfile.ZipFile(written := io.BytesIO(), "w", method) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return written.getvalue()


# -- E57: pages of 1024 bytes, the last four of which are a checksum ------------------------------------------------

_PAGE, _CHECKSUM = 1024, 4


def _crc32c_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc32c_table()


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def inside_e57(content: bytes, rng: np.random.Generator, change: Change) -> bytes:
    """Mutated without the checksums, and cut into pages again. The length in the header is mended in half of them."""
    plain = b"".join(content[at : at + _PAGE - _CHECKSUM] for at in range(0, len(content), _PAGE))
    changed = change(plain)
    size = _PAGE - _CHECKSUM
    changed += bytes(-len(changed) % size)
    if rng.random() < 0.5 and len(changed) >= 48:
        changed = changed[:16] + struct.pack("<Q", len(changed) // size * _PAGE) + changed[24:]
    pages = [changed[at : at + size] for at in range(0, len(changed), size)]
    return b"".join(page + struct.pack(">I", _crc32c(page)) for page in pages)


# -- JSON ----------------------------------------------------------------------------------------------------------

_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 2**31, 2**32 - 1, 2**63, 10**30, -(2**63), 0.5, 1e308, float("nan"), float("inf"), "", "x",
    "../../../etc/passwd", "/etc/passwd", "data:,", "\0", [], {}, [[]], [0] * 1000,
)  # fmt: skip


def inside_json(content: bytes, rng: np.random.Generator, _: Change) -> bytes:
    """One to three values of the tree are replaced, removed, repeated, or put into each other."""
    tree = [json.loads(content)]
    for _ in range(int(rng.integers(1, 4))):
        _change_tree(tree, rng)
    return json.dumps(tree[0]).encode()


def _change_tree(tree: list[Any], rng: np.random.Generator) -> None:
    places = list(_places(tree))
    holder, key = places[int(rng.integers(len(places)))]
    match int(rng.integers(5)):
        case 0 | 1:
            holder[key] = copy.deepcopy(_VALUES[int(rng.integers(len(_VALUES)))])
        case 2 if holder is not tree:
            del holder[key]
        case 3 if isinstance(holder[key], list):
            holder[key] = holder[key] * int(rng.integers(2, 1 + max(2, 5000 // max(len(str(holder[key])), 1))))
        case _:
            other, elsewhere = places[int(rng.integers(len(places)))]
            holder[key] = copy.deepcopy(other[elsewhere])


def _places(holder: Any) -> Any:
    """(container, key) of every value of a tree."""
    for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
        yield holder, key
        if isinstance(holder[key], (dict, list)):
            yield from _places(holder[key])


def inside_glb(content: bytes, rng: np.random.Generator, change: Change) -> bytes:
    """The tree of a GLB file is mutated as JSON, and the lengths around it are mended."""
    (size,) = struct.unpack_from("<I", content, 12)
    tree = inside_json(content[20 : 20 + size], rng, change)
    tree += b" " * (-len(tree) % 4)
    rest = content[20 + size :]
    head = struct.pack("<4sII", b"glTF", 2, 20 + len(tree) + len(rest))
    return head + struct.pack("<I4s", len(tree), b"JSON") + tree + rest
