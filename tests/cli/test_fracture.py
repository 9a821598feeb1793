"""`eda fracture` and the folders of meshes it writes."""

import json
import shutil
from dataclasses import replace

import pytest
import typer
from support.closed_meshes import BOX, BOX_FACES, box_mesh, is_closed, stl
from typer.testing import CliRunner

from eda.cli.fracture import fracture
from eda.data import Dataset
from eda.data.fracture.fracture_source import FractureSource
from eda.data.fracture.generator import FractureConfig
from eda.data.fracture.puzzle_folders import write_puzzles
from eda.data.fracture.shapes import HELD_OUT_KINDS
from eda.data.meshes import Mesh
from eda.data.piece_files import read_as_one
from eda.errors import InputError

FEW = FractureSource(FractureConfig(min_pieces=3, max_pieces=3), seed=1, shapes=("stone", "key"))


def few(num_puzzles: int) -> FractureSource:
    return replace(FEW, num_puzzles=num_puzzles)


@pytest.fixture
def run(monkeypatch):
    """The command in this process, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(fracture)
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=True)


# -- folders of meshes -------------------------------------------------------------------------------------


def test_a_folder_holds_the_pieces_in_place_and_the_truth(tmp_path):
    written = write_puzzles(few(2), tmp_path)
    assert (written.num_examples, written.num_skipped) == (2, 0)
    name, broken = FEW.fracture(1)
    truth = json.loads((tmp_path / name / "truth.json").read_text())
    assert truth["name"] == name
    for entry, piece in zip(truth["pieces"], broken.pieces, strict=True):
        part = read_as_one(tmp_path / name / entry["file"])
        mesh = Mesh(part.points, part.faces)
        assert is_closed(mesh)
        assert mesh.volume == pytest.approx(piece.mesh.volume, rel=1e-5)
        assert entry["volume"] == pytest.approx(piece.mesh.volume)
        assert not entry["foreign"]
    for number, entry in enumerate(truth["pieces"]):
        assert entry["touches"]
        assert all(number in truth["pieces"][other]["touches"] for other in entry["touches"])


def test_interrupted_work_goes_on(tmp_path):
    write_puzzles(few(3), tmp_path)
    folders = sorted(path for path in tmp_path.iterdir() if path.is_dir())
    before = {path: path.stat().st_mtime_ns for path in folders}
    shutil.rmtree(folders[1])
    steps = []
    write_puzzles(few(3), tmp_path, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(3, 3)]
    assert sorted(path for path in tmp_path.iterdir() if path.is_dir()) == folders
    assert all(folders[i].stat().st_mtime_ns == before[folders[i]] for i in (0, 2))


def test_nothing_half_written_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("eda.data.fracture.puzzle_folders._truth", lambda broken: {"not": {"JSON"}})
    with pytest.raises(TypeError):
        write_puzzles(few(1), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["puzzles.json"]


def test_a_folder_of_other_puzzles_is_left_alone(tmp_path):
    write_puzzles(few(1), tmp_path / "mine")
    with pytest.raises(InputError, match="mine: holds another dataset"):
        write_puzzles(few(2), tmp_path / "mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="full: not empty"):
        write_puzzles(few(1), tmp_path / "full")
    with pytest.raises(InputError, match=r"letter\.txt: not a folder"):
        write_puzzles(few(1), tmp_path / "full" / "letter.txt")


# -- the command -------------------------------------------------------------------------------------------


def test_shards_of_our_own_shapes(run, tmp_path):
    arguments = ("--puzzles", 4, "--pieces", "2-3", "--points", 500, "--shapes", "held_out", "--workers", 1, "--quiet")
    result = run(tmp_path / "set", *arguments)
    assert result.exit_code == 0, result.output
    assert "set: 4 puzzles" in result.output.replace("\n", "")
    dataset = Dataset(tmp_path / "set")
    assert len(dataset) == 4
    assert {example.name.split("-")[1] for example in dataset} <= set(HELD_OUT_KINDS)
    assert all(2 <= example.num_pieces <= 3 for example in dataset)
    assert dataset.manifests[0]["config"]["num_points"] == 500


def test_meshes_of_the_users(run, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "good.stl").write_bytes(stl(box_mesh()))
    (tmp_path / "mine" / "open.stl").write_bytes(stl(Mesh(BOX, BOX_FACES[2:])))
    arguments = (tmp_path / "mine", "--puzzles", 2, "--pieces", 2, "--as", "meshes", "--workers", 1, "--quiet")
    assert "open.stl: not a closed surface" in str(run(tmp_path / "strict", *arguments).exception)
    result = run(tmp_path / "lenient", *arguments, "--skip-bad")
    assert result.exit_code == 0, result.output
    assert "1 puzzles" in result.output
    assert "1 skipped" in result.output
    assert len(list((tmp_path / "lenient" / "000000-good").glob("*.ply"))) == 2


REFUSED = {
    "a range that is none": (("--pieces", "two"), "--pieces two: expected a number or a range, e.g. 2-8"),
    "too many pieces": (("--pieces", "2-99"), "max_pieces must be a whole number from 2 to 20"),
    "an unknown form": (("--as", "clay"), "--as must be one of shards, meshes"),
    "an unknown shape": (("--shapes", "vase,tank"), "no shapes tank"),
    "an unknown kind": (("--kinds", "rough,laser"), "kinds must be some of"),
    "licences of nothing": (("--licences", "CC BY"), "--licences chooses among the meshes of a pack"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_make_no_sense(run, tmp_path, name):
    options, message = REFUSED[name]
    result = run(tmp_path / "set", *options)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert not (tmp_path / "set").exists()
