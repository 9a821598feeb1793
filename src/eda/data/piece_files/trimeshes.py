"""Meshes in the formats that trimesh reads well: OBJ and STL. All of a file is one piece; materials are left out."""

from __future__ import annotations

import codecs
import io
import struct
from pathlib import Path
from typing import Any

import numpy as np

from eda.data.piece_files.piece import Geometry
from eda.data.reading import check_promise, decoded, reading
from eda.errors import InputError

_STL_HEADER, _STL_TRIANGLE = 84, 50  # bytes; the last four of the header count the triangles


def read_mesh(path: Path) -> list[Geometry]:
    """One mesh, or a cloud if there are no faces."""
    import trimesh

    kind = path.suffix.lower().removeprefix(".")
    with reading(path, f"a mesh as {kind.upper()}"):
        loaded: Any = trimesh.load(readable(path), file_type=kind, process=False, skip_materials=True)
        if isinstance(loaded, trimesh.Scene):
            loaded = loaded.to_mesh()
        if not len(loaded.vertices):
            raise InputError(f"{path}: no vertices in it; look whether its ending is right, or write or copy it again")
        faces = np.asarray(getattr(loaded, "faces", np.empty((0, 3), dtype=np.int64)))
        return [Geometry(np.asarray(loaded.vertices), None, faces, _vertex_colors(loaded))]


def readable(path: Path) -> io.BytesIO:
    """The file as trimesh can read it: text in UTF-8, and no count of triangles that the size does not confirm."""
    content = path.read_bytes()
    if path.suffix.lower() == ".stl" and not _is_text_stl(content):
        _check_binary_stl(content, path)
        return io.BytesIO(content)
    return io.BytesIO(decoded(content).encode())


def _is_text_stl(content: bytes) -> bool:
    """The headers of some binary files begin with the word as well."""
    start = content.removeprefix(codecs.BOM_UTF8).lstrip()[:5]
    return start.lower() == b"solid" and b"\0" not in content


def _check_binary_stl(content: bytes, path: Path) -> None:
    if len(content) < _STL_HEADER:
        raise InputError(f"{path}: too short for an STL file; write or copy it again")
    (count,) = struct.unpack_from("<I", content, _STL_HEADER - 4)
    there = len(content) - _STL_HEADER
    check_promise(path, f"{count} triangles", _STL_TRIANGLE * count, there)
    if there > _STL_TRIANGLE * count:
        raise InputError(
            f"{path}: {there} bytes follow where its {count} triangles need {_STL_TRIANGLE * count}; "
            "look whether its ending is right, or write it again"
        )


def _vertex_colors(loaded: Any) -> np.ndarray | None:
    visual: Any = getattr(loaded, "visual", None)
    return np.asarray(visual.vertex_colors)[:, :3] if getattr(visual, "kind", None) == "vertex" else None
