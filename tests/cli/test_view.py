"""`eda view`: it opens the report of a result, or prints its address."""

import sys
import webbrowser

import pytest
from typer.testing import CliRunner

from eda import InputError
from eda.cli import app


@pytest.fixture
def result(tmp_path):
    folder = tmp_path / "my result ä"
    folder.mkdir()
    (folder / "report.html").write_text("<!doctype html>")
    return folder


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """What the browser was asked to open, on a machine with a display."""
    calls: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: calls.append(url) is None)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("DISPLAY", ":0")
    return calls


def run(path):
    return CliRunner().invoke(app, ["view", str(path)])


@pytest.mark.parametrize("given", ["", "report.html"])
def test_the_report_is_opened(result, opened, given):
    done = run(result / given)
    assert done.exit_code == 0
    assert opened == [(result / "report.html").as_uri()]
    assert done.output.startswith("opened ")


def test_without_a_display_its_place_is_said(result, opened, monkeypatch):
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    done = run(result)
    assert done.exit_code == 0
    assert opened == []
    assert (result / "report.html").as_uri() in done.output


def test_a_browser_that_does_not_start_is_no_failure(result, opened, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    done = run(result)
    assert done.exit_code == 0
    assert (result / "report.html").as_uri() in done.output


@pytest.mark.parametrize(
    ("name", "message"),
    [("nowhere", "does not exist"), ("empty", "contains no report"), ("notes.txt", "contains no report")],
)
def test_what_is_no_result_is_an_input_error(tmp_path, opened, name, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("not a result")
    done = run(tmp_path / name)
    assert isinstance(done.exception, InputError)
    assert f"{tmp_path / name}: {message}; give the folder" in str(done.exception)
    assert opened == []
