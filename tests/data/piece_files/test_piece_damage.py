"""Files of pieces that are damaged, lie about their size, or hold no usable piece; and drawing from good ones."""

import re
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation
from support.dataset_files import real_data, row_of_boxes, write_ply
from support.lumpy_shapes import lumpy_cloud
from support.single_piece_files import FACES, POINTS, VERTICES

from eda.data.piece_files import PieceFile, read_pieces, sample_piece
from eda.errors import InputError


def piece_of(points: np.ndarray, normals: np.ndarray | None = None, faces: np.ndarray | None = None) -> PieceFile:
    return PieceFile("piece", Path("piece"), points, normals, faces, None, None)


def binary_pcd(count: int) -> bytes:
    lines = ["FIELDS x y z", "SIZE 4 4 4", "TYPE F F F", f"WIDTH {count}", "HEIGHT 1", f"POINTS {count}", "DATA binary"]
    return "\n".join([*lines, ""]).encode() + POINTS.astype("<f4").tobytes()


@pytest.fixture
def sound(tmp_path) -> dict[str, bytes]:
    """A good file of every format that can be cut in two and then be seen to be incomplete, by its ending."""
    mesh = trimesh.Trimesh(VERTICES, FACES, process=False)
    for suffix in ("ply", "stl", "off", "glb"):
        mesh.export(tmp_path / f"good.{suffix}")
    write_ply(tmp_path / "text.ply", VERTICES, FACES)
    np.save(tmp_path / "good.npy", POINTS)
    np.savez(tmp_path / "good.npz", points=POINTS)
    (tmp_path / "good.pcd").write_bytes(binary_pcd(50))
    contents = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for path in tmp_path.iterdir():
        path.unlink()
    return contents


SOUND = ["good.ply", "text.ply", "good.stl", "good.off", "good.glb", "good.npy", "good.npz", "good.pcd"]


@pytest.mark.parametrize("share", [0.02, 0.4, 0.7, 0.95])
@pytest.mark.parametrize("name", SOUND)
def test_a_file_that_ends_too_early_is_named(tmp_path, sound, name, share):
    (tmp_path / name).write_bytes(sound[name])
    assert len(read_pieces([tmp_path])) == 1
    (tmp_path / name).write_bytes(sound[name][: int(share * len(sound[name]))])
    with pytest.raises(InputError, match=name):
        read_pieces([tmp_path / name])


@pytest.mark.parametrize(
    "content", [b"", b"\n", bytes(range(256)) * 40, b"\xff\xfe\x00 1 2 3\n" * 9, b"hello world\n" * 9]
)
@pytest.mark.parametrize(
    "suffix", ["ply", "obj", "stl", "off", "glb", "gltf", "pcd", "xyz", "txt", "csv", "npy", "npz"]
)
def test_what_is_something_else_is_named(tmp_path, suffix, content):
    (tmp_path / f"bad.{suffix}").write_bytes(content)
    with pytest.raises(InputError, match=rf"bad\.{suffix}"):
        read_pieces([tmp_path / f"bad.{suffix}"])


# What only somebody who knows the insides of Python and its libraries understands.
JARGON = re.compile(r"Error|codec|pickle|magic|float64|column|charset|ndarray|shape|module|b'")


@pytest.mark.parametrize(
    "content", [bytes(range(256)) * 20, bytes(400), b"hello world\n" * 9, b"PK\3\4" * 99, b"OFF\n"]
)
@pytest.mark.parametrize("suffix", ["ply", "obj", "stl", "off", "glb", "gltf", "pcd", "xyz", "npy", "npz"])
def test_what_is_wrong_is_said_in_words_with_what_to_do(tmp_path, suffix, content):
    (tmp_path / f"bad.{suffix}").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_pieces([tmp_path / f"bad.{suffix}"])
    said = str(caught.value).removeprefix(f"{tmp_path / f'bad.{suffix}'}: ")
    assert not JARGON.search(said), said
    assert re.search(r"look (at|whether)|write", said), said


def test_the_line_that_is_no_row_is_named(tmp_path):
    rows = ["# x y z", "50", "1 2 3", "4 5 6 # good", "", "7 8 oops", "9 9 9"]
    (tmp_path / "a.xyz").write_text("\n".join(rows))
    with pytest.raises(InputError, match=r"a\.xyz: expected rows .*not so line 6: '7 8 oops'.*write or copy"):
        read_pieces([tmp_path])


@pytest.mark.parametrize(
    ("count", "size", "message"),
    [
        (2**32 - 1, 50, "promises 4294967295 triangles.*but holds 50; it is incomplete or damaged"),
        (2, 99, "promises 2 triangles, which need 100 bytes, but holds 99"),
        (1, 99, "99 bytes follow where its 1 triangles need 50"),
    ],
)
def test_a_binary_stl_is_as_long_as_its_header_says(tmp_path, count, size, message):
    (tmp_path / "a.stl").write_bytes(b"solid \0".ljust(80, b" ") + struct.pack("<I", count) + bytes(size))
    with pytest.raises(InputError, match=rf"a\.stl: .*{message}"):
        read_pieces([tmp_path])


