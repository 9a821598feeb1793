"""For tests: a command of `eda` run in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

import eda.cli


def quiet_command(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """`eda NAME ... --quiet` as a function of its words, which gives its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["eda", name, *map(str, words), "--quiet"])
        with pytest.raises(SystemExit) as ended:
            eda.cli.main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out + printed.err

    return run
