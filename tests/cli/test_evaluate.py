"""`eda evaluate` and the sources it takes: what it prints and writes, and its exit codes."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh
import typer
from support.claimed_answers import FakeAssembler
from support.lumpy_shapes import TINY_NETWORK, lumpy_cloud
from typer.testing import CliRunner

from eda import Eda, EdaConfig, InputError, Pieces
from eda.cli.evaluate import evaluate
from eda.data import Dataset, Example, Plan, build
from eda.data.example import OUTER
from eda.data.sources import open_examples

NUM_PUZZLES = 3
FAST = ("--steps", 1, "--solver", "rk1", "--points", 40)


def make(item: int) -> list[Example]:
    clouds, normals = zip(*[lumpy_cloud(10 * item + i, 40 + i) for i in range(2 + item)], strict=True)
    return [Example.from_clouds(f"puzzle {item}", [c + 2 * i for i, c in enumerate(clouds)], normals)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "set"
    build(Plan(make, NUM_PUZZLES, {"made by": "a test"}), folder)
    return folder


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.safetensors"
    Eda(EdaConfig(TINY_NETWORK)).save(path)
    return path


@pytest.fixture
def run(monkeypatch):
    """The command alone; exit code 2 for an `InputError`, as `eda.cli.main` has it."""
    monkeypatch.setenv("COLUMNS", "200")
    app = typer.Typer()
    app.command()(evaluate)

    def invoke(*arguments):
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        if isinstance(result.exception, InputError):
            return 2, str(result.exception)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.output

    return invoke


def test_a_model_on_a_dataset_prints_a_table(run, dataset, model_file):
    code, output = run("--model", model_file, "--data", dataset, *FAST)
    assert code == 0
    for word in ("rotation", "solved", "median", "4 pieces", "±", "to assemble a puzzle"):
        assert word in output


def test_json_on_the_terminal_is_all_there_is(run, dataset, model_file):
    code, output = run("--model", model_file, "--data", dataset, *FAST, "--json", "-", "--repeats", 2)
    assert code == 0
    report = json.loads(output)
    assert report["model"] == str(model_file)
    assert report["data"] == str(dataset)
    assert (report["protocol"], report["puzzles"], report["repeats"]) == ("pairwise", NUM_PUZZLES, 2)
    assert (report["solver"], report["steps"], report["points"], report["seed"]) == ("rk1", 1, 40, 0)
    assert set(report["by"]["pieces"]) == {"2", "3", "4"}
    rotation = report["metrics"]["rotation"]
    assert set(rotation["quantiles"]) == {"10", "25", "50", "75", "90"}
    assert 0 < rotation["interval_95"][0] <= rotation["mean"] <= rotation["interval_95"][1] <= 180
    assert report["seconds_per_puzzle"] > 0


@pytest.mark.parametrize("protocol", ["pairwise", "breaking_bad", "breaking_bad_anchored", "registration"])
def test_files_say_the_same(run, dataset, model_file, tmp_path, protocol):
    files = {name: tmp_path / f"report.{name}" for name in ("json", "csv", "markdown")}
    options = [word for name, path in files.items() for word in (f"--{name}", path)]
    code, _ = run("--model", model_file, "--data", dataset, "--protocol", protocol, "--limit", 2, *FAST, *options)
    assert code == 0
    report = json.loads(files["json"].read_text())
    assert report["puzzles"] == 2
    rows = list(csv.DictReader(files["csv"].read_text().splitlines()))
    assert len(rows) == 2 * 3
    for name, distribution in report["metrics"].items():
        values = [float(row[name]) for row in rows if row[name]]
        assert distribution["defined"] == len(values)
        if values and protocol != "registration":
            assert np.mean(values) == pytest.approx(distribution["mean"])
    assert files["markdown"].read_text().startswith("|  | puzzles |")


def test_saved_predictions_score_the_same(run, dataset, model_file, tmp_path):
    paths = [tmp_path / name for name in ("poses.json", "first.json", "second.json")]
    code, _ = run(
        "--model", model_file, "--data", dataset, *FAST, "--seed", 4, "--save-predictions", paths[0], "--json", paths[1]
    )  # fmt: skip
    assert code == 0
    code, output = run("--predictions", paths[0], "--data", dataset, "--json", paths[2])
    assert code == 0
    assert "poses.json" in output
    first, second = (json.loads(path.read_text()) for path in paths[1:])
    assert second["seconds_per_puzzle"] is None
    assert second["seed"] == 4
    for name, distribution in first["metrics"].items():
        assert second["metrics"][name]["repeat_means"] == pytest.approx(distribution["repeat_means"], rel=1e-6)


@pytest.fixture
def assembler(monkeypatch) -> FakeAssembler:
    fake = FakeAssembler()
    monkeypatch.setattr("eda.evaluate.assembler_answers.assemble", fake)
    return fake


def test_the_assembler_is_measured(run, dataset, tmp_path, assembler):
    files = {name: tmp_path / f"report.{name}" for name in ("json", "csv", "markdown", "diagram")}
    options = [word for name, path in files.items() for word in (f"--{name}", path)]
    code, output = run("--assemble", "--data", dataset, "--by", "pieces,category", *options)
    assert code == 0, output
    for word in ("probability of", "placed [%]", "category unknown", "unplaced: 3 of 9 own pieces", "stub for 3"):
        assert word in output
    report = json.loads(files["json"].read_text())
    assert report["assembler"]["samples"] == 16
    assert (report["puzzles"], report["samples"], report["repeats"]) == (NUM_PUZZLES, 1, 1)
    assert report["metrics"]["solved"]["mean"] == 0  # a piece of each is left out
    assert report["metrics"]["placed"]["mean"] == pytest.approx((1 / 2 + 2 / 3 + 3 / 4) / 3)
    assert report["reliability"]["piece"]["number"] == 1 + 2 + 3
    assert report["reliability"]["piece"]["mean_probability"] == pytest.approx(0.75)
    assert set(report["by"]) == {"pieces", "category"}
    assert files["diagram"].read_text().startswith("<svg")
    assert "calibration error" in files["markdown"].read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in files.values())


def test_foreign_pieces_are_put_beside_the_own_ones(run, dataset, assembler):
    """The stub leaves the last piece out, which is the foreign one."""
    code, output = run("--assemble", "--data", dataset, "--foreign", 1, "--json", "-")
    assert code == 0, output
    report = json.loads(output)
    assert report["placement"] == {
        "own_pieces": 9, "own_unplaced": 0, "foreign_pieces": 3, "foreign_unplaced": 3, "precision": 1, "recall": 1
    }  # fmt: skip
    assert [len(call["clouds"]) for call in assembler.calls] == [3, 4, 5]


def test_a_stopped_run_goes_on_where_it_was(run, dataset, tmp_path, assembler, monkeypatch):
    words = ("--assemble", "--data", dataset, "--json", tmp_path / "report.json")
    calls = []

    def stop_at_the_third(clouds, *rest, **options):
        calls.append(len(clouds))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return FakeAssembler()(clouds, *rest, **options)

    monkeypatch.setattr("eda.evaluate.assembler_answers.assemble", stop_at_the_third)
    code, output = run(*words)
    assert code == 130
    assert "the same command goes on from there" in output
    assert [path.name for path in tmp_path.iterdir()] == ["report.json.partial.jsonl"]
    code, output = run(*words, "--seed", 5)
    assert code == 2
    assert "another command" in output
    monkeypatch.setattr("eda.evaluate.assembler_answers.assemble", assembler)
    code, output = run(*words)
    assert code == 0, output
    assert [len(call["clouds"]) for call in assembler.calls] == [4]
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
    assert json.loads((tmp_path / "report.json").read_text())["puzzles"] == NUM_PUZZLES


def test_the_parts_of_the_system_are_rows_of_one_table(run, dataset, model_file, tmp_path, assembler):
    path, table = tmp_path / "parts.json", tmp_path / "parts.csv"
    code, output = run(
        "--parts", "--model", model_file, "--data", dataset, "--points", 40, "--json", path, "--csv", table
    )  # fmt: skip
    assert code == 0, output
    parts = json.loads(path.read_text())["parts"]
    names = ["whole system", "without refinement", "single sample", "single sample, pairs alone", "plain Croco path"]
    assert list(parts) == names
    assert [parts[name]["assembler"]["refine"] for name in names[:2]] == [True, False]
    assert [call["config"].ranking.refine for call in assembler.calls] == [True] * 3 + [False] * 3
    assert [parts[name]["paths"] for name in names[2:]] == ["all", "pairs", "croco"]
    assert all((parts[name]["solver"], parts[name]["steps"]) == ("rk4", 20) for name in names[2:])
    rows = [line for line in output.splitlines() if any(f" {name} " in line for name in names)]
    assert len(rows) == len(names)
    lines = list(csv.DictReader(table.read_text().splitlines()))
    assert [line["part"] for line in lines] == [name for name in names for _ in range(NUM_PUZZLES)]


def test_figures_come_by_groups_and_so_many_of_each(run, tmp_path):
    """Four bowls and two cups, two of each."""
    for name in ("0-bowl", "1-cup", "2-bowl", "3-bowl", "4-cup", "5-bowl"):
        (tmp_path / "set" / name).mkdir(parents=True)
        for i in range(2):
            np.save(tmp_path / "set" / name / f"{i}.npy", lumpy_cloud(i, 30)[0] + 3 * i)
    poses = {name: [np.eye(4).tolist()] * 2 for name in ("0-bowl", "1-cup", "3-bowl", "4-cup")}
    answers = {"format": "eda-predictions", "version": 1, "seed": 0, "poses": poses}
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    words = ("--data", tmp_path / "set", "--predictions", tmp_path / "answers.json", "--json", "-")
    code, output = run(*words, "--by", "category,pieces", "--per-group", 2)
    assert code == 0, output
    report = json.loads(output)
    assert {group: row["puzzles"] for group, row in report["by"]["category"].items()} == {"bowl": 2, "cup": 2}
    assert report["by"]["pieces"]["2"]["puzzles"] == 4


def labelled(item: int) -> list[Example]:
    """The upper half of every piece is its break."""
    (example,) = make(item)
    upper = [np.where(cloud[:, 1] > np.median(cloud[:, 1]), 0, OUTER) for cloud in example.clouds()]
    return [replace(example, contact=np.concatenate(upper).astype(np.int16))]


@pytest.fixture(scope="module")
def labelled_dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelled") / "set"
    build(Plan(labelled, NUM_PUZZLES, {"made by": "a test"}), folder)
    return folder


@pytest.fixture(scope="module")
def break_model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("breaks") / "tiny.safetensors"
    Eda(EdaConfig(replace(TINY_NETWORK, break_head=True))).save(path)
    return path


def test_breaks_are_measured_as_by_hand(run, labelled_dataset, break_model_file):
    arguments = ("--data", labelled_dataset, "--protocol", "breaks", "--points", 60, "--json", "-")
    code, output = run("--model", break_model_file, *arguments)
    assert code == 0, output
    report, model = json.loads(output), Eda.load(break_model_file)
    areas = []
    for example in Dataset(labelled_dataset):
        thin = example.downsample(60)
        pieces = Pieces.from_clouds(thin.clouds(), thin.clouds(thin.normals))  # the head does not see turns
        probability, wanted = model.break_probability(pieces).numpy(), thin.on_break
        areas.append((probability[wanted][:, None] > probability[~wanted][None]).mean())
    assert report["metrics"]["auc"]["mean"] == pytest.approx(np.mean(areas), abs=0.01)
    assert report["metrics"]["auc"]["interval_95"][0] <= report["metrics"]["auc"]["mean"]
    assert report["by"]["pieces"].keys() == {"2", "3", "4"}
    assert report["puzzles"] == NUM_PUZZLES


def test_what_has_no_breaks_cannot_be_measured_on_them(run, dataset, labelled_dataset, model_file, break_model_file):
    for data, model, message in (
        (dataset, break_model_file, "not labelled"),
        (labelled_dataset, model_file, "no break head"),
    ):
        code, output = run("--data", data, "--model", model, "--protocol", "breaks")
        assert code == 2
        assert message in output
    code, output = run("--data", labelled_dataset, "--predictions", "x.json", "--protocol", "breaks")
    assert code == 2
    assert "no poses" in output


@pytest.mark.parametrize(("given", "seen"), [((), 30), (("--points", 40), 40)])
def test_a_model_sees_as_many_points_as_in_training_unless_told_otherwise(run, dataset, tmp_path, given, seen):
    path = tmp_path / "sparse.safetensors"
    Eda(EdaConfig(TINY_NETWORK, num_points=30)).save(path)
    settings = ("--steps", 1, "--solver", "rk1", "--repeats", 1, "--limit", 1, "--json", "-")
    code, output = run("--data", dataset, "--model", path, *settings, *given)
    assert code == 0, output
    assert json.loads(output)["points"] == seen


def test_a_model_is_found_by_name_and_put_on_the_device(run, dataset):
    code, output = run("--data", dataset, "--model", "fracture-small", "--limit", 1, "--device", "cpu", *FAST)
    assert code == 0, output
    assert "fracture-small" in output
    code, output = run("--data", dataset, "--model", "fracture-small", "--device", "abacus", *FAST)
    assert code == 2
    assert "--device" in output


def test_exported_inputs_can_be_read_as_pieces(run, dataset, tmp_path):
    code, _ = run("--data", dataset, "--export-inputs", tmp_path / "inputs", "--limit", 2)
    assert code == 0
    given = list(open_examples(str(tmp_path / "inputs")))
    assert [example.num_pieces for example in given] == [2, 3]
    assert all(example.normals is not None for example in given)
    assert not (tmp_path / "inputs" / "00002").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere", "--model", "MODEL"], "nowhere: neither a folder nor"),
        (["--data", "DATA"], "nothing to measure: give --model, --predictions, --assemble or --parts"),
        (["--data", "DATA", "--model", "MODEL", "--predictions", "MODEL"], "either --model or --predictions"),
        (["--data", "DATA", "--model", "none.safetensors"], "none.safetensors: no such model file"),
        (["--data", "DATA", "--predictions", "none.json"], "none.json"),
        (["--data", "DATA", "--predictions", "MODEL"], "JSON"),
        (["--data", "DATA", "--model", "MODEL", "--protocol", "best"], "--protocol must be one of pairwise"),
        (["--data", "DATA", "--model", "MODEL", "--solver", "magic"], "solver"),
        (["--data", "DATA", "--model", "MODEL", "--json", "none/report.json"], "none/report.json: cannot be written"),
        (["--data", "DATA", "--model", "MODEL", "--samples", "0"], "--samples"),
        (["--data", "DATA", "--model", "MODEL", "--limit", "0"], "--limit"),
        (["--model", "MODEL"], "--data"),
        (["--data", "DATA", "--assemble", "--parts"], "--assemble and --parts each say what is measured"),
        (["--data", "DATA", "--assemble", "--repeats", "2"], "the assembler runs once"),
        (["--data", "DATA", "--assemble", "--protocol", "breaks"], "there are no poses"),
        (["--data", "DATA", "--parts", "--save-predictions", "x.json"], "--parts makes several"),
        (["--data", "DATA", "--model", "MODEL", "--diagram", "x.svg"], "give --assemble or --parts"),
        (["--data", "DATA", "--model", "MODEL", "--limit", "2", "--per-group", "2"], "give one of them"),
        (["--data", "DATA", "--model", "MODEL", "--by", "colour"], "--by must be one of"),
        (["--data", "DATA", "--model", "MODEL", "--foreign", "2"], "--foreign"),
        (["--data", "fracture:puzzles"], "KEY=VALUE"),
        (["--data", "fracture:puzzles=few"], "puzzles must be a whole number, such as 100, got 'few'"),
        (["--data", "fracture:puzzles=0"], "puzzles must be a whole number"),
        (["--data", "fracture:seed=-1"], "seed must be a whole number"),
        (["--data", "fracture:shapes=unicorn"], "unicorn"),
        (["--data", "fracture:meshes=nowhere"], "nowhere"),
        (["--data", "fracture:colour=blue"], "fracture has no setting 'colour'"),
        (["--data", "folders:nowhere"], "nowhere: not there"),
        (["--data", "folders:DATA,split=all,colour=blue"], "no setting 'colour'"),
    ],
)
def test_bad_input_exits_with_2(run, dataset, model_file, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    places = {"DATA": str(dataset), "MODEL": str(model_file)}
    code, output = run(*[re.sub("DATA|MODEL", lambda m: places[m[0]], word) for word in arguments])
    assert code == 2
    assert message in " ".join(output.split())
    assert list(tmp_path.iterdir()) == []


# -- sources -----------------------------------------------------------------------------------------------


def test_the_generator_is_a_source():
    spec = "fracture:pieces=2,puzzles=2,seed=7,shapes=mug+spoon,num_points=300"
    source = open_examples(spec)
    first, second = source
    assert len(source) == 2
    assert first.num_pieces == second.num_pieces == 2
    assert first.name != second.name
    np.testing.assert_array_equal(first.points, next(iter(open_examples(spec))).points)


def test_a_folder_of_meshes_is_a_puzzle(tmp_path):
    for i, suffix in enumerate(("ply", "obj", "stl", "off")):
        box = trimesh.creation.box(extents=(1, 1, 1 + i))
        box.apply_translation((2 * i, 0, 0))
        box.export(tmp_path / f"piece_{i}.{suffix}")
    (tmp_path / "notes.txt").write_text("not a piece")
    (example,) = open_examples(str(tmp_path))
    assert example.name == tmp_path.name
    assert example.num_pieces == 4
    for i, cloud in enumerate(example.clouds()):
        np.testing.assert_allclose(np.ptp(cloud, axis=0), (1, 1, 1 + i), atol=0.2)
        assert cloud[:, 0].mean() - example.clouds()[0][:, 0].mean() == pytest.approx(2 * i, abs=0.2)
    assert np.linalg.norm(example.normals, axis=1) == pytest.approx(np.ones(len(example.points)), abs=1e-5)


def test_a_folder_of_folders_of_clouds_is_many_puzzles(tmp_path):
    for name in ("b", "a/deep"):
        (tmp_path / name).mkdir(parents=True)
        for i in range(2):
            np.save(tmp_path / name / f"{i}.npy", lumpy_cloud(i, 30)[0] + 3 * i)
    examples = list(open_examples(str(tmp_path)))
    assert [example.name for example in examples] == ["a/deep", "b"]
    assert [example.sizes.tolist() for example in examples] == [[30, 30]] * 2
    assert examples[0].normals is None


def test_real_parts_are_puzzles():
    """Meshes and clouds of the demo of Rectified Point Flow, if they are beside the repository."""
    folder = Path(__file__).parents[3] / "shared" / "data" / "rpf_demo"
    if not folder.is_dir():
        pytest.skip(f"the real data is not at {folder}")
    for example in open_examples(str(folder)):
        assert example.num_pieces == len(list((folder / example.name).glob("*.ply")))
        assert example.normals is not None


def test_a_reader_is_a_source(tmp_path):
    """With options, and commas in the path."""
    folder = tmp_path / "one, two" / "pot"
    folder.mkdir(parents=True)
    for i in range(2):
        trimesh.creation.box().apply_translation((2 * i, 0, 0)).export(folder / f"part_00{i}.ply")
    (example,) = open_examples(f"folders:{folder.parent},num_points=200,seed=3")
    assert example.name == "pot"
    assert len(example.points) == pytest.approx(200, abs=40)


def test_a_folder_that_is_no_puzzle_is_refused(tmp_path):
    with pytest.raises(InputError, match="no folder of pieces"):
        open_examples(str(tmp_path)).__len__()
    np.save(tmp_path / "a.npy", lumpy_cloud(0, 30)[0])
    trimesh.creation.box().export(tmp_path / "b.ply")
    with pytest.raises(InputError, match="some pieces are meshes and some are clouds"):
        list(open_examples(str(tmp_path)))
    (tmp_path / "b.ply").write_text("ply, but not quite")
    with pytest.raises(InputError, match=r"b\.ply"):
        list(open_examples(str(tmp_path)))
