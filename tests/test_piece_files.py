"""Files of pieces: every format against another writer or bytes made by hand, and everything that can be wrong."""

import builtins
import importlib
import json
import os
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import trimesh
from data_files import box, write_obj, write_ply
from PIL import Image
from scipy.spatial.transform import Rotation
from shapes import lumpy_cloud

from eda.data.piece_files import PieceFile, read_pieces
from eda.data.piece_files.trimeshes import load_mesh
from eda.errors import InputError

POINTS, NORMALS = lumpy_cloud(0, 50)
COLORS = np.random.default_rng(0).integers(0, 256, size=(50, 3)).astype(np.uint8)
VERTICES, FACES = box(0, 1)
EXACT = POINTS.astype(np.float32).astype(np.float64)  # what a file of float32 keeps


def one(path: Path) -> PieceFile:
    (piece,) = read_pieces([path])
    return piece


def soup(piece: PieceFile) -> np.ndarray:
    """The triangles as (f, 9), each from its least corner on, sorted: what a mesh is, however it is indexed."""
    corners = piece.points[piece.faces]
    rows = [np.concatenate(np.roll(t, -min(range(3), key=lambda i: tuple(t[i])), axis=0)) for t in corners]
    return np.array(sorted(rows, key=tuple))


def box_piece() -> PieceFile:
    return PieceFile("box", Path("box"), VERTICES, None, FACES, None, None)


# -- PLY -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["ascii", "binary"])
def test_a_mesh_as_ply(tmp_path, encoding):
    trimesh.Trimesh(VERTICES, FACES, process=False).export(tmp_path / "box.ply", encoding=encoding)
    piece = one(tmp_path / "box.ply")
    np.testing.assert_array_equal(piece.points, VERTICES)
    np.testing.assert_array_equal(piece.faces, FACES)
    assert (piece.name, piece.path, piece.scene_index) == ("box", tmp_path / "box.ply", None)
    assert (piece.points.dtype, piece.faces.dtype) == (np.float64, np.int64)


def ply_bytes(order: str, rows: np.ndarray, faces: bytes = b"", tail: str = "") -> bytes:
    kinds = {"f4": "float", "f8": "double", "u1": "uchar"}
    names = [f"property {kinds[rows.dtype[name].str[1:]]} {name}" for name in rows.dtype.names]
    kind = {"<": "binary_little_endian", ">": "binary_big_endian"}[order]
    head = [
        "ply",
        f"format {kind} 1.0",
        "comment made by hand",
        f"element vertex {len(rows)}",
    ]
    return "\n".join([*head, *names, *filter(None, [tail]), "end_header", ""]).encode() + rows.tobytes() + faces


def colored_rows(order: str) -> np.ndarray:
    names = ["x", "y", "z", "nx", "ny", "nz", "red", "green", "blue"]
    rows = np.empty(50, dtype=[(name, f"{order}f4" if i < 6 else "u1") for i, name in enumerate(names)])
    for name, column in zip(names, [*POINTS.T, *NORMALS.T, *COLORS.T], strict=True):
        rows[name] = column
    return rows


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_cloud_with_normals_and_colors_as_binary_ply(tmp_path, order):
    (tmp_path / "cloud.ply").write_bytes(ply_bytes(order, colored_rows(order)))
    piece = one(tmp_path / "cloud.ply")
    np.testing.assert_array_equal(piece.points, EXACT)
    np.testing.assert_allclose(piece.normals, NORMALS, atol=1e-6)
    np.testing.assert_array_equal(piece.colors, COLORS)
    assert piece.faces is None


QUADS = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4]]  # five sides of the box


@pytest.mark.parametrize("binary", [False, True])
def test_polygons_of_several_sizes_become_triangles(tmp_path, binary):
    polygons = [*QUADS, [1, 5, 7], [1, 7, 3]]
    if binary:
        rows = np.array([tuple(v) for v in VERTICES], dtype=[(axis, "<f8") for axis in "xyz"])
        tail = f"element face {len(polygons)}\nproperty uchar mark\nproperty list uchar int vertex_index"
        body = b"".join(struct.pack(f"<BB{len(p)}i", 9, len(p), *p) for p in polygons)
        (tmp_path / "box.ply").write_bytes(ply_bytes("<", rows, body, tail=tail))
    else:
        write_ply(tmp_path / "box.ply", VERTICES, np.array([[0, 0, 0]] * len(polygons)))
        head = (tmp_path / "box.ply").read_text().split("\n3 0 0 0")[0]
        (tmp_path / "box.ply").write_text("\n".join([head, *(" ".join(map(str, [len(p), *p])) for p in polygons)]))
    piece = one(tmp_path / "box.ply")
    assert piece.faces.shape == (12, 3)
    surface = trimesh.Trimesh(piece.points, piece.faces, process=False)
    assert surface.is_watertight
    assert surface.volume == pytest.approx(1)


