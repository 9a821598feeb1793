"""Scenes as glTF, in one file (GLB) or with buffers beside it: one piece for every node with a mesh, where it is.

Triangles, strips, fans and points are read; lines, materials, skins and animations are left out. Compressed scenes and
sparse accessors are refused.
"""

from __future__ import annotations

import base64
import itertools
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from scipy.spatial.transform import Rotation

from eda.data.piece_files.piece_file import Geometry, join_geometries
from eda.data.reading import DamageError, check_promise, reading
from eda.data.references import file_inside
from eda.errors import InputError

_MAGIC, _JSON, _BINARY = b"glTF", 0x4E4F534A, 0x004E4942
_COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}
_MOST_PIECES, _MOST_PARTS = 1000, 2000  # nodes with meshes, and primitives of them all
_ALWAYS_READ, _READ_PER_BYTE = 10**7, 2  # numbers; and numbers for every byte, because a mesh may be used many times
_POINTS, _TRIANGLES, _STRIP, _FAN = 0, 4, 5, 6


def read_gltf(path: Path) -> list[Geometry]:
    """The meshes and clouds of a scene."""
    with reading(path, "a scene as glTF"):
        scene = _Scene(path)
        placed = list(itertools.islice(scene.nodes(), _MOST_PIECES + 1))
        if len(placed) > _MOST_PIECES:
            raise InputError(f"{path}: a scene may hold {_MOST_PIECES} pieces, and this one has more; split it")
        return [geometry for node, place in placed if (geometry := scene.geometry(node, place)) is not None]


class _Scene:
    def __init__(self, path: Path) -> None:
        content = path.read_bytes()
        self.path, is_binary = path, content[:4] == _MAGIC
        self.tree: dict[str, Any]
        self.tree, first = _glb_parts(content, path) if is_binary else (json.loads(content), None)
        compressed = [name for name in self.tree.get("extensionsRequired", []) if "compression" in name]
        if compressed:
            raise InputError(f"{path}: compressed with {', '.join(compressed)}; export it without compression")
        self._files = dict[str, bytes]()  # buffers beside the scene, by the names that it has for them
        self.buffers = [self._buffer(entry, first) for entry in self.tree.get("buffers", [])]
        size = len(content) + sum(map(len, self._files.values()))
        self._num_left = max(_ALWAYS_READ, _READ_PER_BYTE * size)  # numbers that may still be read
        self._parts_left = _MOST_PARTS

    def _buffer(self, entry: dict[str, Any], first: bytes | None) -> bytes:
        uri = entry.get("uri")
        if uri is None:
            data = first or b""
        elif uri.startswith("data:"):
            data = base64.b64decode(uri.partition(",")[2])
        else:
            if uri not in self._files:
                self._files[uri] = file_inside(self.path.parent, unquote(uri), self.path).read_bytes()
            data = self._files[uri]
        check_promise(self.path, f"a buffer of {entry['byteLength']} bytes", entry["byteLength"], len(data))
        return data

    def nodes(self) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
        """The nodes with meshes, and the motion (4, 4) that places each; bare meshes if there is no node at all."""
        nodes = self.tree.get("nodes", [])
        if not nodes:
            yield from (({"mesh": i}, np.eye(4)) for i in range(len(self.tree.get("meshes", []))))
            return
        ahead, seen = [(index, np.eye(4)) for index in reversed(self._roots(nodes))], set[int]()
        while ahead:
            index, place = ahead.pop()
            if index in seen:
                raise InputError(f"{self.path}: node {index} has two parents; export the scene again")
            seen.add(index)
            here = place @ _placement(nodes[index])
            ahead += [(child, here) for child in reversed(nodes[index].get("children", []))]
            if "mesh" in nodes[index]:
                yield nodes[index], here

    def _roots(self, nodes: list[dict[str, Any]]) -> list[int]:
        scenes = self.tree.get("scenes")
        if scenes:
            return list(scenes[self.tree.get("scene", 0)].get("nodes", []))
        children = {child for node in nodes for child in node.get("children", [])}
        return [index for index in range(len(nodes)) if index not in children]

    def geometry(self, node: dict[str, Any], place: np.ndarray) -> Geometry | None:
        """All primitives of a mesh as one; None if it has only lines."""
        mesh = self.tree["meshes"][node["mesh"]]
        parts = [part for primitive in mesh["primitives"] if (part := self._primitive(primitive)) is not None]
        # Points beside triangles are decoration.
        parts = [part for part in parts if part.faces is not None] or parts
        if not parts:
            return None
        label = str(node.get("name") or mesh.get("name") or "")
        return _place_geometry(join_geometries(parts), place)._replace(label=label)

    def _primitive(self, primitive: dict[str, Any]) -> Geometry | None:
        self._parts_left -= 1
        if self._parts_left < 0:
            raise InputError(f"{self.path}: its pieces may have {_MOST_PARTS} parts in all, and have more; join them")
        mode, attributes = primitive.get("mode", _TRIANGLES), primitive["attributes"]
        if mode not in (_POINTS, _TRIANGLES, _STRIP, _FAN):
            return None
        points = self._accessor(attributes["POSITION"])
        normals, colors = (
            self._accessor(attributes[key]) if key in attributes else None for key in ("NORMAL", "COLOR_0")
        )
        colors = None if colors is None else np.rint(255 * colors[:, :3].clip(0, 1)).astype(np.uint8)
        if mode == _POINTS:
            return Geometry(points, normals, None, colors)
        given = self._accessor(primitive["indices"])[:, 0] if "indices" in primitive else np.arange(len(points))
        return Geometry(points, normals, _triangles(given.astype(np.int64), mode), colors)

    def _accessor(self, index: int) -> np.ndarray:
        """(count, width) float64, whole numbers that stand for fractions as these fractions."""
        entry = self.tree["accessors"][index]
        if "bufferView" not in entry or "sparse" in entry:
            raise InputError(f"{self.path}: accessor {index} is sparse or compressed; export the scene without that")
        view, width = self.tree["bufferViews"][entry["bufferView"]], _WIDTHS[entry["type"]]
        component = np.dtype(_COMPONENTS[entry["componentType"]])
        stride, start = view.get("byteStride") or width * component.itemsize, view.get("byteOffset", 0)
        data = memoryview(self.buffers[view["buffer"]])[start : start + view["byteLength"]]
        offset, count = entry.get("byteOffset", 0), entry["count"]
        needed = offset + (count - 1) * stride + width * component.itemsize
        check_promise(self.path, f"{count} rows in accessor {index}", needed, len(data))
        self._num_left -= count * width
        if self._num_left < 0:
            raise InputError(
                f"{self.path}: it uses its meshes so often that they grow to more than {_ALWAYS_READ} numbers and "
                f"{_READ_PER_BYTE} for every byte of the file; export fewer copies"
            )
        values = np.ndarray((count, width), component, data, offset, (stride, component.itemsize))
        whole = component.kind != "f" and entry.get("normalized", False)
        return np.maximum(values / np.iinfo(component).max, -1) if whole else values.astype(np.float64)


