"""Small files that ask for much, and scans that bring their reader down: refused with the bound that they break."""

import io
import json
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import trimesh
from support.single_piece_files import FACES, POINTS, VERTICES, one

from eda.data.fracture import open_meshes
from eda.data.piece_files import laser_scans, read_pieces, scan_process
from eda.data.piece_files.polygons import split_into_triangles
from eda.data.piece_files.trimesh_formats import load_mesh
from eda.data.reading import LONGEST_LINE, reading
from eda.errors import InputError

# -- scenes ------------------------------------------------------------------------------------------------


def glb(num_points: int, num_nodes: int, num_primitives: int, num_buffers: int = 1) -> bytes:
    """Nodes on one mesh of primitives on one accessor."""
    points = np.random.default_rng(0).normal(size=(num_points, 3)).astype("<f4").tobytes()
    tree = {
        "buffers": [{"byteLength": len(points)}] * num_buffers,
        "bufferViews": [{"buffer": 0, "byteLength": len(points)}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": num_points, "type": "VEC3"}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}] * num_primitives}],
        "nodes": [{"mesh": 0}] * num_nodes,
        "scenes": [{"nodes": list(range(num_nodes))}],
    }
    text = json.dumps(tree).encode()
    text += b" " * (-len(text) % 4)
    body = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(points), b"BIN\0") + points
    return struct.pack("<4sII", b"glTF", 2, 12 + len(body)) + body


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (glb(3000, 5000, 1), "may hold 1000 pieces"),
        (glb(30, 1, 20_000), "may have 2000 parts"),
        (glb(30_000, 1, 1500), "more than 10000000 numbers"),
        (glb(30_000, 900, 1), "more than 10000000 numbers"),
    ],
)
def test_a_scene_that_uses_its_mesh_again_and_again(tmp_path, content, message):
    (tmp_path / "a.glb").write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=rf"a\.glb: .*{message}"):
            read_pieces([tmp_path])
        assert tracemalloc.get_traced_memory()[1] < 1e9
    finally:
        tracemalloc.stop()


def test_a_scene_may_use_its_mesh_often(tmp_path):
    (tmp_path / "a.glb").write_bytes(glb(30, 100, 10))
    assert [len(piece.points) for piece in read_pieces([tmp_path])] == [300] * 100


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"a":' * 100_000])
def test_a_deep_tree(tmp_path, content):
    (tmp_path / "a.gltf").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.gltf"):
        read_pieces([tmp_path])


# -- faces, lines, materials -------------------------------------------------------------------------------


def ply_of_one_face(num_corners: int) -> bytes:
    head = "ply\nformat binary_little_endian 1.0\nelement vertex 8\nproperty float x\nproperty float y\n"
    head += "property float z\nelement face 1\nproperty list uint int vertex_indices\nend_header\n"
    corners = np.arange(num_corners, dtype="<i4") % 8
    return head.encode() + VERTICES.astype("<f4").tobytes() + struct.pack("<I", num_corners) + corners.tobytes()


def test_a_face_of_too_many_corners(tmp_path):
    (tmp_path / "a.ply").write_bytes(ply_of_one_face(10**7))
    with pytest.raises(InputError, match=r"a\.ply.*a face of 10000000 corners, and a face may have 65536"):
        read_pieces([tmp_path])
    (tmp_path / "a.ply").write_bytes(ply_of_one_face(65_536))
    assert len(one(tmp_path / "a.ply").faces) == 65_534


def test_polygons_are_split_around_their_first_corners():
    """In the order of a loop over the corners, then over the polygons."""
    groups = [np.array([[0, 1, 2]]), np.array([[3, 4, 5, 6], [7, 8, 9, 10]]), np.array([[1, 2]])]
    slow = [c[[0, i, i + 1]] for group in groups for i in range(1, group.shape[1] - 1) for c in group]
    np.testing.assert_array_equal(split_into_triangles(groups), slow)


LONG = b"1 2 3 " * (LONGEST_LINE // 6 + 1)
PLY = b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.xyz", LONG),
        ("a.csv", LONG.replace(b" ", b",")),
        ("b.xyz", b"1 2 3\n" * 9 + LONG),
        ("a.ply", PLY + LONG),
        ("a.off", b"OFF\n1 0 0\n" + LONG),
        ("a.obj", b"v 0 0 0\nf " + LONG),
        ("b.obj", b"v 0 0 0\nf " + b"1 2 3 \\\n" * (LONGEST_LINE // 6 + 1)),
        ("a.stl", b"solid a\n" + LONG),
        ("a.pcd", b"FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 1\nHEIGHT 1\nPOINTS 1\nDATA ascii\n" + LONG),
    ],
)
def test_a_line_that_does_not_end(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}.*a line may have {LONGEST_LINE}"):
        read_pieces([tmp_path / name])


def test_a_mesh_of_too_many_materials(tmp_path):
    lines = ["v 0 0 0", "v 1 0 0", "v 0 1 0", "v 0 0 1", *(f"usemtl m{i}\nf 1 2 3\nf 2 3 4" for i in range(1001))]
    (tmp_path / "a.obj").write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"a\.obj.*1001 materials, and a mesh may have 1000"):
        read_pieces([tmp_path])