def test_normals_of_zero_are_not_known(tmp_path):
    write_ply(tmp_path / "cloud.ply", POINTS, normals=np.zeros_like(POINTS))
    assert one(tmp_path / "cloud.ply").normals is None


# -- other meshes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["obj", "stl", "off", "glb", "gltf"])
def test_meshes_of_another_writer(tmp_path, suffix):
    mesh = trimesh.Trimesh(VERTICES, FACES, process=False)
    if suffix == "gltf":
        for name, content in trimesh.exchange.gltf.export_gltf(trimesh.Scene(mesh)).items():
            (tmp_path / name.replace("model", "box")).write_bytes(content)
    else:
        mesh.export(tmp_path / f"box.{suffix}")
    (piece,) = read_pieces([tmp_path])
    np.testing.assert_allclose(soup(piece), soup(box_piece()), atol=1e-7)


def test_a_mesh_as_text_stl_and_colors_of_an_obj(tmp_path):
    (tmp_path / "a.stl").write_text(trimesh.exchange.stl.export_stl_ascii(trimesh.Trimesh(VERTICES, FACES)))
    np.testing.assert_allclose(soup(one(tmp_path / "a.stl")), soup(box_piece()), atol=1e-7)
    colored = trimesh.Trimesh(VERTICES, FACES, process=False, vertex_colors=COLORS[:8])
    colored.export(tmp_path / "a.obj")
    np.testing.assert_array_equal(one(tmp_path / "a.obj").colors, COLORS[:8])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_text_with_letters_of_old_and_new_encodings(tmp_path, encoding):
    """Names and comments of museums: bowls are not written in ASCII."""
    names = "# Gefäß\nmtllib Gefäß.mtl\no Gefäß\nusemtl Ton dunkelgrün\n"
    write_obj(tmp_path / "a.obj", VERTICES, FACES)
    trimesh.Trimesh(VERTICES, FACES, process=False).export(tmp_path / "b.off")
    stl = trimesh.exchange.stl.export_stl_ascii(trimesh.Trimesh(VERTICES, FACES))
    for name, text in {
        "a.obj": names + (tmp_path / "a.obj").read_text(),
        "b.off": (tmp_path / "b.off").read_text() + "# Gefäß\n",
        "c.stl": "solid Gefäß" + stl.partition("\n")[0].removeprefix("solid") + "\n" + stl.partition("\n")[2],
    }.items():
        (tmp_path / name).write_text(text, encoding=encoding)
        np.testing.assert_allclose(soup(one(tmp_path / name)), soup(box_piece()), atol=1e-7)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_materials_and_their_pictures_lie_beside_an_obj(tmp_path, encoding):
    Image.new("RGB", (2, 2), (200, 30, 10)).save(tmp_path / "Ton.png")
    (tmp_path / "a.mtl").write_text("newmtl dunkelgrün\nKd 1 1 1\nmap_Kd Ton.png\n", encoding=encoding)
    write_obj(tmp_path / "a.obj", VERTICES, FACES)
    vertices, faces = (tmp_path / "a.obj").read_text().split("f", 1)
    corners = re.sub(r"(\d+)", r"\1/\1", f"f{faces}")
    text = f"mtllib a.mtl\n{vertices}" + "vt 0.5 0.5\n" * 8 + f"usemtl dunkelgrün\n{corners}"
    (tmp_path / "a.obj").write_text(text, encoding=encoding)
    np.testing.assert_allclose(soup(one(tmp_path / "a.obj")), soup(box_piece()), atol=1e-7)
    material = load_mesh(tmp_path / "a.obj", materials=True).visual.material
    assert material.name == "dunkelgrün"
    assert material.image.getpixel((0, 0)) == (200, 30, 10)


