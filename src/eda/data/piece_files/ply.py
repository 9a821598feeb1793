"""Meshes and clouds as PLY: read as text or binary, with polygons of any size; written as binary.

A file is a header, which names elements and their properties, and then the rows of one element after the other.
Vertices and faces are read; elements after them are not looked at.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from eda.data.piece_files.piece_file import Geometry
from eda.data.piece_files.polygons import group_by_length, split_into_triangles
from eda.data.reading import check_line_lengths, check_promise, reading
from eda.errors import InputError

_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2",
    "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip
_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
_LONGEST_HEADER = 10_000  # lines
_CORNERS = ("vertex_indices", "vertex_index")
_COLORS = (("red", "green", "blue"), ("diffuse_red", "diffuse_green", "diffuse_blue"), ("r", "g", "b"))


class _Property(NamedTuple):
    name: str
    type: np.dtype
    length_type: np.dtype | None  # of a list: what its length is written as


class _Element(NamedTuple):
    name: str
    num_rows: int
    properties: list[_Property]

    @property
    def has_lists(self) -> bool:
        return any(entry.length_type is not None for entry in self.properties)

    @property
    def least_bytes(self) -> int:
        """The smallest size of a binary row; a list may be empty."""
        return sum((entry.length_type or entry.type).itemsize for entry in self.properties)


def read_ply(path: Path) -> list[Geometry]:
    """One mesh, or a cloud if there are no faces."""
    with reading(path, "a mesh or a cloud as PLY"), open(path, "rb") as file:
        order, elements = _read_header(file, path)
        rows: _Rows = _BinaryRows(file.read(), path) if order else _TextRows(file.read(), path)
        names = [element.name for element in elements]
        if "vertex" not in names:
            raise InputError(f"{path}: a PLY file without vertices; write it again")
        vertices, polygons = dict[str, np.ndarray](), list[np.ndarray]()
        for element in elements[: 1 + max(i for i, name in enumerate(names) if name in ("vertex", "face"))]:
            if element.has_lists:
                corners = rows.polygons(element)
                polygons += corners if element.name == "face" else []
            else:
                table = rows.table(element)
                vertices = table if element.name == "vertex" else vertices
        return [_geometry(vertices, polygons, path)]


def _geometry(vertices: dict[str, np.ndarray], polygons: list[np.ndarray], path: Path) -> Geometry:
    points = _columns(vertices, "x", "y", "z")
    if points is None:
        raise InputError(f"{path}: its vertices have {', '.join(vertices)}, but not x, y, z")
    colors = (_columns(vertices, *names) for names in _COLORS)
    return Geometry(
        points,
        _columns(vertices, "nx", "ny", "nz"),
        split_into_triangles(polygons),
        next((channels for channels in colors if channels is not None), None),
    )


def _columns(table: dict[str, np.ndarray], *names: str) -> np.ndarray | None:
    return np.column_stack([table[name] for name in names]) if set(names) <= set(table) else None


# -- the header ----------------------------------------------------------------------------------------------


def _read_header(file: BinaryIO, path: Path) -> tuple[str, list[_Element]]:
    """The order of bytes, empty for text, and the elements."""
    if file.readline(16).strip() != b"ply":
        raise InputError(f"{path}: not a PLY file; look whether its ending is right")
    order, elements = None, list[_Element]()
    for _ in range(_LONGEST_HEADER):
        words = file.readline(65536).decode("ascii", errors="replace").split()
        match words:
            case ["format", kind, *_]:
                order = _ORDERS[kind]
            case ["element", name, count]:
                elements.append(_Element(name, int(count), []))
            case ["property", "list", length_type, type_, name]:
                types = np.dtype((order or "") + _TYPES[type_]), np.dtype((order or "") + _TYPES[length_type])
                elements[-1].properties.append(_Property(name, *types))
            case ["property", type_, name]:
                elements[-1].properties.append(_Property(name, np.dtype((order or "") + _TYPES[type_]), None))
            case ["end_header"]:
                break
    else:
        raise InputError(f"{path}: the header of this PLY file does not end; write or copy it again")
    if order is None or any(element.num_rows < 0 or not element.properties for element in elements):
        raise InputError(f"{path}: the header of this PLY file is damaged; write or copy it again")
    if "tristrips" in {element.name for element in elements}:
        raise InputError(f"{path}: a mesh of triangle strips; write it with plain triangles")
    return order, elements


# -- the rows ------------------------------------------------------------------------------------------------


class _Rows:
    """What comes after the header, and how far it has been read."""

    def table(self, element: _Element) -> dict[str, np.ndarray]:
        """The columns (n,) of an element without lists, by their names."""
        raise NotImplementedError

    def polygons(self, element: _Element) -> list[np.ndarray]:
        """The lists of corners of an element, those of the same length together: (n, m) each."""
        raise NotImplementedError


class _BinaryRows(_Rows):
    def __init__(self, body: bytes, path: Path) -> None:
        self.body, self.path, self.at = body, path, 0

    def table(self, element: _Element) -> dict[str, np.ndarray]:
        check_promise(self.path, _promise(element), element.num_rows * element.least_bytes, len(self.body) - self.at)
        row = np.dtype([(entry.name, entry.type) for entry in element.properties])
        table = np.frombuffer(self.body, row, element.num_rows, self.at)
        self.at += table.nbytes
        return {entry.name: table[entry.name] for entry in element.properties}

    def polygons(self, element: _Element) -> list[np.ndarray]:
        check_promise(self.path, _promise(element), element.num_rows * element.least_bytes, len(self.body) - self.at)
        if not element.num_rows:
            return []
        alike = self._rows_alike(element)
        return self._rows_one_by_one(element) if alike is None else alike

    def _rows_alike(self, element: _Element) -> list[np.ndarray] | None:
        """If all rows have lists as long as those of the first row, as in a mesh of triangles; else None."""
        lengths, row_bytes = self._row(element, self.at)
        fields: list[tuple] = []
        for entry, length in zip(element.properties, lengths, strict=True):
            if entry.length_type is None:
                fields.append((entry.name, entry.type))
            else:
                fields += [(f"length of {entry.name}", entry.length_type), (entry.name, entry.type, (length,))]
        if element.num_rows * row_bytes > len(self.body) - self.at:
            return None
        table = np.frombuffer(self.body, np.dtype(fields), element.num_rows, self.at)
        for entry, length in zip(element.properties, lengths, strict=True):
            if entry.length_type is not None and (table[f"length of {entry.name}"] != length).any():
                return None
        self.at += table.nbytes
        return [table[entry.name] for entry in element.properties if entry.name in _CORNERS]

    def _rows_one_by_one(self, element: _Element) -> list[np.ndarray]:
        corners = list[np.ndarray]()
        for _ in range(element.num_rows):
            lengths, row_bytes = self._row(element, self.at)
            at = self.at
            for entry, length in zip(element.properties, lengths, strict=True):
                at += 0 if entry.length_type is None else entry.length_type.itemsize
                if entry.name in _CORNERS:
                    corners.append(np.frombuffer(self.body, entry.type, length, at))
                at += length * entry.type.itemsize
            self.at += row_bytes
        return group_by_length(corners)

    def _row(self, element: _Element, start: int) -> tuple[list[int], int]:
        """How many numbers each property of the row at `start` has, and how many bytes they take in all."""
        lengths, at = [], start
        for entry in element.properties:
            length = 1
            if entry.length_type is not None:
                length = int(np.frombuffer(self.body, entry.length_type, 1, at)[0])
                at += entry.length_type.itemsize
                check_promise(self.path, f"a list of {length}", length * entry.type.itemsize, len(self.body) - at)
            lengths.append(length)
            at += length * entry.type.itemsize
        return lengths, at - start


class _TextRows(_Rows):
    def __init__(self, body: bytes, path: Path) -> None:
        check_line_lengths(body)
        self.lines = [line for line in body.decode("ascii").splitlines() if line.strip()]
        self.path, self.at = path, 0

    def _next(self, element: _Element) -> list[str]:
        there = len(self.lines) - self.at
        if element.num_rows > there:
            raise InputError(f"{self.path}: its header promises {_promise(element)}, but only {there} lines follow")
        self.at += element.num_rows
        return self.lines[self.at - element.num_rows : self.at]

    def table(self, element: _Element) -> dict[str, np.ndarray]:
        lines = self._next(element)
        width = len(element.properties)
        numbers = np.loadtxt(lines, ndmin=2) if lines else np.empty((0, width))
        if numbers.shape[1] != width:
            raise InputError(f"{self.path}: {numbers.shape[1]} numbers for the {width} properties of a {element.name}")
        return {
            entry.name: numbers[:, i].astype(entry.type if entry.type.kind == "u" else np.float64)
            for i, entry in enumerate(element.properties)
        }

    def polygons(self, element: _Element) -> list[np.ndarray]:
        corners = list[list[int]]()
        for line in self._next(element):
            words, at = line.split(), 0
            for entry in element.properties:
                length, at = (1, at) if entry.length_type is None else (int(words[at]), at + 1)
                if entry.name in _CORNERS:
                    corners.append([int(word) for word in words[at : at + length]])
                at += length
            if at > len(words):
                raise InputError(f"{self.path}: a {element.name} of {len(words)} numbers where {at} are needed")
        return group_by_length(corners)


def _promise(element: _Element) -> str:
    return f"{element.num_rows} rows of {element.name}"


# -- writing -------------------------------------------------------------------------------------------------

_CHANNELS = ("red", "green", "blue", "alpha")
_TYPE_WORDS = {"<f8": "double", "<f4": "float", "u1": "uchar"}
Columns = dict[str, tuple[np.ndarray, str]]  # name -> values (n,), and how they are written


def write_ply(path: Path, geometry: Geometry, face_colors: np.ndarray | None = None) -> None:
    """Write a mesh or a cloud as `ply_bytes` has it."""
    path.write_bytes(ply_bytes(geometry, face_colors))


def ply_bytes(geometry: Geometry, face_colors: np.ndarray | None = None) -> bytes:
    """Points in double precision, with normals, triangles, and colours of bytes (n, 3 or 4) where they are known."""
    columns: Columns = {axis: (geometry.points[:, i], "<f8") for i, axis in enumerate("xyz")}
    if geometry.normals is not None:
        columns |= {f"n{axis}": (geometry.normals[:, i], "<f4") for i, axis in enumerate("xyz")}
    header, body = _element_bytes("vertex", len(geometry.points), columns | _color_columns(geometry.colors))
    if geometry.faces is not None:
        face_columns = _color_columns(face_colors)
        face_header, face_body = _element_bytes("face", len(geometry.faces), face_columns, geometry.faces)
        header, body = header + face_header, body + face_body
    start = ["ply", "format binary_little_endian 1.0", *header, "end_header", ""]
    return "\n".join(start).encode() + body


def _color_columns(colors: np.ndarray | None) -> Columns:
    if colors is None:
        return {}
    return {name: (channel, "u1") for name, channel in zip(_CHANNELS, colors.T, strict=False)}


def _element_bytes(
    name: str, count: int, columns: Columns, corners: np.ndarray | None = None
) -> tuple[list[str], bytes]:
    """Lines of the header and the rows of an element, each of which begins with a list of three corners if given."""
    header, kinds = [f"element {name} {count}"], list[tuple]()
    if corners is not None:
        header.append("property list uchar int vertex_indices")
        kinds += [("length", "u1"), ("corners", "<i4", 3)]
    header += [f"property {_TYPE_WORDS[kind]} {column}" for column, (_, kind) in columns.items()]
    rows = np.empty(count, dtype=[*kinds, *((column, kind) for column, (_, kind) in columns.items())])
    if corners is not None:
        rows["length"], rows["corners"] = 3, corners
    for column, (values, _) in columns.items():
        rows[column] = values
    return header, rows.tobytes()
