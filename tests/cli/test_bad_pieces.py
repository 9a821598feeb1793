"""`eda assemble` with what people really give it. Refused: exit code 2, one line that names the file, nothing written.

What the readers of single formats refuse, in all its variety, is in test_piece_damage.py; here it must reach the user.
"""

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import trimesh
from support.dataset_files import box, write_ply
from support.lumpy_shapes import lumpy_cloud

import eda.cli
from eda.data.piece_files import input_warnings, read_pieces
from eda.output import result_files

VERTICES, FACES = box(0, 1)
POINTS, NORMALS = lumpy_cloud(0, 200)
LINE = np.outer(np.linspace(0, 1, 50), [1.0, 2.0, 3.0])


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """The command on a folder of pieces, quickly: its exit code and what it says on stderr."""
    small = result_files.PictureSizes(preview=48, frame=24, frames=2, last_frames=1)
    monkeypatch.setattr(result_files, "PictureSizes", lambda: small)

    def assemble(*words: object, out: Path = tmp_path / "out") -> tuple[int, str]:
        quick = ["--out", str(out), "--samples", "2", "--steps", "1", "--quiet"]
        monkeypatch.setattr(sys, "argv", ["eda", "assemble", *map(str, words), *quick])
        with pytest.raises(SystemExit) as exit_:
            eda.cli.main()
        return exit_.value.code or 0, capsys.readouterr().err

    return assemble


@pytest.fixture
def folder(tmp_path) -> Path:
    """A sound piece, to put a bad one beside."""
    (tmp_path / "sherds").mkdir()
    save(tmp_path / "sherds" / "good.xyz", POINTS, NORMALS)
    return tmp_path / "sherds"


def save(path: Path, points: np.ndarray, normals: np.ndarray) -> None:
    np.savetxt(path, np.column_stack([points, normals]))


def with_value(value: float) -> np.ndarray:
    rows = np.column_stack([POINTS, NORMALS])
    rows[7, 1] = value
    return rows