def _glb_parts(content: bytes, path: Path) -> tuple[dict[str, Any], bytes | None]:
    """The tree and the first buffer of a GLB file."""
    _, version, length = struct.unpack_from("<4sII", content)
    if version != 2:
        raise InputError(f"{path}: glTF version {version}; export it as version 2")
    check_promise(path, f"{length} bytes", length, len(content))
    chunks, at = dict[int, bytes](), 12
    while at + 8 <= length:
        size, kind = struct.unpack_from("<II", content, at)
        check_promise(path, f"a chunk of {size} bytes", size, len(content) - at - 8)
        chunks.setdefault(kind, content[at + 8 : at + 8 + size])
        at += 8 + size
    return json.loads(chunks[_JSON]), chunks.get(_BINARY)


def _placement(node: dict[str, Any]) -> np.ndarray:
    """(4, 4) where a node is in its parent."""
    if "matrix" in node:
        return np.array(node["matrix"], dtype=np.float64).reshape(4, 4).T
    place = np.eye(4)
    place[:3, :3] = Rotation.from_quat(node.get("rotation", [0, 0, 0, 1])).as_matrix() * node.get("scale", [1, 1, 1])
    place[:3, 3] = node.get("translation", [0, 0, 0])
    return place


def _triangles(corners: np.ndarray, mode: int) -> np.ndarray:
    """Corners (n,) one after the other -> (f, 3)."""
    if mode == _TRIANGLES:
        return corners.reshape(-1, 3)
    if mode == _FAN:
        return np.column_stack([np.full(len(corners) - 2, corners[0]), corners[1:-1], corners[2:]])
    strip = np.column_stack([corners[:-2], corners[1:-1], corners[2:]])
    strip[1::2] = strip[1::2, [1, 0, 2]]  # every other triangle of a strip is turned around
    return strip


def _place_geometry(geometry: Geometry, place: np.ndarray) -> Geometry:
    linear = place[:3, :3]
    determinant = np.linalg.det(linear)
    if not abs(determinant) > 0:
        raise DamageError("a node flattens its mesh")
    normals, faces = geometry.normals, geometry.faces
    if normals is not None:
        normals = normals @ np.linalg.inv(linear)
    if faces is not None and determinant < 0:  # a mirror turns triangles around
        faces = faces[:, ::-1]
    return geometry._replace(points=geometry.points @ linear.T + place[:3, 3], normals=normals, faces=faces)