def huge_files() -> dict[str, bytes]:
    """Headers that promise far more than follows."""
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 3), }"
    ply = "ply\nformat %s 1.0\nelement vertex %d\nproperty float x\nproperty float y\nproperty float z\n%send_header\n"
    faces = "element face %d\nproperty list %s int vertex_indices\n"
    rows = POINTS.astype("<f4").tobytes()
    chunk = struct.pack("<4sII", b"glTF", 2, 2**32 - 1) + struct.pack("<II", 2**32 - 1, 0x4E4F534A) + b"{}"
    return {
        "binary.ply": (ply % ("binary_little_endian", 999999999999, "")).encode() + rows,
        "negative.ply": (ply % ("binary_little_endian", -5, "")).encode() + rows,
        "text.ply": (ply % ("ascii", 999999999999, "")).encode() + b"0 0 0\n1 0 0\n",
        "faces.ply": (ply % ("binary_little_endian", 50, faces % (10**12, "uchar"))).encode() + rows + b"\3" * 13,
        "list.ply": (ply % ("binary_little_endian", 50, faces % (1, "uint"))).encode() + rows + b"\xff" * 30,
        "minus.ply": (ply % ("binary_little_endian", 50, faces % (1, "char"))).encode() + rows + b"\xff" * 30,
        "binary.pcd": binary_pcd(10**12),
        "text.pcd": binary_pcd(10**12).replace(b"DATA binary", b"DATA ascii"),
        "small.pcd": binary_pcd(10**12).replace(b"binary", b"binary_compressed"),
        "a.npy": b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + rows,
        "a.stl": b"\0" * 80 + struct.pack("<I", 2**32 - 1) + b"\0" * 50,
        "a.off": b"OFF\n999999999999 1 0\n0 0 0\n1 0 0\n",
        "a.glb": chunk,
    }


@pytest.mark.parametrize("name", huge_files())
def test_promises_are_not_believed(tmp_path, name):
    (tmp_path / name).write_bytes(huge_files()[name])
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=name):
            read_pieces([tmp_path])
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_an_archive_that_unpacks_to_far_more_than_it_holds_is_not_unpacked(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", points=np.zeros((1000, 3)), more=np.zeros(10**6))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    at = content.rindex(b"PK\1\2")  # what the directory says of the last array
    content[at + 24 : at + 28] = struct.pack("<I", 2**32 - 2)
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.npz: it would unpack to 4 GB"):
        read_pieces([tmp_path])


def test_compressed_data_that_refer_to_nothing(tmp_path):
    head = binary_pcd(50).split(b"DATA")[0] + b"DATA binary_compressed\n"
    (tmp_path / "a.pcd").write_bytes(head + struct.pack("<II", 60, 600) + b"\x20\xff" * 30)
    with pytest.raises(InputError, match=r"a\.pcd.*before their beginning"):
        read_pieces([tmp_path])


def test_pickles_are_not_opened(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "b.npz", points=np.array([{}], dtype=object))
    np.savez(tmp_path / "c.npz", other=POINTS)
    for name, message in {
        "a.npy": "",
        "b.npz": "expected an .npz file of numbers",
        "c.npz": "none of points.*other",
    }.items():
        with pytest.raises(InputError, match=f"{name}.*{message}"):
            read_pieces([tmp_path / name])


LINE = np.linspace(0, 1, 30)[:, None] * [1.0, 2.0, -3.0]


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (POINTS[:3], "3 points; at least 4"),
        (np.ones((20, 3)), "coincide"),
        (np.full((20, 3), 1e7 / 3), "coincide"),
        (LINE, "one line"),
        (LINE.astype(np.float32) + np.float32(1), "one line"),
        (np.where(np.arange(150).reshape(50, 3) == 7, np.nan, POINTS), "1 of 50 points have NaN or infinite"),
        (np.where(np.arange(150).reshape(50, 3) < 6, -np.inf, POINTS), "2 of 50 points have NaN or infinite"),
        (POINTS * 1e200, "coordinates as large as"),
        (POINTS[:, :2], r"\(n, 3\)"),
        (POINTS.astype(complex), "complex"),
        (POINTS[None], r"\(n, 3\)"),
        (POINTS[:0], r"\(n, 3\)|a\.npy"),
    ],
)
def test_what_cannot_be_a_piece_is_refused(tmp_path, points, message):
    np.save(tmp_path / "a.npy", points)
    with pytest.raises(InputError, match=rf"a\.npy.*({message})"):
        read_pieces([tmp_path])


def test_a_flat_piece_and_a_remote_one_are_allowed(tmp_path):
    np.save(tmp_path / "flat.npy", POINTS * [1, 1, 0])
    np.save(tmp_path / "remote.npy", 1e-3 * POINTS + [4e5, 5e6, 100])
    np.save(tmp_path / "tiny.npy", 1e-30 * POINTS)
    assert len(read_pieces([tmp_path])) == 3