def npy_header(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + POINTS.tobytes()


PLY = (
    "ply\nformat binary_little_endian 1.0\nelement vertex %d\nproperty double x\nproperty double y\nproperty double z\n"
)
PCD = "FIELDS x y z\nSIZE 8 8 8\nTYPE F F F\nWIDTH %d\nHEIGHT 1\nPOINTS %d\nDATA binary\n"
BILLIONS = 4_000_000_000
REFUSED = {
    "empty.ply": (b"", "the file is empty; write or copy it again"),
    "cut.ply": ((PLY % 200 + "end_header\n").encode() + POINTS.tobytes()[:3000], "write or copy it again"),
    "noise.obj": (bytes(range(256)) * 20, "no vertices in it"),
    "noise.glb": (bytes(range(256)) * 20, "expected a scene"),
    "photo.stl": (b"\xff\xd8\xff\xe0JFIF" + bytes(500), "look whether its ending is right"),
    "huge.ply": ((PLY % BILLIONS + "end_header\n").encode() + POINTS.tobytes(), f"promises {BILLIONS} rows of vertex"),
    "huge.pcd": ((PCD % (BILLIONS, BILLIONS)).encode() + POINTS.tobytes(), "copy it again"),
    "huge.npy": (npy_header(f"({BILLIONS}, 3)"), "expected one array"),
    "huge.stl": (bytes(80) + struct.pack("<I", 2**32 - 1) + bytes(50), "promises 4294967295 triangles"),
    "odd.docx": (b"PK\3\4", "unknown ending '.docx'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_damaged_files_are_named_and_nothing_is_written(run, folder, tmp_path, name):
    content, message = REFUSED[name]
    (folder / name).write_bytes(content)
    code, said = run(folder / "good.xyz", folder / name)
    assert code == 2
    assert said.startswith(f"eda: {folder / name}: ")
    assert message in said
    assert said.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["sherds"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (with_value(np.nan), "1 of 200 points have NaN or infinite"),
        (with_value(-np.inf), "1 of 200 points have NaN or infinite"),
        (np.column_stack([LINE, LINE]), "lie on one line"),
        (np.ones((60, 3)), "coincide"),
        (POINTS[:3], "3 points; at least 4"),
    ],
)
def test_points_that_are_no_piece_are_refused(run, folder, tmp_path, rows, message):
    np.savetxt(folder / "odd.xyz", rows)
    code, said = run(folder)
    assert code == 2
    assert f"{folder / 'odd.xyz'}: " in said
    assert message in said
    assert not (tmp_path / "out").exists()


def test_a_piece_that_cannot_be_used_is_left_out_if_two_remain(run, folder, tmp_path):
    save(folder / "other.xyz", POINTS + 1, NORMALS)
    np.savetxt(folder / "odd.xyz", POINTS[:3])
    reason = f"{folder / 'odd.xyz'}: 3 points; at least 4 are needed to orient a piece"
    code, _ = run(folder)
    assert code in (0, 3)
    record = json.loads((tmp_path / "out" / "assembly.json").read_text())
    assert record["pieces"] == ["good", "other"]
    assert record["input"] == {"refused": {"odd": reason}, "warnings": [], "repairs": {}}


def test_too_few_pieces_and_wrong_places(run, folder, tmp_path):
    (tmp_path / "nothing").mkdir()
    for words, message in {
        (folder,): "at least 2 pieces, found 1",
        (tmp_path / "nowhere",): "nowhere: not there",
        (tmp_path / "nothing",): "no pieces in this folder",
        (folder, folder / "good.xyz", "--model", "fracture-huge"): "fracture-huge: neither a model file nor the name",
    }.items():
        code, said = run(*words)
        assert (code, message in said) == (2, True), said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["nothing", "sherds"]


def test_the_place_of_the_result_is_checked_before_the_pieces(run, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for out, message in {
        tmp_path: "is not empty; choose another folder, or give --overwrite",
        tmp_path / "notes.txt": "is a file, not a folder",
        tmp_path / "notes.txt" / "out": "cannot be created",
    }.items():
        code, said = run(tmp_path / "nowhere", out=out)
        assert code == 2
        assert message in said
    assert (tmp_path / "notes.txt").read_text() == "mine"


# -- odd, but possible: an assembly, or the news that there is none ----------------------------------------------------


def result(code: int, said: str, out: Path) -> list[str]:
    """The pieces that were placed; a result is whole or there is none."""
    assert code in (0, 3), said
    assert "Warning" not in said
    assert (out / "report.html").is_file()
    return sorted(p.name for p in (out / "pieces").iterdir())


def test_the_same_file_twice(run, folder, tmp_path):
    save(folder / "again.xyz", POINTS, NORMALS)
    assert set(result(*run(folder), tmp_path / "out")) <= {"again.ply", "good.ply"}


def test_a_flat_piece(run, folder, tmp_path):
    save(folder / "flat.xyz", POINTS * [1, 1, 0], np.tile([0.0, 0.0, 1.0], (200, 1)))
    assert set(result(*run(folder), tmp_path / "out")) <= {"flat.ply", "good.ply"}


def test_pieces_of_wildly_different_sizes(run, tmp_path):
    (tmp_path / "sherds").mkdir()
    for number, size in enumerate((1e-3, 1e3)):
        write_ply(tmp_path / "sherds" / f"{number}.ply", size * VERTICES, FACES)
    assert set(result(*run(tmp_path / "sherds"), tmp_path / "out")) <= {"0.ply", "1.ply"}


def odd_pieces(folder: Path) -> dict[str, str]:
    """Written beside the good one, with what is said about them."""
    (folder / "again.xyz").write_bytes((folder / "good.xyz").read_bytes())
    extents = np.ptp(POINTS, axis=0)
    save(folder / "flat.xyz", POINTS * (extents > extents.min()), NORMALS)  # as long as the others
    save(folder / "large.xyz", POINTS * 1000, NORMALS)
    again, flat, good, large = (folder / f"{name}.xyz" for name in ("again", "flat", "good", "large"))
    return {
        "copies": f"{again}, {good} and {good} hold the same points, and count as 3 pieces; leave copies out",
        "units": f"{large} is 1,000 times as long as the others; probably millimetres among metres (a factor of "
        "1,000): bring all pieces to one unit",
        "flat": f"{flat}: all of its points lie in one plane; a piece with its thickness is easier to place",
    }


def test_what_is_probably_not_meant_is_said(folder):
    expected = odd_pieces(folder)
    assert input_warnings(read_pieces([folder, folder / "good.xyz"])) == list(expected.values())


def test_pieces_of_one_object_raise_no_input_warnings(tmp_path):
    for number, size in enumerate((1, 4)):
        write_ply(tmp_path / f"{number}.ply", size * VERTICES, FACES)
    assert input_warnings(read_pieces([tmp_path])) == []


@pytest.mark.parametrize("option", ["--json", "--quiet"])
def test_doubts_are_lines_on_stderr_unless_it_is_quiet(folder, tmp_path, option):
    """They come before the work, which a model that is not there ends at once."""
    expected = odd_pieces(folder)
    words = ["assemble", folder, folder / "good.xyz", "--out", tmp_path / "out", "--model", "no such", option]
    done = subprocess.run([sys.executable, "-m", "eda.cli", *map(str, words)], capture_output=True, text=True)
    *said, error = done.stderr.splitlines()
    assert error.startswith("eda: no such: ")
    assert said == ([] if option == "--quiet" else [f"eda: warning: {doubt}" for doubt in expected.values()])
    assert (done.returncode, done.stdout) == (2, "")


def test_smooth_pieces_without_any_break(run, tmp_path):
    (tmp_path / "balls").mkdir()
    for number in range(2):
        trimesh.creation.icosphere(2, 1.0 + number).export(tmp_path / "balls" / f"{number}.ply")
    assert set(result(*run(tmp_path / "balls"), tmp_path / "out")) <= {"0.ply", "1.ply"}


def test_names_with_spaces_quotes_and_letters_of_every_kind(run, tmp_path):
    pieces, out = tmp_path / "das Gefäß 茶碗", tmp_path / "the résult"
    pieces.mkdir()
    names = ["Scherbe 'ü' 1.ply", "[bold]茶 & <b>.ply"]
    for name in names:
        write_ply(pieces / name, VERTICES, FACES)
    assert set(result(*run(pieces, out=out), out)) <= set(names)


def test_two_hundred_pieces_are_too_many_and_it_says_what_to_do(run, folder):
    for i in range(199):
        save(folder / f"piece {i}.xyz", POINTS[:40] + i, NORMALS[:40])
    code, said = run(folder)
    assert code == 2
    assert "200 pieces" in said
    assert "groups" in said
    assert not (folder.parent / "out").exists()