def test_every_node_of_a_scene_is_a_piece_where_the_node_puts_it(tmp_path):
    scene, places = trimesh.Scene(), []
    mesh = trimesh.Trimesh(VERTICES, FACES, process=False)
    for i in range(3):
        place = np.eye(4)
        place[:3, :3] = Rotation.from_rotvec([0.3 * i, 1, 0]).as_matrix() * [1, 2, 3]
        place[:3, 3] = [i, 0, 5]
        places.append(place)
        scene.add_geometry(mesh, geom_name="stone", node_name=f"stone {i}", transform=place)
    scene.export(tmp_path / "stones.glb")
    pieces = read_pieces([tmp_path / "stones.glb"])
    assert [(piece.name, piece.scene_index) for piece in pieces] == [(f"stones_stone_{i}", i) for i in range(3)]
    for piece, place in zip(pieces, places, strict=True):
        moved = trimesh.Trimesh(VERTICES, FACES, process=False).apply_transform(place)
        expected = PieceFile("", Path(), np.asarray(moved.vertices), None, np.asarray(moved.faces), None, None)
        assert trimesh.Trimesh(piece.points, piece.faces).volume == pytest.approx(6, rel=1e-5)
        np.testing.assert_allclose(
            np.sort(soup(piece).reshape(-1, 3), axis=0), np.sort(soup(expected).reshape(-1, 3), axis=0), atol=1e-5
        )


def gltf(tmp_path: Path, primitives: list[dict], node: dict, **changes: object) -> Path:
    """A scene of one mesh: accessor 0 has a box's vertices, 1 a strip, 2 its triangles, 3 half of them."""
    chunks = [VERTICES.astype("<f4"), np.array([0, 1, 2, 3], "<u2"), FACES.astype("<u4"), FACES[:6].astype("<u1")]
    starts = np.cumsum([0, *(chunk.nbytes for chunk in chunks)]).tolist()
    (tmp_path / "my data.bin").write_bytes(b"".join(chunk.tobytes() for chunk in chunks))
    kinds = [5126, 5123, 5125, 5121]
    tree = {
        "asset": {"version": "2.0"},
        "nodes": [{"children": [1], "translation": [0, 0, 1]}, {"mesh": 0, **node}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, **primitive} for primitive in primitives]}],
        "accessors": [
            {"bufferView": i, "componentType": kind, "count": 8 if i == 0 else chunk.size, "type": "SCALAR"}
            for i, (kind, chunk) in enumerate(zip(kinds, chunks, strict=True))
        ],
        "bufferViews": [
            {"buffer": 0, "byteOffset": start, "byteLength": chunk.nbytes}
            for start, chunk in zip(starts, chunks, strict=False)
        ],
        "buffers": [{"uri": "my%20data.bin", "byteLength": starts[-1]}],
        **changes,
    }
    tree["accessors"][0]["type"] = "VEC3"
    (tmp_path / "scene.gltf").write_text(json.dumps(tree))
    return tmp_path / "scene.gltf"


def test_primitives_of_one_mesh_are_one_piece(tmp_path):
    piece = one(gltf(tmp_path, [{"indices": 2}, {"indices": 3}, {"mode": 1}, {"mode": 0}], {}))
    assert (len(piece.points), len(piece.faces)) == (16, 18)
    np.testing.assert_array_equal(piece.points[8:], np.add(VERTICES, [0, 0, 1]))
    np.testing.assert_array_equal(piece.faces, np.concatenate([FACES, FACES[:6] + 8]))


def test_a_mirror_turns_triangles_around(tmp_path):
    piece = one(gltf(tmp_path, [{"indices": 2}], {"scale": [-1, 1, 1]}))
    assert trimesh.Trimesh(piece.points, piece.faces, process=False).volume == pytest.approx(1)


