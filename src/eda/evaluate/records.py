"""Record: what came of one puzzle, and the journal that keeps records while a long evaluation runs.

A journal is a file of JSON lines beside the report: first what is measured, then one line a puzzle. A run that was
stopped reads it and goes on with the puzzles that are missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eda.errors import InputError
from eda.evaluate.reliability import Claims
from eda.lie import SE3


@dataclass(frozen=True)
class Unplaced:
    """How many pieces of a puzzle were left unplaced, of those there are."""

    own: int
    num_own: int
    foreign: int
    num_foreign: int


@dataclass(frozen=True)
class Record:
    """What came of one puzzle."""

    index: int  # in the source
    name: str
    num_pieces: int  # of the object's own
    figures: dict[str, np.ndarray]  # (R, K) each; NaN where one is not defined
    groups: dict[str, str] = field(default_factory=dict)  # property -> group
    poses: SE3 | None = None  # (R, K, N), what was scored
    seconds: np.ndarray | None = None  # (R,) wall time; None if somebody else did the work
    unplaced: Unplaced | None = None  # None: the system places every piece
    claims: Claims | None = None
    model: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it; NaN becomes None."""
        return {
            "index": self.index,
            "name": self.name,
            "num_pieces": self.num_pieces,
            "figures": {name: _without_nan(values.tolist()) for name, values in self.figures.items()},
            "groups": self.groups,
            "poses": None if self.poses is None else self.poses.matrix().tolist(),
            "seconds": None if self.seconds is None else self.seconds.tolist(),
            "unplaced": None if self.unplaced is None else vars(self.unplaced),
            "claims": self.claims,
            "model": self.model,
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Record:
        """The inverse of `as_dict`."""
        poses, seconds, unplaced = values["poses"], values["seconds"], values["unplaced"]
        return Record(
            index=values["index"],
            name=values["name"],
            num_pieces=values["num_pieces"],
            figures={name: np.array(rows, dtype=np.float64) for name, rows in values["figures"].items()},
            groups=values["groups"],
            poses=None if poses is None else SE3.from_matrix(torch.tensor(poses, dtype=torch.float64)),
            seconds=None if seconds is None else np.array(seconds),
            unplaced=None if unplaced is None else Unplaced(**unplaced),
            claims=values["claims"],
            model=values["model"],
        )


def _without_nan(rows: list[list[float]]) -> list[list[float | None]]:
    return [[None if value != value else value for value in row] for row in rows]


class Journal:
    """The finished records of a run, by the part of the system that was measured and the puzzle's index."""

    def __init__(self, path: Path | None, command: Mapping[str, Any], made: str = "the file") -> None:
        """Read what is there. Without a path nothing is kept. `command` is all that records depend on.

        `made` is what a user has to remove to start anew.
        """
        self.path, self.command = path, json.loads(json.dumps(dict(command)))
        self.records: dict[tuple[str, int], Record] = {}
        if path is not None and path.is_file():
            self._read(path, made)

    def _read(self, path: Path, made: str) -> None:
        head, *lines = map(_parsed, path.read_text().split("\n"))  # the last line is empty, or was cut off
        if head is not None and head != self.command:
            raise InputError(f"{path}: kept by another command; run that one again, or remove {made} to start anew")
        for entry in lines:
            if entry is not None:
                record = Record.from_dict(entry["record"])
                self.records[entry["part"], record.index] = record

    def finished(self, part: str) -> list[Record]:
        """The records of a part, in the order of the source."""
        return [record for (of, _), record in sorted(self.records.items(), key=lambda item: item[0]) if of == part]

    def keep(self, part: str, record: Record) -> None:
        """Append one record to the file."""
        self.records[part, record.index] = record
        if self.path is None:
            return
        begins = not self.path.is_file() or not self.path.stat().st_size
        with self.path.open("a") as file:
            # A line of its own, also after one that was cut off.
            file.write(f"{json.dumps(self.command) if begins else ''}\n")
            file.write(json.dumps({"part": part, "record": record.as_dict()}))


def _parsed(line: str) -> Any | None:
    try:
        return json.loads(line)
    except ValueError:
        return None
