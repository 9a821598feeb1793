"""The placed pieces as files: each one moved into place, in its own format; and all merged, coloured by piece.

In: the pieces as they were given, and poses. Out: PLY in double precision, GLB, or any other format through trimesh.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from eda.data.piece_files import PieceFile
from eda.data.piece_files.piece_file import Geometry, join_geometries
from eda.data.piece_files.ply import write_ply
from eda.data.piece_files.trimesh_formats import load_mesh
from eda.data.reading import move_points, reading
from eda.errors import InputError
from eda.output.result_folder import MERGED_GLB, MERGED_PLY
from eda.render.input_piece import InputPiece

_MAX_POINTS = 500_000  # of merged clouds
_SAME_POINT = 1e-6  # points closer than this, relative to the largest coordinate, are the same
_SCENE_SUFFIXES = (".glb", ".gltf")

Part = tuple[Any, np.ndarray]  # a geometry of trimesh, and the transform (4, 4) that places it in its scene


def write_pieces(pieces: Sequence[InputPiece], poses: np.ndarray, folder: Path) -> None:
    """Write every piece, moved by its pose of poses (n, 4, 4): meshes in their own format, clouds as PLY."""
    for piece, pose in zip(pieces, poses, strict=True):
        if piece.file is not None and piece.file.faces is not None:
            _write_mesh(piece.file, pose, folder, piece.name)
        else:
            write_ply(folder / f"{piece.name}.ply", _moved(_cloud_of(piece), pose))


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
    _write_glb(folder / MERGED_GLB, [(shape, np.eye(4))])


def _moved(geometry: Geometry, pose: np.ndarray) -> Geometry:
    turned = None if geometry.normals is None else geometry.normals @ pose[:3, :3].T
    return geometry._replace(points=move_points(geometry.points, pose), normals=turned)


def _with_color(geometry: Geometry, color: np.ndarray) -> Geometry:
    return geometry._replace(colors=np.tile(color, (len(geometry.points), 1)))


def _cloud_of(piece: InputPiece) -> Geometry:
    """All points of a cloud's file; for a mesh, or a piece without a file, the points sampled from it."""
    file = piece.file
    if file is None or file.faces is not None:
        return Geometry(piece.points, piece.normals)
    return Geometry(file.points, file.normals, colors=file.colors)


# -- one by one --------------------------------------------------------------------------------------------------------


def _write_mesh(file: PieceFile, pose: np.ndarray, folder: Path, name: str) -> None:
    """Write a mesh with its colours and textures. Parts of scenes and textured meshes become GLB: it embeds images."""
    suffix, loaded = file.path.suffix.lower(), _load(file.path)
    parts = _parts(file, loaded)
    if parts and (suffix in _SCENE_SUFFIXES or _is_textured(loaded)):
        _write_glb(folder / f"{name}.glb", [(shape, pose @ place) for shape, place in parts])
    elif parts and suffix != ".ply":
        loaded.apply_transform(pose).export(folder / f"{name}{suffix}")
    else:
        colors, face_colors = _colors_of(file, loaded)
        mesh = Geometry(file.points, file.normals, file.faces, colors)
        write_ply(folder / f"{name}.ply", _moved(mesh, pose), face_colors)


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


def _colors_of(file: PieceFile, loaded: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The colours of the points, and of the triangles; None where there are none."""
    visual: Any = getattr(loaded, "visual", None)
    kind = getattr(visual, "kind", None)
    if kind == "face" and file.faces is not None and np.array_equal(loaded.faces, file.faces):
        return None, np.asarray(visual.face_colors)
    if kind == "vertex" and len(visual.vertex_colors) == len(file.points):
        return np.asarray(visual.vertex_colors), None  # possibly with alpha
    return file.colors, None


def _write_glb(path: Path, parts: Sequence[Part]) -> None:
    """Write a GLB. Its vertices have single precision and its nodes double, so vertices are centred on their nodes."""
    import trimesh

    scene = trimesh.Scene()
    for shape, place in parts:
        to_middle = np.eye(4)
        to_middle[:3, 3] = shape.bounds.mean(axis=0)
        near = shape.copy()
        near.apply_translation(-to_middle[:3, 3])
        scene.add_geometry(near, transform=place @ to_middle)
    scene.export(path)


# -- merged --------------------------------------------------------------------------------------------------------


def _meshes_or_clouds(pieces: Sequence[InputPiece]) -> list[Geometry]:
    """The meshes of the pieces if all have one; otherwise clouds, thinned at random if they have too many points."""
    meshes = [Geometry(p.file.points, faces=p.file.faces) for p in pieces if p.file and p.file.faces is not None]
    if len(meshes) == len(pieces):
        return meshes
    clouds = [_cloud_of(piece).points for piece in pieces]
    share = _MAX_POINTS / sum(len(cloud) for cloud in clouds)
    rng = np.random.default_rng(0)
    return [Geometry(c if share >= 1 else rng.choice(c, max(int(share * len(c)), 1), replace=False)) for c in clouds]
