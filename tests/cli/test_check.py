"""`eda check`: what it prints where, and its exit codes."""

import json
import sys
from pathlib import Path

import pytest
import torch
from support.commands import run_command
from typer.testing import CliRunner

import eda
import eda.cli
import eda.evaluate
from eda import Eda, EdaConfig, InputError, NetworkConfig
from eda.evaluate import EquivarianceReport, LawResult


@pytest.fixture(scope="module")
def model_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.safetensors"
    network = NetworkConfig(
        num_levels=2, num_blocks=1, num_neighbors=4, cross_neighbors=3, channels=8, num_heads=2, num_knots=5
    )
    Eda(EdaConfig(network)).save(path)
    return path


@pytest.fixture
def run(monkeypatch):
    """A command in this process, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(eda.cli.app, [str(a) for a in arguments])


def report_of(relative: float = 0.0, norm: float = 1.0) -> EquivarianceReport:
    rows = [LawResult("L_R", "turn it", "float32", relative, relative, 1e-6)]
    return EquivarianceReport([*rows, LawResult("L_P", "swap it", "float64", 0.0, 0.0, 1e-13)], norm, 3)


@pytest.fixture
def reported(monkeypatch):
    """Replaces the check by a report; gives what the check was called with."""

    def use(report: EquivarianceReport) -> list[dict]:
        calls = []
        monkeypatch.setattr(eda.evaluate, "check_equivariance", lambda model, **o: calls.append(o) or report)
        return calls

    return use


def test_help_of_check_names_its_options(run):
    result = run("check", "--help")
    assert result.exit_code == 0
    for word in ("--draws", "--seed", "--json", "Exit code 1"):
        assert word in result.output


def test_check_of_a_sound_model_exits_with_0(run, model_file):
    result = run("check", model_file, "--draws", 1)
    assert result.exit_code == 0
    assert "broken" not in result.stdout
    assert result.stdout.count("holds") == 14
    for word in ("L_R", "L_P", "whole moved", "Prop. 4.5", "float32", "float64", model_file.name):
        assert word in result.stdout


def test_json_is_all_there_is(model_file):
    ran = run_command("check", model_file, "--draws", 1, "--json")
    assert ran.returncode == 0
    assert ran.stderr == ""
    values = json.loads(ran.stdout)
    assert values["holds"] is True
    assert values["draws"] == 1
    assert values["model"] == str(model_file)
    assert len(values["laws"]) == 14


def test_check_takes_the_paper_network_without_a_file(run, reported):
    calls = reported(report_of())
    result = run("check")
    assert result.exit_code == 0
    assert "untrained" in result.output
    assert calls[0]["draws"] == 20


def test_options_reach_the_check(run, reported, model_file):
    calls = reported(report_of())
    assert run("check", model_file, "--draws", 7, "--seed", 11).exit_code == 0
    assert (calls[0]["draws"], calls[0]["seed"]) == (7, 11)


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("relative", [1e-3, float("nan"), float("inf")])
def test_a_broken_law_exits_with_1(run, reported, model_file, relative, as_json):
    reported(report_of(relative))
    result = run("check", model_file, *["--json"] * as_json)
    assert result.exit_code == 1
    if as_json:
        values = json.loads(result.stdout)
        assert values["holds"] is False
        assert [law["holds"] for law in values["laws"]] == [False, True]
    else:
        assert result.stdout.count("broken") == 1


def test_a_broken_network_exits_with_1(run, model_file, monkeypatch):
    """From the model's file to the exit code, with a field that does not turn with its pieces."""
    relate = eda.nn.EdaNetwork.relate
    drift = torch.eye(6)[4]
    monkeypatch.setattr(eda.nn.EdaNetwork, "relate", lambda self, *given: (y := relate(self, *given)) + drift.to(y))
    result = run("check", model_file, "--draws", 1, "--json")
    assert result.exit_code == 1
    values = json.loads(result.stdout)
    assert not values["holds"]
    broken = {law["law"] for law in values["laws"] if not law["holds"]}
    assert broken == {"L_R", "whole moved", "samples, whole turned"}