def test_strips_fans_and_points(tmp_path):
    strip = one(gltf(tmp_path, [{"indices": 1, "mode": 5}], {}))
    assert strip.faces.tolist() == [[0, 1, 2], [2, 1, 3]]
    fan = one(gltf(tmp_path, [{"indices": 1, "mode": 6}], {}))
    assert fan.faces.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert one(gltf(tmp_path, [{"mode": 0}], {})).faces is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"extensionsRequired": ["KHR_draco_mesh_compression"]}, "without compression"),
        ({"accessors": [{"componentType": 5126, "count": 10**12, "type": "VEC3"}]}, "sparse or compressed"),
        (
            {"accessors": [{"bufferView": 0, "componentType": 5126, "count": 10**12, "type": "VEC3"}]},
            "promises 1000000000000 rows",
        ),
        ({"buffers": [{"uri": "my%20data.bin", "byteLength": 10**12}]}, "promises a buffer"),
        ({"buffers": [{"uri": "../secret.bin", "byteLength": 1}]}, "outside its folder"),
        ({"buffers": [{"uri": "gone.bin", "byteLength": 1}]}, "not there"),
        ({"nodes": [{"children": [0]}], "scenes": [{"nodes": [0]}]}, "two parents"),
        ({"nodes": [{"name": "empty"}]}, "no mesh"),
    ],
)
def test_a_damaged_scene_is_refused(tmp_path, changes, message):
    with pytest.raises(InputError, match=rf"scene\.gltf.*{message}"):
        read_pieces([gltf(tmp_path, [{}], {}, **changes)])


# -- clouds --------------------------------------------------------------------------------------------------


def packed(stream: bytes) -> bytes:
    """LZF by the book: runs as they are, except that runs of one byte are repetitions, short ones and long ones."""
    out, at = b"", 0
    while at < len(stream):
        same = 1
        while at + same < len(stream) and stream[at + same] == stream[at] and same < 250:
            same += 1
        if same >= 4:  # one byte as it is, then a copy that overlaps what it makes
            length = same - 3
            control = bytes([length << 5]) if length < 7 else bytes([7 << 5, length - 7])
            out += bytes([0, stream[at]]) + control + b"\0"
        else:
            out += bytes([same - 1]) + stream[at : at + same]
        at += same
    return out


def pcd(kind: str, points: np.ndarray = POINTS, height: int = 1, **changes: object) -> bytes:
    count = len(points)
    row = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("pad", "u1", 4), ("rgb", "<u4"), ("n", "<f4", 3)])
    table = np.zeros(count, dtype=row)
    for name, column in zip("xyz", points.T, strict=True):
        table[name] = column
    table["n"] = NORMALS[:count]
    r, g, b = COLORS[:count].astype(np.uint32).T
    table["rgb"] = r << 16 | g << 8 | b
    head = {
        "VERSION": "0.7", "FIELDS": "x y z _ rgb normal_x normal_y normal_z", "SIZE": "4 4 4 1 4 4 4 4",
        "TYPE": "F F F U U F F F", "COUNT": "1 1 1 4 1 1 1 1", "WIDTH": count // height, "HEIGHT": height,
        "VIEWPOINT": "0 0 0 1 0 0 0", "POINTS": count, "DATA": kind,
    }  # fmt: skip
    text = "".join(f"{key} {value}\n" for key, value in {**head, **changes}.items() if value is not None)
    rows = [" ".join(map(str, [*p[:3], *[0] * 4, p[4], *p[5]])) for p in table.tolist()]
    fields = b"".join(np.ascontiguousarray(table[name]).tobytes() for name in ("x", "y", "z", "pad", "rgb"))
    fields += np.ascontiguousarray(table["n"].T).tobytes()
    body = {
        "ascii": "\n".join(rows).encode(),
        "binary": table.tobytes(),
        "binary_compressed": struct.pack("<II", len(packed(fields)), len(fields)) + packed(fields),
    }[kind]
    return b"# .PCD\n" + text.encode() + body


@pytest.mark.parametrize("kind", ["ascii", "binary", "binary_compressed"])
def test_pcd(tmp_path, kind):
    (tmp_path / "cloud.pcd").write_bytes(pcd(kind))
    piece = one(tmp_path / "cloud.pcd")
    np.testing.assert_array_equal(piece.points, EXACT)
    np.testing.assert_allclose(piece.normals, NORMALS, atol=1e-6)
    np.testing.assert_array_equal(piece.colors, COLORS)


def test_what_an_organised_pcd_did_not_see_is_left_out(tmp_path):
    points = POINTS.copy()
    points[3] = np.nan
    (tmp_path / "a.pcd").write_bytes(pcd("binary", points, height=5))
    np.testing.assert_array_equal(one(tmp_path / "a.pcd").points, np.delete(EXACT, 3, axis=0))
    (tmp_path / "a.pcd").write_bytes(pcd("binary", points))
    with pytest.raises(InputError, match="1 of 50 points have NaN"):
        read_pieces([tmp_path / "a.pcd"])


