"""The log of a run: one line of JSON per report, whole lines only."""

from __future__ import annotations

import contextlib
import json
from io import FileIO
from pathlib import Path
from typing import Any

from eda.errors import InputError
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


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The entries of the log in a folder, without the half line that a killed run may have left at its end.

    Raises `InputError` if there is no log, or if it is not one.
    """
    file = folder / LOG_FILE
    try:
        *lines, _ = file.read_bytes().split(b"\n")  # the last part is empty, or was cut off
        entries = [json.loads(line) for line in lines]
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: not the log of a training run ({error})") from error
    if not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{file}: not the log of a training run (a line is no table)")
    return entries


def _write_all(file: FileIO, line: bytes) -> None:
    while line:
        line = line[file.write(line) :]


def _remove_half_line(file: FileIO) -> None:
    end = file.seek(0, 2)
    file.seek(0)
    lines = file.read(end)
    if lines and not lines.endswith(b"\n"):
        file.truncate(lines.rfind(b"\n") + 1)
