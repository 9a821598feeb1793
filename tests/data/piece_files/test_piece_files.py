"""Which files are read as pieces, in which order and by which names; and what is no piece is named."""

import builtins
import os

import numpy as np
import pytest
from support.dataset_files import write_obj, write_ply
from support.single_piece_files import FACES, POINTS, VERTICES

from eda.data.piece_files import read_pieces
from eda.errors import InputError


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