# -- what trimesh does not expect --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [b"format", b"format ascii1.0", b"formax ascii 1.0", b"format ascii\0 1.0", b"\xff\xfe", b"format \xffascii", b""],
)
def test_a_damaged_format_line(tmp_path, line):
    trimesh.Trimesh(VERTICES, FACES, process=False).export(tmp_path / "a.ply", encoding="ascii")
    content = (tmp_path / "a.ply").read_bytes()
    (tmp_path / "a.ply").write_bytes(content.replace(b"format ascii 1.0", line))
    for read in (lambda: read_pieces([tmp_path]), lambda: open_meshes(tmp_path).solid(0)):
        with pytest.raises(InputError, match=r"a\.ply"):
            read()


def test_whatever_trimesh_raises_names_the_file(tmp_path, monkeypatch):
    def confused(*_, **__):
        raise NameError("name 'order' is not defined")

    (tmp_path / "a.ply").write_bytes(PLY + b"1 2 3\n")
    monkeypatch.setattr(trimesh, "load", confused)
    with pytest.raises(InputError, match=r"a\.ply"), reading(tmp_path / "a.ply", "a mesh"):
        load_mesh(tmp_path / "a.ply", materials=True)


# -- scans -------------------------------------------------------------------------------------------------


def las_of(count: int, suffix: str) -> bytes:
    laspy = pytest.importorskip("laspy")
    points = np.random.default_rng(0).normal(size=(count, 3))
    header = laspy.LasHeader(point_format=2, version="1.2")
    header.offsets, header.scales = points.min(axis=0), np.full(3, 1e-4)
    las = laspy.LasData(header)
    las.x, las.y, las.z = points.T
    las.red = las.green = las.blue = np.arange(count) % 65536
    las.write(file := io.BytesIO(), do_compress=suffix == "laz")
    return file.getvalue()


@pytest.mark.parametrize("suffix", ["las", "laz"])
def test_a_scan_is_what_its_library_reads_here(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(las_of(5000, suffix))
    ((points, colors),) = scan_process.read_las(path)
    (scan,) = laser_scans.read_las(path)
    assert scan.points.tobytes() == points.tobytes()
    assert scan.colors.tobytes() == colors.tobytes()
    assert scan.points.dtype == points.dtype
    assert scan.colors.dtype == colors.dtype


def test_a_scan_that_brings_its_reader_down_is_refused(tmp_path):
    """The number of points is doubled, and what is packed overwritten: lazrs panics, or asks for all memory."""
    content = bytearray(las_of(60, "laz"))
    struct.pack_into("<I", content, 107, 2**32 - 1)
    refused = 0
    for at in range(len(content) - 100, len(content), 25):
        damaged = bytearray(content)
        damaged[at : at + 8] = b"\xff" * 8
        (tmp_path / "a.laz").write_bytes(damaged)
        with pytest.raises(InputError, match=r"a\.laz"):
            read_pieces([tmp_path])
        refused += 1
    assert refused == 4


def test_the_end_of_the_process_is_an_input_error(tmp_path, monkeypatch):
    (tmp_path / "a.laz").write_bytes(las_of(60, "laz"))
    script = tmp_path / "killed.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.setattr(scan_process, "__file__", str(script))
    with pytest.raises(InputError, match=r"a\.laz: expected a LAS or LAZ scan, but its reader failed"):
        read_pieces([tmp_path / "a.laz"])
    script.write_text("import time\ntime.sleep(60)")
    monkeypatch.setattr(laser_scans, "_PATIENCE", 0.02)
    with pytest.raises(InputError, match=r"a\.laz: reading it takes more than"):
        read_pieces([tmp_path / "a.laz"])


def test_the_process_has_limits(tmp_path, monkeypatch):
    (tmp_path / "a.laz").write_bytes(las_of(60, "laz"))
    monkeypatch.setattr(laser_scans, "_MEMORY", 10**7)
    with pytest.raises(InputError, match="with at most 0 GB of memory"):
        read_pieces([tmp_path])


def test_the_process_starts_without_torch_and_without_what_lies_around(tmp_path, monkeypatch):
    (tmp_path / "a.las").write_bytes(las_of(60, "las"))
    (tmp_path / "numpy.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert len(one(Path("a.las")).points) == 60
    show = "import runpy, sys; runpy.run_path(sys.argv.pop(1)); print('torch' in sys.modules, 'eda' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", show, scan_process.__file__], cwd="/", capture_output=True, text=True)
    assert ran.stdout.split() == ["False", "False"]


def test_points_are_kept(tmp_path):
    """The bounds are far above what people have."""
    (tmp_path / "a.xyz").write_text("\n".join(" ".join(map(repr, row)) for row in POINTS.tolist()))
    np.testing.assert_array_equal(one(tmp_path / "a.xyz").points, POINTS)
