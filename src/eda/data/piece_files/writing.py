"""Clouds as files: binary PLY, which every viewer reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_cloud(
    path: Path, points: np.ndarray, normals: np.ndarray | None = None, colors: np.ndarray | None = None
) -> None:
    """Points (n, 3) in double precision, with normals (n, 3) and colours (n, 3) of bytes where they are known."""
    columns = {axis: (points[:, i], "<f8") for i, axis in enumerate("xyz")}
    if normals is not None:
        columns |= {f"n{axis}": (normals[:, i], "<f4") for i, axis in enumerate("xyz")}
    if colors is not None:
        columns |= {name: (colors[:, i], "u1") for i, name in enumerate(("red", "green", "blue"))}
    rows = np.empty(len(points), dtype=[(name, kind) for name, (_, kind) in columns.items()])
    for name, (values, _) in columns.items():
        rows[name] = values
    path.write_bytes(_header(len(points), {name: kind for name, (_, kind) in columns.items()}) + rows.tobytes())


def _header(count: int, kinds: dict[str, str]) -> bytes:
    words = {"<f8": "double", "<f4": "float", "u1": "uchar"}
    lines = ["ply", "format binary_little_endian 1.0", f"element vertex {count}"]
    lines += [f"property {words[kind]} {name}" for name, kind in kinds.items()]
    return "\n".join([*lines, "end_header", ""]).encode()
