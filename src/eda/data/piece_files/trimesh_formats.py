"""Meshes in the formats that trimesh reads well: OBJ and STL. All of a file is one piece; materials are left out.

Trimesh gives up on text that is not UTF-8. So it is handed everything decoded, the files of materials as well.
"""

from __future__ import annotations

import codecs
import io
import re
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from eda.data.piece_files.piece_file import Geometry
from eda.data.reading import DamageError, check_line_lengths, check_promise, decode_text, reading
from eda.data.references import OutsideError, file_inside
from eda.errors import InputError, InputWarning

_MOST_MATERIALS = 1000
_PICTURES = (
    "image",
    "baseColorTexture",
    "metallicRoughnessTexture",
    "normalTexture",
    "occlusionTexture",
    "emissiveTexture",
)
_STL_HEADER, _STL_TRIANGLE = 84, 50  # bytes; the last four of the header count the triangles


def read_mesh(path: Path) -> list[Geometry]:
    """One mesh, or a cloud if there are no faces."""
    import trimesh

    with reading(path, f"a mesh as {path.suffix[1:].upper()}"):
        loaded = load_mesh(path, materials=False)
        if isinstance(loaded, trimesh.Scene):
            loaded = loaded.to_mesh()
        if not len(loaded.vertices):
            raise InputError(f"{path}: no vertices in it; look whether its ending is right, or write or copy it again")
        faces = np.asarray(getattr(loaded, "faces", np.empty((0, 3), dtype=np.int64)))
        return [Geometry(np.asarray(loaded.vertices), None, faces, _vertex_colors(loaded))]


def load_mesh(path: Path, *, materials: bool) -> Any:
    """What trimesh makes of a file, vertices as they are; with `materials`, also what lies beside an OBJ."""
    import trimesh

    beside = _Beside(path)
    resolver: Any = beside  # trimesh asks for less than its types say
    content = io.BytesIO(_readable(path))
    try:
        loaded = trimesh.load(
            content,
            file_type=path.suffix.lower().removeprefix("."),
            resolver=resolver,
            process=False,
            skip_materials=not materials,
        )
    except Exception as error:  # of a damaged file: any
        raise DamageError("it has another order than its header says, or none") from error
    for problem in [*beside.problems, *_drop_damaged_pictures(loaded, path)]:
        warnings.warn(f"{problem}; its colours are left out", InputWarning, stacklevel=2)
    return loaded


def _drop_damaged_pictures(loaded: Any, path: Path) -> list[str]:
    """Take pictures that cannot be decoded away from a mesh, and say so; Pillow only tries to when it writes them."""
    problems = []
    for shape in getattr(loaded, "geometry", {"": loaded}).values():
        material = getattr(getattr(shape, "visual", None), "material", None)
        for name in _PICTURES:
            picture = getattr(material, name, None)
            try:
                if picture is not None:
                    picture.load()
            except Exception:  # Pillow raises whatever its decoders do
                setattr(material, name, None)
                problems.append(f"{path}: a picture of it is damaged")
    return problems


def _readable(path: Path) -> bytes:
    """The file as trimesh can read it: text in UTF-8, and no count of triangles that the size does not confirm."""
    content, suffix = path.read_bytes(), path.suffix.lower()
    if suffix == ".stl" and not _is_text_stl(content):
        _check_binary_stl(content, path)
    elif suffix in (".obj", ".stl", ".mtl"):
        _check_materials(content)
        check_line_lengths(content.replace(b"\\\n", b"").replace(b"\\\r\n", b""))  # lines may go on in the next
        return decode_text(content).encode()
    return content


def _check_materials(content: bytes) -> None:
    """Trimesh makes a mesh for each of them, which takes milliseconds."""
    count = len(set(re.findall(rb"^usemtl[^\n]*", content, re.MULTILINE)))
    if count > _MOST_MATERIALS:
        raise DamageError(f"{count} materials, and a mesh may have {_MOST_MATERIALS}")


class _Beside:
    """The files beside a mesh, by the names that it has for them: materials and pictures.

    Those outside its folder are noted, because trimesh goes on without them, whatever is raised.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []

    def get(self, name: str) -> bytes:
        try:
            return _readable(file_inside(self.path.parent, name, self.path))
        except OutsideError as error:
            self.problems.append(str(error))
            raise

    __getitem__ = get


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
