"""The result folder: it is written completely or not at all, and replaces only an earlier result."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh
from support.full_disk import fail_without_space
from support.results import FACES, NORMALS, POINTS, SMALL, VERTICES, assembly_of, input_pieces, write_some_result

from eda import InputError
from eda.folder_lock import FolderLock
from eda.output import folder_swap
from eda.output.result_files import write_result
from eda.output.result_folder import claimed_folder
from eda.render.input_piece import InputPiece


def check_output_folder(folder: Path, overwrite: bool, inputs: list[Path] | None = None) -> None:
    with claimed_folder(folder, overwrite, inputs or []):
        pass


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
    with pytest.raises(InputError, match=r"thesis\.txt.out: cannot be created"):
        check_output_folder(tmp_path / "thesis.txt" / "out", overwrite=False)
    check_output_folder(tmp_path / "new" / "out", overwrite=False)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    "name",
    [
        *("notes.txt", ".hidden", "pieces/mine.ply", "pieces/a/x", "more/x", "assembled", "unplaced/mine.ply"),
        *(
            "alternatives/notes.txt",
            "alternatives/2/notes.txt",
            "alternatives/2/pieces/mine.ply",
            "alternatives/x/a.ply",
        ),
        *("alternatives/2/assembly.json", "alternatives/2/alternatives/3/a"),
    ],
)
def test_a_result_with_something_of_the_users_is_never_replaced(tmp_path, name):
    pieces = [InputPiece(each, POINTS, NORMALS) for each in "ab"]
    assembly, out = write_some_result(pieces, tmp_path)
    (out / name).parent.mkdir(exist_ok=True, parents=True)
    (out / name).write_text("mine")
    with pytest.raises(InputError, match=r"not part of a result \(.*move them away, or choose another"):
        write_result(assembly, pieces, out, command="again", overwrite=True, sizes=SMALL)
    assert (out / name).read_text() == "mine"
    assert json.loads((out / "assembly.json").read_text())["command"] == "a test"


def test_a_result_with_alternatives_and_unplaced_pieces_is_replaced(tmp_path):
    pieces = [InputPiece(each, POINTS, NORMALS) for each in "ab"]
    assembly, out = assembly_of(pieces, [True, False]), tmp_path / "out"
    for alternatives in ((assembly.best,) * 3, (assembly.best,)):
        write_result(
            replace(assembly, alternatives=alternatives), pieces, out, command="again", overwrite=True, sizes=SMALL
        )
    assert [path.name for path in (out / "unplaced").iterdir()] == ["b.ply"]
    assert not (out / "alternatives").exists()


def test_a_link_inside_a_result_is_somebodys(tmp_path):
    pieces = [InputPiece(each, POINTS, NORMALS) for each in "ab"]
    _, out = write_some_result(pieces, tmp_path)
    (tmp_path / "mine").mkdir()
    (out / "alternatives").symlink_to(tmp_path / "mine")
    with pytest.raises(InputError, match=r"not part of a result \(alternatives\)"):
        check_output_folder(out, overwrite=True)


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


def test_the_folder_one_is_in_is_refused(tmp_path, monkeypatch):
    """It is replaced as a whole, and a shell that is in it would be nowhere afterwards."""
    _, out = write_some_result([InputPiece(each, POINTS, NORMALS) for each in "ab"], tmp_path)
    for inside in (out, out / "pieces"):
        monkeypatch.chdir(inside)
        with pytest.raises(InputError, match=r"is the folder you are in.*give a folder inside it, such as .*result"):
            check_output_folder(Path(os.path.relpath(out)), overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a file system that takes nothing is needed")
def test_a_folder_that_cannot_be_made_is_refused_at_once():
    with pytest.raises(InputError, match=r"/proc/out: cannot be created"):
        check_output_folder(Path("/proc/out"), overwrite=False)
    with pytest.raises(InputError, match=r"/proc/self/fdinfo: .*(not part of a result|not writable)"):
        check_output_folder(Path("/proc/self/fdinfo"), overwrite=True)


def test_a_mounted_disk_is_refused(tmp_path, monkeypatch):
    """It has no name that could be exchanged; also one that is bound to a folder of the same disk."""
    mounts = tmp_path / "mountinfo"
    disk = tmp_path / "my disk"
    disk.mkdir()
    mounts.write_text("36 35 98:0 / {} rw,noatime shared:1 - ext4 /dev/a rw\n".format(str(disk).replace(" ", "\\040")))
    monkeypatch.setattr("eda.output.result_folder._MOUNTS", mounts)
    with pytest.raises(InputError, match=r"my disk: is a mounted disk.*give a folder inside it, such as .*disk/result"):
        check_output_folder(disk, overwrite=False)
    check_output_folder(disk / "result", overwrite=False)


def test_only_one_process_writes_a_result(tmp_path):
    pieces = [InputPiece(each, POINTS, NORMALS) for each in "ab"]
    with FolderLock(tmp_path / "out"), pytest.raises(InputError, match=r"out: another process .*is writing there"):
        write_result(assembly_of(pieces), pieces, tmp_path / "out", command="second", sizes=SMALL)
    assert list(tmp_path.iterdir()) == []


def test_what_is_put_into_a_result_while_it_is_replaced_is_kept(tmp_path, monkeypatch):
    """It comes after the last look at the old folder, so the new one must go again."""
    pieces = [InputPiece(each, POINTS, NORMALS) for each in "ab"]
    assembly, out = write_some_result(pieces, tmp_path)
    exchange, calls = folder_swap._exchange, []

    def late(new: Path, place: Path) -> bool:
        if not calls:
            (place / "notes.txt").write_text("mine")
        calls.append(place)
        return exchange(new, place)

    monkeypatch.setattr(folder_swap, "_exchange", late)
    with pytest.raises(InputError, match=r"^[^ ]*/out: contains files that are not part of a result \(notes\.txt\)"):
        write_result(assembly, pieces, out, command="again", overwrite=True, sizes=SMALL)
    assert (out / "notes.txt").read_text() == "mine"
    assert json.loads((out / "assembly.json").read_text())["command"] == "a test"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_failure_half_way_leaves_nothing(tmp_path, monkeypatch):
    pieces = [InputPiece(name, POINTS, NORMALS) for name in "ab"]

    monkeypatch.setattr("eda.output.report.write_report", fail_without_space)
    with pytest.raises(InputError, match=r"out: cannot be written .*No space left"):
        write_some_result(pieces, tmp_path)
    assert list(tmp_path.iterdir()) == []