def test_a_field_of_zero_exits_with_1_and_says_so(run, reported, model_file):
    reported(report_of(norm=0.0))
    result = run("check", model_file)
    assert result.exit_code == 1
    assert "The field is zero" in result.output


@pytest.mark.parametrize("relative", [float("nan"), float("inf")])
def test_json_is_json_for_everyone(run, reported, model_file, relative):
    reported(report_of(relative))

    def refuse(word: str):
        raise ValueError(f"{word} is not JSON")

    printed = json.loads(run("check", model_file, "--json").stdout, parse_constant=refuse)
    assert None in [law["relative"] for law in printed["laws"]]


def test_brackets_in_a_file_name_are_printed(run, reported, model_file):
    reported(report_of())
    path = model_file.with_name("tiny[best].safetensors")
    path.write_bytes(model_file.read_bytes())
    assert path.name in run("check", path).output


@pytest.mark.parametrize("draws", ["0", "-1", "many", "1.5"])
def test_a_bad_number_of_draws_exits_with_2(run, reported, model_file, draws):
    calls = reported(report_of())
    result = run("check", model_file, "--draws", draws)
    assert result.exit_code == 2
    assert "--draws" in result.stderr
    assert result.stdout == ""
    assert calls == []


def test_the_command_refuses_0_draws():
    ran = run_command("check", "--draws", 0)
    assert ran.returncode == 2
    assert "--draws" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_command_refuses_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"garbage" * 100)
    ran = run_command("check", path, "--json")
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith(f"eda: {path}: ")
    assert len(ran.stderr.splitlines()) == 1


def run_main(monkeypatch, *arguments: object) -> int | str | None:
    """The exit code of `main`, in this process."""
    monkeypatch.setattr(sys, "argv", ["eda", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        eda.cli.main()
    return caught.value.code


@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "truncated"])
def test_main_refuses_a_file_that_is_no_model(tmp_path, model_file, monkeypatch, capsys, kind):
    path = tmp_path / "model.safetensors"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(b"" if kind == "empty" else model_file.read_bytes()[:-10])
    assert run_main(monkeypatch, "check", path) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"eda: {path}: ")
    assert len(printed.err.splitlines()) == 1


def raising(error: BaseException):
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(("error", "code"), [(InputError("too odd"), 2), (KeyboardInterrupt(), 130)])
def test_main_turns_errors_into_exit_codes(model_file, monkeypatch, capsys, error, code):
    monkeypatch.setattr(eda.evaluate, "check_equivariance", raising(error))
    assert run_main(monkeypatch, "check", model_file, "--json") == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    assert printed.err == {2: "eda: too odd\n", 130: "eda: interrupted\n"}[code]


def test_main_does_not_hide_a_bug(model_file, monkeypatch, capsys):
    monkeypatch.setattr(eda.evaluate, "check_equivariance", raising(ZeroDivisionError("a bug")))
    assert run_main(monkeypatch, "check", model_file) == 1
    assert "ZeroDivisionError: a bug" in capsys.readouterr().err
    assert run_main(monkeypatch, "--debug", "check", model_file) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_negative_seed_exits_with_2(run, reported, model_file):
    calls = reported(report_of())
    result = run("check", model_file, "--seed", -1)
    assert result.exit_code == 2
    assert "--seed" in result.stderr
    assert calls == []


def test_weights_that_overflow_exit_with_1(tmp_path, model_file, monkeypatch):
    path, model = tmp_path / "large.safetensors", eda.load(model_file)
    torch.nn.init.constant_(model.network.head.output.weight, 1e38)
    model.save(path)
    assert run_main(monkeypatch, "check", path, "--draws", 1) == 1
