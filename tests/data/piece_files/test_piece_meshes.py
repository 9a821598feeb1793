"""Files of meshes and scenes: every format against another writer or bytes made by hand."""

import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image
from scipy.spatial.transform import Rotation
from support.dataset_files import write_obj, write_ply
from support.single_piece_files import COLORS, EXACT, FACES, NORMALS, POINTS, VERTICES, one

from eda.data.piece_files import PieceFile, read_pieces
from eda.data.piece_files.trimesh_formats import load_mesh
from eda.errors import InputError


def soup(piece: PieceFile) -> np.ndarray:
    """The triangles as (f, 9), each from its least corner on, sorted: what a mesh is, however it is indexed."""
    corners = piece.points[piece.faces]
    rows = [np.concatenate(np.roll(t, -min(range(3), key=lambda i: tuple(t[i])), axis=0)) for t in corners]
    return np.array(sorted(rows, key=tuple))


def box_piece() -> PieceFile:
    return PieceFile("box", Path("box"), VERTICES, None, FACES, None, None)


# -- PLY ---------------------------------------------------------------------------------------------------


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


# -- other meshes ------------------------------------------------------------------------------------------


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


# -- scenes ------------------------------------------------------------------------------------------------


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
