"""The placed pieces as files: each whole, moved and in its own format; and all of them as one, coloured by piece.

In: the pieces as they came, and poses. Out: PLY in double precision, GLB, or what trimesh writes for the other formats.
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
from eda.view.figures import Given

_MOST_POINTS = 500_000  # of clouds as one
_SAME = 1e-6  # of the largest coordinate: points less far apart are one
_SCENES = (".glb", ".gltf")

Part = tuple[Any, np.ndarray]  # a geometry of trimesh, and the motion (4, 4) that places it


def write_moved(pieces: Sequence[Given], poses: np.ndarray, folder: Path) -> None:
    """Every piece by its name, where poses (n, 4, 4) put it: meshes in their own format, clouds as PLY."""
    for piece, pose in zip(pieces, poses, strict=True):
        if piece.file is not None and piece.file.faces is not None:
            _write_mesh(piece.file, pose, folder, piece.name)
        else:
            write_ply(folder / f"{piece.name}.ply", _moved(_cloud_of(piece), pose))


def write_whole(pieces: Sequence[Given], poses: np.ndarray, colors: np.ndarray, folder: Path) -> None:
    """All pieces as one mesh, or as one cloud if not all are meshes, in colours (n, 3) of bytes; as PLY and as GLB."""
    import trimesh

    each = zip(_meshes_or_clouds(pieces), poses, colors, strict=True)
    whole = join_geometries([_painted(_moved(geometry, pose), color) for geometry, pose, color in each])
    write_ply(folder / "assembled.ply", whole)
    if whole.faces is None:
        shape: Any = trimesh.PointCloud(whole.points, colors=whole.colors)
    else:
        shape = trimesh.Trimesh(whole.points, whole.faces, vertex_colors=whole.colors, process=False)
    _write_glb(folder / "assembled.glb", [(shape, np.eye(4))])


def _moved(geometry: Geometry, pose: np.ndarray) -> Geometry:
    turned = None if geometry.normals is None else geometry.normals @ pose[:3, :3].T
    return geometry._replace(points=move_points(geometry.points, pose), normals=turned)


def _painted(geometry: Geometry, color: np.ndarray) -> Geometry:
    return geometry._replace(colors=np.tile(color, (len(geometry.points), 1)))


def _cloud_of(piece: Given) -> Geometry:
    """All points of a cloud's file; of a piece that is a mesh, or has no file, those that stand for it."""
    file = piece.file
    if file is None or file.faces is not None:
        return Geometry(piece.points, piece.normals)
    return Geometry(file.points, file.normals, colors=file.colors)


# -- one by one --------------------------------------------------------------------------------------------------------


def _write_mesh(file: PieceFile, pose: np.ndarray, folder: Path, name: str) -> None:
    """With colours and textures: pieces of scenes, and what has textures, as GLB, which holds its own pictures."""
    suffix, loaded = file.path.suffix.lower(), _loaded(file.path)
    parts = _parts(file, loaded)
    if parts and (suffix in _SCENES or _is_textured(loaded)):
        _write_glb(folder / f"{name}.glb", [(shape, pose @ place) for shape, place in parts])
    elif parts and suffix != ".ply":
        loaded.apply_transform(pose).export(folder / f"{name}{suffix}")
    else:
        colors, face_colors = _paint(file, loaded)
        mesh = Geometry(file.points, file.normals, file.faces, colors)
        write_ply(folder / f"{name}.ply", _moved(mesh, pose), face_colors)


def _loaded(path: Path) -> Any:
    """A mesh or a scene as trimesh holds it, with its textures; None if it cannot read what we can."""
    try:
        with reading(path, "a mesh that trimesh reads"):
            return load_mesh(path, materials=True)
    except InputError:
        return None


def _parts(file: PieceFile, loaded: Any) -> list[Part]:
    """The meshes of which a piece is made. None if they do not add up to it."""
    import trimesh

    if isinstance(loaded, trimesh.Scene):
        nodes = [loaded.graph[node] for node in loaded.graph.nodes_geometry]
        parts = [(loaded.geometry[name], place) for place, name in nodes]
    else:
        parts = [(loaded, np.eye(4))]
    parts = [(shape, place) for shape, place in parts if isinstance(shape, trimesh.Trimesh)]
    if file.scene_index is None:
        return parts
    near, tree = _SAME * np.abs(file.points).max(), cKDTree(file.points)
    own = [(shape, place) for shape, place in parts if tree.query(move_points(shape.vertices, place))[0].max() <= near]
    return own if sum(len(shape.vertices) for shape, _ in own) == len(file.points) else []


def _is_textured(loaded: Any) -> bool:
    return getattr(getattr(loaded, "visual", None), "kind", "texture") == "texture"


def _paint(file: PieceFile, loaded: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Colours of the points, and of the triangles."""
    visual: Any = getattr(loaded, "visual", None)
    kind = getattr(visual, "kind", None)
    if kind == "face" and file.faces is not None and np.array_equal(loaded.faces, file.faces):
        return None, np.asarray(visual.face_colors)
    if kind == "vertex" and len(visual.vertex_colors) == len(file.points):
        return np.asarray(visual.vertex_colors), None  # they may have an alpha
    return file.colors, None


def _write_glb(path: Path, parts: Sequence[Part]) -> None:
    """Vertices have seven digits there, and nodes have sixteen: so vertices lie around the origin of their node."""
    import trimesh

    scene = trimesh.Scene()
    for shape, place in parts:
        to_middle = np.eye(4)
        to_middle[:3, 3] = shape.bounds.mean(axis=0)
        near = shape.copy()
        near.apply_translation(-to_middle[:3, 3])
        scene.add_geometry(near, transform=place @ to_middle)
    scene.export(path)


# -- all as one --------------------------------------------------------------------------------------------------------


def _meshes_or_clouds(pieces: Sequence[Given]) -> list[Geometry]:
    """The meshes of the pieces if all have one; else clouds, thinned by chance and all alike if they are too many."""
    meshes = [Geometry(p.file.points, faces=p.file.faces) for p in pieces if p.file and p.file.faces is not None]
    if len(meshes) == len(pieces):
        return meshes
    clouds = [_cloud_of(piece).points for piece in pieces]
    share = _MOST_POINTS / sum(len(cloud) for cloud in clouds)
    rng = np.random.default_rng(0)
    return [Geometry(c if share >= 1 else rng.choice(c, max(int(share * len(c)), 1), replace=False)) for c in clouds]
