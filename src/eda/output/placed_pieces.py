"""Pieces as files: each one moved into place, in its own format; and all placed ones merged, coloured by piece.

In: the pieces as they were given, and poses. Out: PLY in double precision, GLB, or any other format through trimesh.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eda.data.piece_files import PieceFile
from eda.data.piece_files.piece_file import Geometry, join_geometries
from eda.data.piece_files.ply import write_ply
from eda.data.reading import move_points
from eda.output.glb import glb_bytes, moved_glb
from eda.output.piece_source import PieceSource
from eda.output.result_folder import MERGED_GLB, MERGED_PLY
from eda.render.input_piece import InputPiece

_MAX_POINTS = 500_000  # of merged clouds


def write_piece(source: PieceSource, pose: np.ndarray, folder: Path) -> Path:
    """Write a piece, moved by its pose (4, 4): a mesh in its own format, a cloud as PLY. Returns the file."""
    if source.mesh_file is not None:
        return _write_mesh(source, source.mesh_file, pose, folder)
    path = folder / f"{source.piece.name}.ply"
    write_ply(path, _moved(source.cloud, pose))
    return path


def write_merged(pieces: Sequence[InputPiece], poses: np.ndarray, colors: np.ndarray, folder: Path) -> None:
    """Write all pieces as one mesh, or one cloud if not all are meshes, in colours (n, 3) uint8, as PLY and as GLB."""
    import trimesh

    each = zip(_meshes_or_clouds(pieces), poses, colors, strict=True)
    merged = join_geometries([_with_color(_moved(geometry, pose), color) for geometry, pose, color in each])
    write_ply(folder / MERGED_PLY, merged)
    if merged.faces is None:
        shape: Any = trimesh.PointCloud(merged.points, colors=merged.colors)
    else:
        shape = trimesh.Trimesh(merged.points, merged.faces, vertex_colors=merged.colors, process=False)
    (folder / MERGED_GLB).write_bytes(glb_bytes([(shape, np.eye(4))]))


def _moved(geometry: Geometry, pose: np.ndarray) -> Geometry:
    turned = None if geometry.normals is None else geometry.normals @ pose[:3, :3].T
    return geometry._replace(points=move_points(geometry.points, pose), normals=turned)


def _with_color(geometry: Geometry, color: np.ndarray) -> Geometry:
    return geometry._replace(colors=np.tile(color, (len(geometry.points), 1)))


# -- one by one --------------------------------------------------------------------------------------------------------


def _write_mesh(source: PieceSource, file: PieceFile, pose: np.ndarray, folder: Path) -> Path:
    """Write a mesh with its colours and textures. Parts of scenes and textured meshes become GLB: it embeds images."""
    suffix, name = file.path.suffix.lower(), source.piece.name
    if source.parts and source.needs_scene:
        path = folder / f"{name}.glb"
        path.write_bytes(moved_glb(source.glb, pose))
    elif source.parts and suffix != ".ply":
        path = folder / f"{name}{suffix}"
        source.loaded.copy().apply_transform(pose).export(path)
    else:
        path = folder / f"{name}.ply"
        colors, face_colors = source.colors(file)
        write_ply(path, _moved(Geometry(file.points, file.normals, file.faces, colors), pose), face_colors)
    return path


# -- merged --------------------------------------------------------------------------------------------------------


def _meshes_or_clouds(pieces: Sequence[InputPiece]) -> list[Geometry]:
    """The meshes of the pieces if all have one; otherwise clouds, thinned at random if they have too many points."""
    meshes = [Geometry(p.file.points, faces=p.file.faces) for p in pieces if p.file and p.file.faces is not None]
    if len(meshes) == len(pieces):
        return meshes
    clouds = [PieceSource(piece, None).cloud.points for piece in pieces]
    share = _MAX_POINTS / sum(len(cloud) for cloud in clouds)
    rng = np.random.default_rng(0)
    return [Geometry(c if share >= 1 else rng.choice(c, max(int(share * len(c)), 1), replace=False)) for c in clouds]
