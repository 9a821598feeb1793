"""From files of others to shards, through the function and the command."""

import pickle
import sys

import numpy as np
import pytest
import typer
from support.dataset_files import real_data, write_compressed, write_obj, write_split
from typer.testing import CliRunner

import eda.cli
from eda.cli.prepare import NAMES
from eda.cli.prepare import prepare as command
from eda.data import Dataset
from eda.data.readers import READERS, open_reader, options_of
from eda.data.storage.prepare import prepare
from eda.errors import InputError

WIDTHS = (1.0, 1.0, 0.01, 1.0)
FRACTURES = {"mode_0": (0, 0, 1, 2), "mode_1": (0, 1, 1, 1), "mode_2": (0, 0, 0, 1)}
OPTIONS = {"split": "train", "num_points": 200}


@pytest.fixture
def root(tmp_path):
    """Two objects of three fractures each, of which one has too small a piece; a third object is only listed."""
    root = tmp_path / "raw"
    for identity in ("a1", "b2"):
        write_compressed(root / "everyday" / "Cup" / identity, WIDTHS, FRACTURES)
    write_split(root, "everyday", "train", [f"everyday/Cup/{identity}" for identity in ("a1", "b2", "c3")])
    return root


def spoil(root) -> None:
    (root / "everyday/Cup/b2/mode_1/compressed_fracture.npy").write_bytes(b"garbage")


@pytest.fixture
def run():
    app = typer.Typer()
    app.command()(command)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def test_the_command_names_what_there_is():
    assert tuple(READERS) == NAMES


def test_what_is_written_is_what_was_read(root, tmp_path):
    prepared = prepare("breaking-bad", root, tmp_path / "out", options=OPTIONS)
    assert (prepared.built.num_examples, prepared.num_left_out, prepared.num_missing) == (4, 2, 1)
    source, dataset = list(open_reader("breaking-bad", root, **OPTIONS)), Dataset(tmp_path / "out")
    assert [example.name for example in dataset] == [example.name for example in source]
    for read, written in zip(source, dataset, strict=True):
        # Points are in another order on disk.
        for values in ("points", "normals", "contact"):
            one, other = (np.column_stack([e.points, getattr(e, values)]) for e in (read, written))
            one, other = (rows[np.lexsort(rows[:, :3].T)] for rows in (one, other))
            np.testing.assert_allclose(one, other, atol=1e-3)


def test_a_bad_file_stops_it_or_is_counted(root, tmp_path):
    spoil(root)
    with pytest.raises(InputError, match=r"b2/mode_1/compressed_fracture\.npy"):
        prepare("breaking-bad", root, tmp_path / "out", options=OPTIONS)
    prepared = prepare("breaking-bad", root, tmp_path / "other", options=OPTIONS, skip_bad=True)
    assert (prepared.built.num_examples, prepared.built.num_skipped, prepared.num_left_out) == (3, 1, 2)


def test_another_run_into_the_same_folder(root, tmp_path):
    first = prepare("breaking-bad", root, tmp_path / "out", options=OPTIONS)
    again = prepare("breaking-bad", root, tmp_path / "out", options=OPTIONS)
    assert again.built.num_examples == first.built.num_examples
    assert again.num_left_out == first.num_left_out
    with pytest.raises(InputError, match="another dataset"):
        prepare("breaking-bad", root, tmp_path / "out", options={**OPTIONS, "seed": 1})


def test_every_reader_can_be_named_and_described():
    for name in READERS:
        assert all(isinstance(value, int | float | str | tuple) for value in options_of(name).values())
    assert options_of("kitti")["grid"] == 0.5
    assert options_of("3dmatch")["grid"] == 0.05
    assert options_of("breaking-bad")["max_pieces"] == 8


def test_options_as_text(tmp_path):
    source = open_reader("3dmatch-pack", tmp_path, scenes="a+b", radius="0.2", pairs="zero")
    assert (source.scenes, source.radius, source.pairs) == (("a", "b"), 0.2, "zero")
    assert open_reader("folders", tmp_path, contact="true").contact is True
    assert pickle.loads(pickle.dumps(source)) == source


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nothing", {}, "no kind of dataset is called 'nothing'; there are breaking-bad, garf"),
        ("kitti", {"num_points": "3"}, "kitti has no setting 'num_points'; it has split=train"),
        ("kitti", {"path": "x"}, "no setting 'path'"),
        ("kitti", {"grid": "wide"}, "grid must be a number, such as 0.5, got 'wide'"),
        ("kitti", {"grid": "-1"}, "grid must be a positive number"),
        ("folders", {"contact": "maybe"}, "contact must be true or false"),
    ],
)
def test_options_that_make_no_sense(tmp_path, name, options, message):
    with pytest.raises(InputError, match=message):
        open_reader(name, tmp_path, **options)


@pytest.mark.parametrize("name", READERS)
def test_an_empty_folder_is_refused_by_all(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty"):
        prepare(name, tmp_path / "empty", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="nowhere: not there"):
        open_reader(name, tmp_path / "nowhere")


# -- the command -------------------------------------------------------------------------------------------


def test_the_command_writes_and_counts(root, tmp_path, run):
    spoil(root)
    result = run("breaking-bad", root, tmp_path / "out", "--set", "num_points=200", "--skip-bad", "--workers", 2)
    assert result.exit_code == 0
    assert f"{tmp_path / 'out'}: 3 puzzles" in result.stdout
    for line in ("2 left out", "1 skipped", "1 missing"):
        assert line in result.stdout
    assert len(Dataset(tmp_path / "out")) == 3


def test_the_command_says_its_options(run):
    result = run("--options", "breaking-bad")
    assert result.exit_code == 0
    assert "max_pieces=8" in result.stdout.splitlines()
    assert isinstance(run("--options", "nothing").exception, InputError)


@pytest.mark.parametrize("words", [["--set", "split"], ["--set", "nonsense=1"], ["--set", "num_points=many"]])
def test_the_command_refuses_bad_options(root, tmp_path, run, words):
    result = run("breaking-bad", root, tmp_path / "out", *words)
    assert isinstance(result.exception, InputError)
    assert not (tmp_path / "out").exists()


def test_bad_input_exits_with_2(root, tmp_path, monkeypatch, capsys):
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command("prepare")(command)
    monkeypatch.setattr(eda.cli, "app", app)
    spoil(root)
    monkeypatch.setattr(sys, "argv", ["eda", "prepare", "breaking-bad", str(root), str(tmp_path / "out")])
    with pytest.raises(SystemExit) as caught:
        eda.cli.main()
    assert caught.value.code == 2
    assert "compressed_fracture.npy" in capsys.readouterr().err


def test_decompressed_pieces_with_nan_are_named(tmp_path):
    for piece in range(2):
        vertices = np.eye(3) * (np.nan if piece else 1)
        write_obj(tmp_path / f"everyday/Cup/a/mode_0/piece_{piece}.obj", vertices, np.array([[0, 1, 2]]))
    with pytest.raises(InputError, match=r"piece_1\.obj.*NaN"):
        prepare("breaking-bad", tmp_path, tmp_path / "out", options={"split": "all"})


# -- the real ones -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "folder", "count"), [("kitti-pack", "kitti", 3), ("folders", "rpf_demo", 8)])
def test_real_packs_become_datasets(tmp_path, name, folder, count):
    options = {"grid": "4"} if name == "kitti-pack" else {"num_points": "400"}
    prepared = prepare(name, real_data(folder), tmp_path / "out", options=options)
    assert prepared.built.num_examples == count
    for example in Dataset(tmp_path / "out"):
        assert example.puzzle().pieces.num_pieces == example.num_pieces
