"""Plan: an experiment at the paper's scale, as the commands that a user would type, in order.

Printed, it is a shell script; executed, it goes on where it stopped: `eda prepare` and `eda train` resume by
themselves, and a measurement whose report is there is not made again.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eda.data.readers import open_reader
from eda.data.setting_text import split_words
from eda.errors import InputError
from eda.reproduce.comparison import Comparison, MeasuredRow, pairwise_figures

# Where the paper's datasets come from.
HOMES = {
    "breaking-bad": "https://breaking-bad-dataset.github.io",
    "3dmatch": "https://3dmatch.cs.princeton.edu, as prepared by Predator or GeoTransformer",
    "kitti": "https://www.cvlibs.net/datasets/kitti/eval_odometry.php",
}


@dataclass(frozen=True)
class Command:
    """One line of a plan."""

    words: tuple[str, ...]
    report: Path | None = None  # what it writes when it is done; nothing to do where it is there

    @property
    def line(self) -> str:
        """As a user types it."""
        return shlex.join(self.words)

    @property
    def arguments(self) -> list[str]:
        """By the Python that runs now, so that no PATH matters."""
        program, *rest = self.words
        module = {"eda": "eda.cli", "torchrun": "torch.distributed.run"}[program]
        return [sys.executable, "-m", module, *rest]


@dataclass(frozen=True)
class Plan:
    """Commands, and which report gives which row of the table."""

    commands: Sequence[Command]
    title: str = ""
    columns: Mapping[str, str] | None = None
    labels: Sequence[str] = ()
    reports: Mapping[tuple[str, str], Path] | None = None  # group, system -> report of `eda evaluate`

    def script(self) -> str:
        """As a shell script."""
        return "\n".join(["#!/bin/sh", "set -e", *(command.line for command in self.commands), ""])

    def execute(self, say: Callable[[str], None]) -> None:
        """Run what is not done. Raises `InputError` where a command fails."""
        for number, command in enumerate(self.commands, start=1):
            what = f"{number} of {len(self.commands)}: {command.line}"
            if command.report is not None and command.report.is_file():
                say(f"{what}\n  is done")
                continue
            say(what)
            done = subprocess.run(command.arguments)
            if done.returncode:
                raise InputError(
                    f"stopped at step {what} (exit code {done.returncode}); the same command goes on from there"
                )

    def comparison(self) -> Comparison | None:
        """The figures of the reports beside the printed ones; None for a plan without a table."""
        if not self.reports or not self.columns:
            return None
        rows = [
            MeasuredRow(group, system, pairwise_figures(json.loads(path.read_bytes())))
            for (group, system), path in self.reports.items()
        ]
        return Comparison(self.title, self.columns, rows, self.labels)


@dataclass(frozen=True)
class PaperRun:
    """What a user has for an experiment at the paper's scale."""

    data: str | None  # KIND:PATH
    folder: Path
    processes: int = 3  # the paper's GPUs

    def source(self, kind: str, **options: Any) -> str:
        """The path of the paper's dataset, which must be of this kind and readable with these options."""
        given, _, rest = (self.data or "").partition(":")
        if given != kind or not rest:
            raise InputError(
                f"at the paper's scale this needs the dataset itself, from {HOMES[kind]}: give its folder with "
                f"--data {kind}:FOLDER"
            )
        path, *words = split_words(rest)
        if words:
            raise InputError(f"--data {self.data}: the paper's options are set here; give only {kind}:{path}")
        self.check(kind, path, **options)
        return path

    def check(self, kind: str, path: str, **options: Any) -> None:
        """Raises `InputError`, which says what is missing, unless this part of a dataset is there."""
        try:
            len(open_reader(kind, path, **options))
        except InputError as error:
            wanted = ",".join(f"{key}={value}" for key, value in options.items())
            raise InputError(f"{kind}:{path},{wanted} cannot be read: {error}") from error

    def prepare(self, kind: str, path: str, name: str, settings: Mapping[str, Any]) -> tuple[Command, Path]:
        """The command that writes a dataset as shards, and where."""
        folder = self.folder / "data" / name
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        return Command(("eda", "prepare", kind, path, str(folder), *words)), folder

    def train(self, recipe: str, name: str, data: Path, settings: Sequence[str] = ()) -> tuple[Command, Path]:
        """The command that trains, and its model file."""
        folder = self.folder / "runs" / name
        changed = [word for setting in settings for word in ("--set", setting)]
        launch = ("torchrun", "--standalone", "--nproc-per-node", str(self.processes), "-m", "eda.cli", "train")
        command = Command((*launch, recipe, "--out", str(folder), "--data", str(data), *changed))
        return command, folder / "model.safetensors"

    def evaluate(self, model: Path, data: str, name: str, *words: str) -> tuple[Command, Path]:
        """The command that measures single samples, and its report."""
        report = self.folder / f"{name}.json"
        options = ("--model", str(model), "--data", data, *words, "--json", str(report))
        return Command(("eda", "evaluate", *options), report), report
