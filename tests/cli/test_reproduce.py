"""`eda reproduce`: its options, what it prints, and its exit codes."""

import json

import pytest
from support.lumpy_shapes import TINY_NETWORK
from support.measured_puzzles import example
from support.small_datasets import dataset_of
from typer.testing import CliRunner

from eda import Eda, EdaConfig, InputError
from eda.cli import app
from eda.reproduce import EXPERIMENTS


def run(*words) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["reproduce", *map(str, words)])
    if isinstance(result.exception, InputError):
        return 2, str(result.exception)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.fixture
def words(tmp_path) -> tuple:
    """A very small run of `steps`."""
    Eda(EdaConfig(TINY_NETWORK, num_points=60)).save(tmp_path / "tiny.safetensors")
    dataset_of(tmp_path / "set", [example(2, i) for i in range(3)])
    given = ("--set", f"model={tmp_path / 'tiny.safetensors'}", "--set", "solvers=rk1", "--set", "steps=1")
    return ("steps", "--out", tmp_path / "out", "--data", tmp_path / "set", "--threads", 1, *given)


def test_the_list_names_all_with_their_numbers():
    code, output = run("list")
    assert code == 0
    assert [line.split()[0] for line in output.splitlines()] == list(EXPERIMENTS)
    assert "Table 6" in output


def test_settings_are_listed():
    code, output = run("steps", "--options")
    assert code == 0
    assert "solvers=rk1+rk4" in output.splitlines()


def test_a_table_is_printed_and_written(words, tmp_path):
    code, output = run(*words, "--set", "puzzles=2")
    assert code == 0, output
    assert "Eda (RK1, 1)" in output
    assert "2 of 2 done" in output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"steps.jsonl", "steps.md", "steps.svg"}
    head = json.loads((tmp_path / "out" / "steps.jsonl").read_text().splitlines()[0])
    assert head["settings"]["data"] == str(tmp_path / "set")
    assert head["settings"]["puzzles"] == 2


def test_an_interrupted_run_says_how_to_go_on(words, monkeypatch):
    def interrupt(*rest, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("eda.model.Eda.sample", interrupt)
    code, output = run(*words)
    assert code == 130
    assert "the same command goes on from there" in output


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("steps",), "no folder for the results"),
        (("best", "--out", "x"), "nothing called 'best'"),
        (("steps", "--out", "x", "--scale", "huge"), "--scale must be one of cpu, paper"),
        (("steps", "--out", "x", "--execute"), "add --scale paper"),
        (("all", "--out", "x", "--set", "seed=1"), "belong to one table or figure"),
        (("steps", "--out", "x", "--set", "seed"), "expected KEY=VALUE"),
        (("equivariance", "--out", "x", "--data", "set"), "equivariance has no setting 'data'"),
        (("steps", "--out", "x", "--scale", "paper"), "--data 3dmatch:FOLDER"),
        (("all", "--out", "x", "--scale", "paper"), "name one table or figure instead of all; each needs its own"),
        (("steps", "--out", "x", "--scale", "paper", "--threads", "1"), "--threads belongs to the scale of a CPU"),
        (("steps", "--out", "x", "--scale", "paper", "--set", "puzzles=3"), "where solvers and steps can be set"),
        (("pieces", "--out", "x", "--scale", "paper", "--set", "steps=3"), "--set steps: not read at the paper's"),
        (("all", "--options"), "--options lists the settings of one table or figure"),
        (("best", "--options"), "nothing called 'best'"),
    ],
)
def test_mistakes_are_explained_before_any_work(given, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, output = run(*given)
    assert code == 2
    assert message in output
    assert not list(tmp_path.iterdir())


def test_a_plan_is_printed_as_a_script(tmp_path, monkeypatch):
    monkeypatch.setattr("eda.reproduce.plan.open_reader", lambda kind, path, **options: [0])
    code, output = run("pieces", "--out", tmp_path, "--scale", "paper", "--data", "kitti:/kitti", "--processes", 2)
    assert code == 0, output
    assert output.startswith("#!/bin/sh\nset -e\neda prepare kitti /kitti ")
    assert "--nproc-per-node 2 -m eda.cli train kitti-3" in output
    assert not list(tmp_path.iterdir())