def test_faces_without_area_or_without_vertices(tmp_path):
    write_ply(tmp_path / "a.ply", POINTS, np.array([[0, 1, 1], [2, 2, 2]]))
    with pytest.raises(InputError, match=r"a\.ply: its triangles have no area"):
        read_pieces([tmp_path])
    write_ply(tmp_path / "a.ply", POINTS, np.array([[0, 1, 50]]))
    with pytest.raises(InputError, match=r"a\.ply: its faces name vertices 0 to 50 of 50"):
        read_pieces([tmp_path])


# -- drawing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inside_out", [False, True])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_closed_mesh_gives_even_points_with_outward_normals(inside_out, scale):
    faces = FACES[:, ::-1] if inside_out else FACES
    place = scale * np.array([10, 20, 30])
    drawn = sample_piece(piece_of(scale * VERTICES + place, faces=faces), 500, np.random.default_rng(0))
    assert drawn.oriented
    assert len(drawn.points) == 4000
    offset = (drawn.points - place) / scale - 0.5
    side = np.abs(offset).argmax(axis=1)
    np.testing.assert_allclose(np.abs(offset).max(axis=1), 0.5, atol=1e-6)
    expected = np.sign(offset[np.arange(4000), side])[:, None] * np.eye(3)[side]
    np.testing.assert_allclose(drawn.normals, expected, atol=1e-9)
    counts = np.bincount(2 * side + (expected.sum(axis=1) > 0), minlength=6)
    assert np.abs(counts - 4000 / 6).max() < 5 * np.sqrt(4000 / 6)  # the six sides are as large as each other


def test_a_mesh_of_loose_triangles_is_closed_and_one_with_a_hole_is_not():
    corners = VERTICES[FACES].reshape(-1, 3)
    loose = np.arange(36).reshape(-1, 3)
    assert sample_piece(piece_of(corners, faces=loose), 10, np.random.default_rng(0)).oriented
    assert not sample_piece(piece_of(corners, faces=loose[1:]), 10, np.random.default_rng(0)).oriented


def test_no_point_is_drawn_from_inner_walls_and_the_mesh_stays_as_it_was_given():
    vertices, faces = row_of_boxes([1.0, 0.5, 1.0], [0, 1, 2])
    piece = piece_of(vertices, faces=faces)
    drawn = sample_piece(piece, 500, np.random.default_rng(0))
    assert drawn.oriented
    away = np.abs(drawn.points - [1.25, 0.5, 0.5]) / [1.25, 0.5, 0.5]
    np.testing.assert_allclose(away.max(axis=1), 1, atol=1e-9)
    assert (np.einsum("ni,ni->n", drawn.points - [1.25, 0.5, 0.5], drawn.normals) > 0.4).all()
    assert len(piece.mesh.faces) == 36


def test_a_cloud_is_thinned_by_a_rule_that_does_not_know_the_axes():
    points, normals = lumpy_cloud(1, 3000)
    turn = Rotation.from_rotvec([1, 2, 3]).as_matrix()
    drawn = sample_piece(piece_of(points, normals), 100, np.random.default_rng(5))
    turned = sample_piece(piece_of(points @ turn.T, normals @ turn.T), 100, np.random.default_rng(5))
    assert drawn.oriented
    assert len(np.unique(drawn.points, axis=0)) == 800
    np.testing.assert_allclose(turned.points, drawn.points @ turn.T, atol=1e-12)
    rows = [int(np.flatnonzero((points == point).all(axis=1))[0]) for point in drawn.points]
    np.testing.assert_array_equal(drawn.normals, normals[rows])
    assert not np.array_equal(drawn.points, sample_piece(piece_of(points), 100, np.random.default_rng(6)).points)


def test_a_small_cloud_stays_as_it_is_and_gets_normals():
    points = np.random.default_rng(0).normal(size=(3000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    drawn = sample_piece(piece_of(points), 1000, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn.points, points)
    assert not drawn.oriented
    assert np.einsum("ni,ni->n", drawn.normals, points).min() > 0.98


def test_millions_of_points(tmp_path):
    rows = np.random.default_rng(0).normal(size=(2_000_000, 3)).astype("<f4")
    head = "ply\nformat binary_little_endian 1.0\nelement vertex 2000000\n"
    properties = "".join(f"property float {axis}\n" for axis in "xyz")
    (tmp_path / "a.ply").write_bytes((head + properties + "end_header\n").encode() + rows.tobytes())
    (piece,) = read_pieces([tmp_path])
    np.testing.assert_array_equal(piece.points[::100_000], rows[::100_000].astype(np.float64))
    assert len(sample_piece(piece, 500, np.random.default_rng(0)).points) == 4000


def test_real_scans_are_read():
    files = sorted(path for path in real_data("rpf_demo").rglob("*.ply"))[:4]
    if not files:
        pytest.skip("no .ply files in ../shared/data/rpf_demo")
    for path, piece in zip(files, read_pieces(files), strict=True):
        loaded = trimesh.load(path, process=False)
        np.testing.assert_allclose(piece.points, loaded.vertices, atol=1e-9)
        np.testing.assert_array_equal(piece.faces, loaded.faces)