def table(columns: np.ndarray, separator: str = " ", comma: bool = False) -> str:
    text = "\n".join(separator.join(map(repr, row)) for row in columns.tolist()) + "\n"
    return text.replace(".", ",") if comma else text


BOTH = np.hstack([POINTS, NORMALS])


@pytest.mark.parametrize(
    ("name", "text", "has_normals"),
    [
        ("a.xyz", table(POINTS), False),
        ("a.xyz", "50\n" + table(POINTS, "\t"), False),
        ("a.txt", "# a comment\n\nx y z nx ny nz\n" + table(BOTH), True),
        ("a.csv", "x,y,z\n" + table(POINTS, ","), False),
        ("a.csv", "\ufeffx; y; z; nx; ny; nz\n" + table(BOTH, "; "), True),
        ("a.csv", table(BOTH, ";", comma=True), True),
        ("a.CSV", table(np.hstack([BOTH, NORMALS]), ", "), False),
        ("a.xyz", table(np.hstack([POINTS, POINTS[:, :1]])), False),
    ],
)
def test_text(tmp_path, name, text, has_normals):
    (tmp_path / name).write_text(text, encoding="utf-8")
    piece = one(tmp_path / name)
    np.testing.assert_array_equal(piece.points, POINTS)
    assert piece.colors is None
    assert (piece.normals is not None) == has_normals
    if has_normals:
        np.testing.assert_allclose(piece.normals, NORMALS, atol=1e-12)


def test_three_more_columns_of_bytes_are_colors(tmp_path):
    np.savetxt(tmp_path / "a.xyz", np.hstack([POINTS, COLORS]))
    piece = one(tmp_path / "a.xyz")
    np.testing.assert_array_equal(piece.colors, COLORS)
    assert piece.normals is None


@pytest.mark.parametrize("key", ["points", "vertices", "xyz"])
def test_numpy_files(tmp_path, key):
    np.save(tmp_path / "a.npy", BOTH)
    np.savez_compressed(tmp_path / "b.npz", **{key: POINTS.astype(np.float32)}, normals=2 * NORMALS, colors=COLORS)
    a, b = read_pieces([tmp_path])
    np.testing.assert_array_equal(a.points, POINTS)
    np.testing.assert_array_equal(b.points, EXACT)
    for piece in (a, b):
        np.testing.assert_allclose(piece.normals, NORMALS, atol=1e-12)
    np.testing.assert_array_equal(b.colors, COLORS)


# -- scans ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["las", "laz"])
def test_las(tmp_path, suffix):
    laspy = pytest.importorskip("laspy")
    header = laspy.LasHeader(point_format=2)
    header.scales, header.offsets = [1e-4] * 3, [4e5, 5e6, 0]
    las = laspy.LasData(header)
    las.x, las.y, las.z = np.add(POINTS, [4e5, 5e6, 0]).T
    las.red, las.green, las.blue = COLORS.T.astype(np.uint16) * 257
    las.write(tmp_path / f"a.{suffix}")
    piece = one(tmp_path / f"a.{suffix}")
    np.testing.assert_allclose(piece.points, np.add(POINTS, [4e5, 5e6, 0]), atol=1e-4)
    np.testing.assert_array_equal(piece.colors, COLORS)
    content = (tmp_path / f"a.{suffix}").read_bytes()
    for damaged in (
        content[:-40],
        content[:100],
        *(content[:at] + b"\xff" * 4 + content[at + 4 :] for at in (100, 107)),
    ):
        (tmp_path / f"a.{suffix}").write_bytes(damaged)
        with pytest.raises(InputError, match=rf"a\.{suffix}"):
            read_pieces([tmp_path])


def test_every_scan_of_an_e57_is_a_piece(tmp_path):
    pye57 = pytest.importorskip("pye57")
    file = pye57.E57(str(tmp_path / "scans.e57"), mode="w")
    for i in range(2):
        columns = {f"cartesian{axis}": POINTS[:, j].copy() for j, axis in enumerate("XYZ")}
        file.write_scan_raw(columns, translation=np.array([i, 2.0, 3.0]))
    file.close()
    pieces = read_pieces([tmp_path])
    assert [piece.name for piece in pieces] == ["scans_0", "scans_1"]
    for i, piece in enumerate(pieces):
        np.testing.assert_allclose(piece.points, np.add(POINTS, [i, 2, 3]), atol=1e-6)
    content = (tmp_path / "scans.e57").read_bytes()
    (tmp_path / "scans.e57").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"scans\.e57"):
        read_pieces([tmp_path])


