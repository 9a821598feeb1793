"""The examples run as they stand, and say what they promise. Each is its own script; here they share one process."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("[0-9][0-9]_*.py"))

# What each of them prints when it went well; what depends on chance, such as figures, is left out.
SAYS = {
    "00": ["2 of 2 pieces placed", "piece_000 [[", "report.html"],
    "01": ["000000-bust: 2 pieces", "degrees and"],
    "02": ["the foot is where it was put: True", "degrees from where it belongs"],
    "03": ["degrees from where it belongs"],
    "04": ["pieces placed; the model is", "model.safetensors"],
    "05": ["1. score", "stranger: fits nowhere", "touches stone 1"],
    "06": ["4 samples:", "of the points are told right", "wrote"],
    "07": ["keeps the laws of equivariance: True", "on average over 8 bricks"],
}


@pytest.fixture
def run(monkeypatch, capsys):
    def script(path: Path, *words: object) -> str:
        monkeypatch.setattr(sys, "argv", [str(path), "--quick", *map(str, words)])
        runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out

    return script


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_runs(run, path, tmp_path):
    words = {"00": ["--out", tmp_path / "result"], "04": ["--out", tmp_path], "06": ["--gif", tmp_path / "flow.gif"]}
    said = run(path, *words.get(path.name[:2], []))
    for words_said in SAYS[path.name[:2]]:
        assert words_said in said


def test_every_example_is_listed_by_what_it_shows():
    listed = (EXAMPLES / "README.md").read_text()
    assert [path.name[:2] for path in SCRIPTS] == sorted(SAYS)
    for path in SCRIPTS:
        assert f"[`{path.name}`]({path.name})" in listed
