"""The log of a run: one line of JSON per report, whole lines only."""

from __future__ import annotations

import contextlib
import json
from io import FileIO
from pathlib import Path
from typing import Any

from eda.train.writing import writing

LOG_FILE = "log.jsonl"


class RunLog:
    """Appends to the log in a folder; removes the half line that a killed run may have left at its end."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG_FILE
        self._checked = False

    def append(self, entry: dict[str, Any]) -> None:
        """Write one line, or none of it if the disk is full. Raises `WriteError`."""
        with writing(self._path), FileIO(self._path, "ab+") as file:
            if not self._checked:
                _remove_half_line(file)
                self._checked = True
            end = file.seek(0, 2)
            try:
                _write_all(file, json.dumps(entry).encode() + b"\n")
            except OSError:
                with contextlib.suppress(OSError):
                    file.truncate(end)
                raise


def _write_all(file: FileIO, line: bytes) -> None:
    while line:
        line = line[file.write(line) :]


def _remove_half_line(file: FileIO) -> None:
    end = file.seek(0, 2)
    file.seek(0)
    lines = file.read(end)
    if lines and not lines.endswith(b"\n"):
        file.truncate(lines.rfind(b"\n") + 1)
