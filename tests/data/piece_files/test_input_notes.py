"""What is said about pieces before they are assembled: units, chips, repairs, and what is left out."""

import re
from pathlib import Path

import numpy as np
import pytest
from support.dataset_files import box, row_of_boxes, write_ply

from eda.data.piece_files import InputNotes, input_warnings, read_pieces, read_usable_pieces
from eda.errors import InputError

VERTICES, FACES = box(0, 1)


def boxes(folder: Path, *sizes: float) -> Path:
    """A folder of cubes of these sizes, named 0, 1, 2, ..."""
    for number, size in enumerate(sizes):
        write_ply(folder / f"{number}.ply", size * VERTICES, FACES)
    return folder


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((1, 1000), "1.ply is 1,000 times as long as .*0.ply; probably millimetres among metres"),
        ((1, 1.2, 1000, 0.9), "2.ply is 1,000 times as long as the others; probably millimetres among metres"),
        ((1, 1.2, 25.4, 0.9), r"2.ply is 25 times as long as the others; probably millimetres among inches"),
        ((1, 1.2, 0.04, 0.9), r"2.ply is 25 times as short as the others; probably inches among millimetres"),
        ((1, 1.3, 0.01, 0.9), "2.ply is 100 times as short as the others; probably metres among centimetres"),
        (
            (1, 2, 1e6, 2e6),
            "2.ply and .*3.ply are 1,000,000 times as long as the others; if they are in different units",
        ),
    ],
)
def test_the_likely_unit_is_named(tmp_path, sizes, expected):
    (said,) = input_warnings(read_pieces([boxes(tmp_path, *sizes)]))
    assert re.search(expected, said), said


@pytest.mark.parametrize("sizes", [(1, 1.5), (1, 3, 4), (1, 1.1, 1.2, 4.5)])
def test_pieces_of_one_object_are_in_one_unit(tmp_path, sizes):
    assert input_warnings(read_pieces([boxes(tmp_path, *sizes)])) == []


def test_chips_are_named(tmp_path):
    (said,) = input_warnings(read_pieces([boxes(tmp_path, 10, 9, 2, 1, 5)]))
    assert said.startswith("2 and 3: less than 1% of the volume of all pieces each")
    (tmp_path / "0.ply").unlink()
    np.save(tmp_path / "cloud.npy", np.random.default_rng(0).normal(size=(50, 3)))
    assert input_warnings(read_pieces([tmp_path])) == []  # nobody knows the volume of a cloud


def test_repairs_are_lines_and_of_many_pieces_a_few(tmp_path):
    boxes(tmp_path, 1)
    for number in range(12):
        write_ply(tmp_path / f"walled_{number}.ply", *row_of_boxes([1, 0.1 * number + 0.5], [0, 1]))
    notes = InputNotes.of(read_usable_pieces([tmp_path]))
    assert notes.repairs == {f"walled_{number}": "4 coincident faces dropped" for number in range(12)}
    assert notes.repair_lines[0] == "walled_0: 4 coincident faces dropped"
    assert len(notes.repair_lines) == 8
    assert notes.repair_lines[-1] == "5 more pieces were repaired; assembly.json names them"
    few = InputNotes(repairs={"a": "1 hole left open"})
    assert few.repair_lines == ["a: 1 hole left open"]


def test_what_cannot_be_a_piece_is_refused_with_its_reason(tmp_path):
    boxes(tmp_path, 1, 2)
    np.save(tmp_path / "few.npy", np.eye(3))
    np.save(tmp_path / "nan.npy", np.where(np.eye(5, 3) == 1, np.nan, 0.5))
    np.save(tmp_path / "same.npy", np.ones((9, 3)))
    write_ply(tmp_path / "no_area.ply", VERTICES, np.array([[0, 1, 1], [2, 2, 2]]))
    pieces, refused = read_usable_pieces([tmp_path])
    assert [piece.name for piece in pieces] == ["0", "1"]
    reasons = {"few": "3 points", "nan": "NaN", "same": "coincide", "no_area": "no area"}
    assert refused.keys() == reasons.keys()
    for name, words in reasons.items():
        assert words in refused[name]
        assert str(tmp_path / name) in refused[name]
    assert InputNotes.of(read_usable_pieces([tmp_path])).doubts[0] == f"left out: {refused['few']}"
    with pytest.raises(InputError, match="3 points"):
        read_pieces([tmp_path])


def test_a_file_that_cannot_be_read_is_not_left_out(tmp_path):
    boxes(tmp_path, 1, 2)
    (tmp_path / "damaged.ply").write_bytes(b"ply" + bytes(99))
    with pytest.raises(InputError, match="damaged"):
        read_usable_pieces([tmp_path])
