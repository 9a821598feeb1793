"""The result folder: it is written completely or not at all, and replaces only an earlier result."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh
from support.results import FACES, NORMALS, POINTS, SMALL, VERTICES, assembly_of, input_pieces, write_some_result

from eda import InputError
from eda.output.result_files import write_result
from eda.output.result_folder import check_output_folder
from eda.render.input_piece import InputPiece


def test_a_result_is_replaced_only_if_that_is_wanted(tmp_path):
    pieces = [InputPiece(name, POINTS, NORMALS) for name in "ab"]
    assembly, out = write_some_result(pieces, tmp_path)
    with pytest.raises(InputError, match=r"not empty.*--overwrite"):
        write_result(assembly, pieces, out, command="again", sizes=SMALL)
    assert json.loads((out / "assembly.json").read_text())["command"] == "a test"
    left = replace(assembly, alternatives=(replace(assembly.best, placed=np.array([True, False])),))
    write_result(left, pieces, out, command="again", overwrite=True, sizes=SMALL)
    assert [p.name for p in (out / "pieces").iterdir()] == ["a.ply"], "nothing of the first time is left"
    assert json.loads((out / "assembly.json").read_text())["command"] == "again"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_what_is_no_result_is_never_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("five years")
    with pytest.raises(InputError, match="not part of a result"):
        check_output_folder(tmp_path, overwrite=True)
    with pytest.raises(InputError, match=r"thesis\.txt: is a file, not a folder"):
        check_output_folder(tmp_path / "thesis.txt", overwrite=True)
    with pytest.raises(InputError, match=r"thesis\.txt is not writable"):
        check_output_folder(tmp_path / "thesis.txt" / "out", overwrite=False)
    check_output_folder(tmp_path / "new" / "out", overwrite=False)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "pieces/mine.ply", "pieces/a/x", "more/x", "assembled"])
def test_a_result_with_something_of_the_users_is_never_replaced(tmp_path, name):
    pieces = [InputPiece(each, POINTS, NORMALS) for each in "ab"]
    assembly, out = write_some_result(pieces, tmp_path)
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_text("mine")
    with pytest.raises(InputError, match=r"not part of a result \(.*move them away, or choose another"):
        write_result(assembly, pieces, out, command="again", overwrite=True, sizes=SMALL)
    assert (out / name).read_text() == "mine"
    assert json.loads((out / "assembly.json").read_text())["command"] == "a test"


def test_a_folder_with_what_is_to_be_assembled_is_never_replaced(tmp_path):
    for name in ("a", "b"):
        trimesh.Trimesh(VERTICES, FACES, process=False).export(tmp_path / f"{name}.ply")
    _, out = write_some_result(input_pieces(tmp_path), tmp_path)
    again = input_pieces(out / "pieces")
    with pytest.raises(InputError, match=r"out: contains .*pieces.a\.ply, one of the pieces to assemble"):
        write_result(assembly_of(again), again, out, command="again", overwrite=True, sizes=SMALL)
    for inputs in ([out], [out / "pieces"], [out / ".." / "out" / "pieces" / "b.ply"]):
        with pytest.raises(InputError, match="one of the pieces to assemble"):
            check_output_folder(out, overwrite=True, inputs=inputs)
    check_output_folder(out, overwrite=True, inputs=[tmp_path / "a.ply"])


def test_a_link_to_a_result_stays_a_link(tmp_path):
    pieces = [InputPiece(each, POINTS, NORMALS) for each in "ab"]
    assembly, out = write_some_result(pieces, tmp_path)
    (tmp_path / "link").symlink_to(out)
    write_result(assembly, pieces, tmp_path / "link", command="again", overwrite=True, sizes=SMALL)
    assert (tmp_path / "link").is_symlink()
    assert json.loads((out / "assembly.json").read_text())["command"] == "again"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "out"]


def test_the_folder_one_is_in_can_be_written(tmp_path, monkeypatch):
    """And one still is in it afterwards."""
    pieces = [InputPiece(each, POINTS, NORMALS) for each in "ab"]
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for overwrite in (False, True):
        write_result(assembly_of(pieces), pieces, Path(), command="here", overwrite=overwrite, sizes=SMALL)
        assert Path("report.html").is_file()
    assert [p.name for p in tmp_path.iterdir()] == ["here"]
    assert [name for name in os.listdir() if name.startswith(".")] == []


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a file system that takes nothing is needed")
def test_a_folder_that_cannot_be_made_is_refused_at_once():
    with pytest.raises(InputError, match=r"/proc/out: cannot be created, because /proc is not writable"):
        check_output_folder(Path("/proc/out"), overwrite=False)


def test_a_failure_half_way_leaves_nothing(tmp_path, monkeypatch):
    pieces = [InputPiece(name, POINTS, NORMALS) for name in "ab"]

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("eda.output.report.write_report", full_disk)
    with pytest.raises(InputError, match=r"out: cannot be written .*No space left"):
        write_some_result(pieces, tmp_path)
    assert list(tmp_path.iterdir()) == []
