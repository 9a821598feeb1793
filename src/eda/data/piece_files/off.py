"""Meshes as OFF, in text: how many vertices and faces, then a line for each."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eda.data.piece_files.piece_file import Geometry
from eda.data.piece_files.polygons import group_by_length, split_into_triangles
from eda.data.reading import DamageError, check_line_lengths, decode_text, reading
from eda.errors import InputError

_KINDS = ("OFF", "COFF")  # without and with colours, which are left out


def read_off(path: Path) -> list[Geometry]:
    """One mesh, or a cloud if there are no faces."""
    with reading(path, "a mesh as OFF"):
        content = path.read_bytes()
        check_line_lengths(content)
        lines = (line.partition("#")[0].strip() for line in decode_text(content).splitlines())
        first, *rows = [line for line in lines if line]
        kind, *counts = first.split()
        if kind not in _KINDS:
            raise InputError(f"{path}: not an OFF file; look whether its ending is right")
        # The counts stand beside the word, or on a line of their own.
        num_vertices, num_faces = (int(word) for word in (counts or rows.pop(0).split())[:2])
        if min(num_vertices, num_faces) < 0 or num_vertices + num_faces > len(rows):
            raise InputError(
                f"{path}: it promises {num_vertices} vertices and {num_faces} faces, but {len(rows)} lines follow; "
                "write or copy it again"
            )
        points = np.loadtxt(rows[:num_vertices], usecols=(0, 1, 2), ndmin=2) if num_vertices else np.empty((0, 3))
        corners = [_corners(row.split()) for row in rows[num_vertices : num_vertices + num_faces]]
        return [Geometry(points, None, split_into_triangles(group_by_length(corners)))]


def _corners(row: list[str]) -> list[int]:
    count = int(row[0])
    if not 0 <= count < len(row):
        raise DamageError(f"a face of {count} corners with {len(row) - 1} of them")
    return [int(word) for word in row[1 : count + 1]]
