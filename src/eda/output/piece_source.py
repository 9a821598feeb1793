"""PieceSource: a piece with what its file holds besides geometry: colours, textures, and the parts of a scene."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from eda.data.piece_files import PieceFile
from eda.data.piece_files.piece_file import Geometry
from eda.data.piece_files.trimesh_formats import load_mesh
from eda.data.reading import move_points, reading
from eda.errors import InputError
from eda.output.glb import Part, glb_bytes
from eda.render.input_piece import InputPiece

_SAME_POINT = 1e-6  # points closer than this, relative to the largest coordinate, are the same
_SCENE_SUFFIXES = (".glb", ".gltf")


@dataclass(frozen=True)
class PieceSource:
    """A piece, and what trimesh makes of its file. It may be large, so keep one at a time."""

    piece: InputPiece
    loaded: Any  # a mesh or a scene, with its textures; None for clouds, and if trimesh cannot read what we can

    @staticmethod
    def of(piece: InputPiece) -> PieceSource:
        """The piece with its file loaded again, if it is a mesh."""
        file = piece.file
        return PieceSource(piece, None if file is None or file.faces is None else _load(file.path))

    @property
    def mesh_file(self) -> PieceFile | None:
        """The file, if it is a mesh."""
        file = self.piece.file
        return None if file is None or file.faces is None else file

    @cached_property
    def parts(self) -> list[Part]:
        """The meshes that make up the piece; empty if they do not match its points."""
        return [] if self.mesh_file is None or self.loaded is None else _parts(self.mesh_file, self.loaded)

    @cached_property
    def glb(self) -> bytes:
        """The parts as a GLB, unmoved."""
        return glb_bytes(self.parts)

    @property
    def needs_scene(self) -> bool:
        """Whether only a scene can hold all of it: parts of scenes, and textured meshes."""
        file = self.mesh_file
        return file is not None and (file.path.suffix.lower() in _SCENE_SUFFIXES or _is_textured(self.loaded))

    @property
    def cloud(self) -> Geometry:
        """All points of a cloud's file; for a mesh, or a piece without a file, the points sampled from it."""
        file = self.piece.file
        if file is None or file.faces is not None:
            return Geometry(self.piece.points, self.piece.normals)
        return Geometry(file.points, file.normals, colors=file.colors)

    def colors(self, file: PieceFile) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The colours of the points, and of the triangles; None where there are none."""
        visual: Any = getattr(self.loaded, "visual", None)
        kind = getattr(visual, "kind", None)
        if kind == "face" and file.faces is not None and np.array_equal(self.loaded.faces, file.faces):
            return None, np.asarray(visual.face_colors)
        if kind == "vertex" and len(visual.vertex_colors) == len(file.points):
            return np.asarray(visual.vertex_colors), None  # possibly with alpha
        return file.colors, None


def _load(path: Path) -> Any:
    """A mesh or a scene of trimesh, with its textures; None if trimesh cannot read the file, although we can."""
    try:
        with reading(path, "a mesh that trimesh reads"):
            return load_mesh(path, materials=True)
    except InputError:
        return None


def _parts(file: PieceFile, loaded: Any) -> list[Part]:
    """The meshes that make up a piece; empty if they do not match its points."""
    import trimesh

    if isinstance(loaded, trimesh.Scene):
        nodes = [loaded.graph[node] for node in loaded.graph.nodes_geometry]
        parts = [(loaded.geometry[name], place) for place, name in nodes]
    else:
        parts = [(loaded, np.eye(4))]
    # A mesh without triangles has no bounds; trimesh makes such of materials that nothing uses.
    meshes = [(shape, place) for shape, place in parts if isinstance(shape, trimesh.Trimesh)]
    parts = [(shape, place) for shape, place in meshes if shape.bounds is not None]
    if file.scene_index is None:
        return parts
    near, tree = _SAME_POINT * np.abs(file.points).max(), cKDTree(file.points)
    own = [(shape, place) for shape, place in parts if tree.query(move_points(shape.vertices, place))[0].max() <= near]
    return own if sum(len(shape.vertices) for shape, _ in own) == len(file.points) else []


def _is_textured(loaded: Any) -> bool:
    return getattr(getattr(loaded, "visual", None), "kind", "texture") == "texture"
