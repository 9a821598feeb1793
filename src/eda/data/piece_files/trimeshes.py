"""Meshes in the formats that trimesh reads well: OBJ and STL. All of a file is one piece; materials are left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from eda.data.piece_files.piece import Geometry
from eda.data.reading import reading


def read_mesh(path: Path) -> list[Geometry]:
    """One mesh, or a cloud if there are no faces."""
    import trimesh

    with reading(path, "a mesh"), open(path, "rb") as file:
        kind = path.suffix.lower().removeprefix(".")
        loaded: Any = trimesh.load(file, file_type=kind, process=False, skip_materials=True)
        if isinstance(loaded, trimesh.Scene):
            loaded = loaded.to_mesh()
        faces = np.asarray(getattr(loaded, "faces", np.empty((0, 3), dtype=np.int64)))
        return [Geometry(np.asarray(loaded.vertices), None, faces, _vertex_colors(loaded))]


def _vertex_colors(loaded: Any) -> np.ndarray | None:
    visual: Any = getattr(loaded, "visual", None)
    return np.asarray(visual.vertex_colors)[:, :3] if getattr(visual, "kind", None) == "vertex" else None