@pytest.mark.parametrize("suffix", ["las", "laz", "e57"])
def test_a_missing_extra_is_named(tmp_path, monkeypatch, suffix):
    def refuse(name, *_):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    (tmp_path / f"a.{suffix}").write_bytes(b"LASF")
    with pytest.raises(InputError, match=rf"a\.{suffix}.*pip install 'eda-assembly\[scan\]'"):
        read_pieces([tmp_path])


# -- which files ---------------------------------------------------------------------------------------------


def test_a_folder_in_the_order_people_count(tmp_path):
    for name in ("piece_10.xyz", "piece_2.npy", "Piece_1.obj", "größe 3 é.ply"):
        path = tmp_path / name
        {
            ".xyz": lambda path: np.savetxt(path, POINTS),
            ".npy": lambda path: np.save(path, POINTS),
            ".obj": lambda path: write_obj(path, VERTICES, FACES),
            ".ply": lambda path: write_ply(path, VERTICES, FACES),
        }[path.suffix](path)
    for name in (".hidden.ply", "box.mtl", "box.png", "truth.json", "notes"):
        (tmp_path / name).write_bytes(b"not a piece")
    (tmp_path / "README.txt").write_text("Scanned by hand.\nPlease cite.\n")
    (tmp_path / "folder.ply").mkdir()
    assert [piece.name for piece in read_pieces([tmp_path])] == ["größe 3 é", "Piece_1", "piece_2", "piece_10"]


def test_paths_keep_their_order_and_names_are_distinct(tmp_path):
    for name in ("b.npy", "a.npy"):
        np.save(tmp_path / name, POINTS)
    np.savetxt(tmp_path / "a.xyz", POINTS)
    np.savetxt(tmp_path / "a_2.xyz", POINTS)
    (tmp_path / "a.mtl").write_text("newmtl grey")
    paths = [tmp_path / name for name in ("b.npy", "a.npy", "a.xyz", "a_2.xyz", "a.mtl")]
    assert [piece.name for piece in read_pieces(paths)] == ["b", "a", "a_3", "a_2"]
    assert len(read_pieces([str(tmp_path), tmp_path / "b.npy"])) == 5


def test_what_is_no_piece_is_named(tmp_path):
    (tmp_path / "a.docx").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe.ply")
    for path, message in {
        tmp_path: "no pieces in this folder.*\\.ply.*\\.e57",
        tmp_path / "a.docx": r"a\.docx: unknown ending '\.docx'; pieces may be \.ply, \.obj",
        tmp_path / "gone.ply": r"gone\.ply: not there",
        tmp_path / "pipe.ply": "neither a file nor a folder",
        tmp_path / ("n" * 300 + ".ply"): "n.ply: expected a file",
        tmp_path / "a.docx" / "b.ply": r"b\.ply: not there",
    }.items():
        with pytest.raises(InputError, match=message):
            read_pieces([path])
    with pytest.raises(InputError, match="no pieces: give files"):
        read_pieces([])


@pytest.mark.parametrize("depth", [1, 2])
def test_a_folder_of_folders_says_which_of_them_to_give(tmp_path, depth):
    for name in ("pot 10", "pot 2", "notes"):
        inner = tmp_path / name / "sherds" if depth == 2 else tmp_path / name
        inner.mkdir(parents=True)
        if name != "notes":
            write_ply(inner / "a.ply", POINTS)
    expected = tmp_path / "pot 2" / "sherds" if depth == 2 else tmp_path / "pot 2"
    with pytest.raises(InputError) as caught:
        read_pieces([tmp_path])
    assert f"{tmp_path}: no pieces in this folder; " in str(caught.value)
    assert f"but {expected} has some: give that one" in str(caught.value)


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    write_ply(tmp_path / "a.ply", POINTS)
    original = builtins.open

    def refuse(file, *args, **options):
        if str(file).endswith("a.ply"):
            raise PermissionError(13, "Permission denied")
        return original(file, *args, **options)

    monkeypatch.setattr(builtins, "open", refuse)
    with pytest.raises(InputError, match=r"a\.ply.*Permission denied"):
        read_pieces([tmp_path])
