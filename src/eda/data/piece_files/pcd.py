"""Clouds of the Point Cloud Library (PCD), as text, binary or compressed.

The fields x y z, normal_x normal_y normal_z and rgb or rgba are read. In an organised cloud, one with rows and columns
as a depth camera sees them, a point of NaN means that nothing was seen there; it is left out.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from eda.data.piece_files.piece_file import Geometry
from eda.data.reading import DamageError, check_line_lengths, check_promise, reading
from eda.errors import InputError

_KINDS = {"F": "f", "I": "i", "U": "u"}
_LONGEST_HEADER = 100  # lines
_MOST_COMPRESSED = 100  # three bytes of LZF stand for at most 264


class _Header(NamedTuple):
    row: np.dtype  # one field for each of the file's
    num_points: int
    organised: bool
    data: str  # ascii, binary or binary_compressed


def read_pcd(path: Path) -> list[Geometry]:
    """One cloud."""
    with reading(path, "a point cloud as PCD"), open(path, "rb") as file:
        header = _read_header(file, path)
        table = _READERS[header.data](header, file.read(), path)
        points = _columns(table, "x", "y", "z")
        if points is None:
            raise InputError(f"{path}: it has the fields {', '.join(header.row.names or ())}, not x, y, z")
        normals, colors = _columns(table, "normal_x", "normal_y", "normal_z"), _colors(table)
        seen = ~np.isnan(points).all(axis=1) if header.organised else np.ones(len(points), dtype=bool)
        return [
            Geometry(
                points[seen],
                None if normals is None else normals[seen],
                colors=None if colors is None else colors[seen],
            )
        ]


def _read_header(file: BinaryIO, path: Path) -> _Header:
    entries: dict[str, list[str]] = {}
    for _ in range(_LONGEST_HEADER):
        words = file.readline(65536).decode("ascii").split()
        if words and not words[0].startswith("#"):
            entries[words[0]] = words[1:]
        if "DATA" in entries:
            break
    names, sizes, kinds = entries["FIELDS"], entries["SIZE"], entries["TYPE"]
    repeats = [int(text) for text in entries.get("COUNT", ["1"] * len(names))]
    columns = [
        (name if name != "_" else f"padding_{i}", f"<{_KINDS[kind]}{int(size)}", (repeat,))
        for i, (name, size, kind, repeat) in enumerate(zip(names, sizes, kinds, repeats, strict=True))
    ]
    width, height = int(entries["WIDTH"][0]), int(entries["HEIGHT"][0])
    count, data = int(entries.get("POINTS", [str(width * height)])[0]), entries["DATA"][0]
    if data not in _READERS or count < 1 or min(repeats) < 1:
        raise InputError(f"{path}: not a PCD header: DATA {data}, POINTS {count}; write the file again")
    return _Header(np.dtype(columns), count, height > 1, data)


def _read_text(header: _Header, body: bytes, path: Path) -> np.ndarray:
    width = sum(header.row[name].shape[0] for name in header.row.names or ())
    check_promise(path, f"{header.num_points} points", 2 * width * header.num_points - 1, len(body))
    check_line_lengths(body)
    numbers = np.loadtxt(body.decode("ascii").splitlines()[: header.num_points], ndmin=2)
    if numbers.shape != (header.num_points, width):
        raise InputError(
            f"{path}: expected {header.num_points} rows of {width} numbers, got {numbers.shape}; write it again"
        )
    table, start = np.empty(header.num_points, dtype=header.row), 0
    for name in header.row.names or ():
        end = start + header.row[name].shape[0]
        table[name] = numbers[:, start:end]
        start = end
    return table


def _read_binary(header: _Header, body: bytes, path: Path) -> np.ndarray:
    check_promise(path, f"{header.num_points} points", header.num_points * header.row.itemsize, len(body))
    return np.frombuffer(body, dtype=header.row, count=header.num_points)


def _read_compressed(header: _Header, body: bytes, path: Path) -> np.ndarray:
    """Field after field instead of point after point, then compressed."""
    packed, unpacked = struct.unpack_from("<II", body)
    check_promise(path, f"{packed} compressed bytes", packed, len(body) - 8)
    check_promise(path, f"{unpacked} bytes", unpacked, _MOST_COMPRESSED * packed)
    check_promise(path, f"{header.num_points} points", header.num_points * header.row.itemsize, unpacked)
    raw = _decompress(body[8 : 8 + packed])
    check_promise(path, f"{header.num_points} points", header.num_points * header.row.itemsize, len(raw))
    table, start = np.empty(header.num_points, dtype=header.row), 0
    for name in header.row.names or ():
        base, (repeat,) = header.row[name].base, header.row[name].shape
        table[name] = np.frombuffer(raw, base, header.num_points * repeat, start).reshape(header.num_points, repeat)
        start += header.num_points * header.row[name].itemsize
    return table


def _decompress(packed: bytes) -> bytearray:
    """LZF: a byte below 32 begins a run of bytes as they are, any other says how far back and how long to repeat."""
    out, at = bytearray(), 0
    while at < len(packed):
        control = packed[at]
        at += 1
        if control < 32:
            out += packed[at : at + control + 1]
            at += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += packed[at]
            at += 1
        begin = len(out) - ((control & 31) << 8) - packed[at] - 1
        at += 1
        if begin < 0:
            raise DamageError("compressed data refer to what is before their beginning")
        pattern = out[begin : begin + length + 2]
        # What is repeated may reach into what it makes.
        out += (pattern * ((length + 2) // len(pattern) + 1))[: length + 2]
    return out


_READERS = {"ascii": _read_text, "binary": _read_binary, "binary_compressed": _read_compressed}


def _columns(table: np.ndarray, *names: str) -> np.ndarray | None:
    if not set(names) <= set(table.dtype.names or ()):
        return None
    return np.column_stack([table[name][:, 0].astype(np.float64) for name in names])


def _colors(table: np.ndarray) -> np.ndarray | None:
    """Three bytes of a number of four, whatever type the file says that it has."""
    name = next((name for name in ("rgb", "rgba") if name in (table.dtype.names or ())), None)
    if name is None or table.dtype[name].base.itemsize != 4:
        return None
    packed = np.ascontiguousarray(table[name][:, 0])
    # As text, a colour is written as the whole number or as the float whose bytes it is; both are back as they were.
    return packed.view(np.uint8).reshape(-1, 4)[:, 2::-1]
