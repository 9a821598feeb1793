"""Meshes and clouds as files: binary PLY, which every viewer reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eda.data.piece_files.piece import Geometry

_CHANNELS = ("red", "green", "blue", "alpha")
_WORDS = {"<f8": "double", "<f4": "float", "u1": "uchar"}

Columns = dict[str, tuple[np.ndarray, str]]  # name -> values (n,), and how they are written


def write_ply(path: Path, geometry: Geometry, face_colors: np.ndarray | None = None) -> None:
    """Points in double precision, with normals, triangles, and colours of bytes (n, 3 or 4) where they are known."""
    columns: Columns = {axis: (geometry.points[:, i], "<f8") for i, axis in enumerate("xyz")}
    if geometry.normals is not None:
        columns |= {f"n{axis}": (geometry.normals[:, i], "<f4") for i, axis in enumerate("xyz")}
    header, body = _element("vertex", len(geometry.points), columns | _painted(geometry.colors))
    if geometry.faces is not None:
        header_of_faces, faces = _element("face", len(geometry.faces), _painted(face_colors), geometry.faces)
        header, body = header + header_of_faces, body + faces
    start = ["ply", "format binary_little_endian 1.0", *header, "end_header", ""]
    path.write_bytes("\n".join(start).encode() + body)


def _painted(colors: np.ndarray | None) -> Columns:
    if colors is None:
        return {}
    return {name: (channel, "u1") for name, channel in zip(_CHANNELS, colors.T, strict=False)}


def _element(name: str, count: int, columns: Columns, corners: np.ndarray | None = None) -> tuple[list[str], bytes]:
    """Lines of the header and the rows of an element, each of which begins with a list of three corners if given."""
    header, kinds = [f"element {name} {count}"], list[tuple]()
    if corners is not None:
        header.append("property list uchar int vertex_indices")
        kinds += [("length", "u1"), ("corners", "<i4", 3)]
    header += [f"property {_WORDS[kind]} {column}" for column, (_, kind) in columns.items()]
    rows = np.empty(count, dtype=[*kinds, *((column, kind) for column, (_, kind) in columns.items())])
    if corners is not None:
        rows["length"], rows["corners"] = 3, corners
    for column, (values, _) in columns.items():
        rows[column] = values
    return header, rows.tobytes()
