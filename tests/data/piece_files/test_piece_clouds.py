"""Files of clouds and scans: every format against another writer or bytes made by hand."""

import importlib.util
import struct

import numpy as np
import pytest
from support.single_piece_files import COLORS, EXACT, NORMALS, POINTS, one

from eda.data.piece_files import read_pieces
from eda.errors import InputError

# -- PCD ---------------------------------------------------------------------------------------------------


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


# -- text and arrays ---------------------------------------------------------------------------------------


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


# -- scans -------------------------------------------------------------------------------------------------


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
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (tmp_path / f"a.{suffix}").write_bytes(b"LASF")
    with pytest.raises(InputError, match=rf"a\.{suffix}.*pip install '\.\[scan\]'"):
        read_pieces([tmp_path])
