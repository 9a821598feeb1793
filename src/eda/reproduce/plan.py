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
from eda.train.log import LOG_FILE, read_log
from eda.train.loop import MAX_FAILED_STEPS

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
    may_diverge: Path | None = None  # the run of a training that may fail to converge, which is a result too

    @property
    def line(self) -> str:
        """As a user types it."""
        return shlex.join(self.words)

    def uses(self, run: Path) -> bool:
        """Whether it takes something out of the folder of a training run."""
        return any(word.startswith(f"{run}/") for word in self.words)

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
    columns: Mapping[str, str] | None = None
    labels: Sequence[str] = ()
    reports: Mapping[tuple[str, str], Path] | None = None  # group, system -> report of `eda evaluate`

    def script(self) -> str:
        """As a shell script. Where a training that may diverge fails, it goes on with what does not need it."""
        runs = [command.may_diverge for command in self.commands if command.may_diverge is not None]
        lines = ["#!/bin/sh", "set -e"]
        for command in self.commands:
            run = command.may_diverge
            if run is not None:
                tried = " && ".join(each.line for each in [command, *self._users_of(run)])
                said = shlex.join(["echo", f"{run}: was not trained or not measured; going on"])
                lines.append(f"{{ {tried}; }} || {said} >&2")
            elif not any(command.uses(run) for run in runs):
                lines.append(command.line)
        return "\n".join([*lines, ""])

    def _users_of(self, run: Path) -> list[Command]:
        return [command for command in self.commands if command.uses(run)]

    def execute(self, say: Callable[[str], None]) -> None:
        """Run what is not done. Raises `InputError` where a command fails, unless its training diverged."""
        diverged: list[Path] = []
        for number, command in enumerate(self.commands, start=1):
            what = f"{number} of {len(self.commands)}: {command.line}"
            if command.report is not None and command.report.is_file():
                say(f"{what}\n  is done")
                continue
            if any(command.uses(run) for run in diverged):
                say(f"{what}\n  is left out: the training did not converge")
                continue
            say(what)
            done = subprocess.run(command.arguments)
            if done.returncode and command.may_diverge is not None and has_diverged(command.may_diverge):
                diverged.append(command.may_diverge)
            elif done.returncode:
                raise InputError(
                    f"stopped at step {what} (exit code {done.returncode}); the same command goes on from there"
                )

    def comparison(self) -> Comparison | None:
        """The figures of the reports beside the printed ones; None for a plan without a table."""
        if not self.reports or not self.columns:
            return None
        rows = [MeasuredRow(group, system, _figures(path)) for (group, system), path in self.reports.items()]
        return Comparison(self.columns, rows, self.labels)


def has_diverged(run: Path) -> bool:
    """Whether the last steps of a training run all failed, by its log: `torchrun` hides the exit code."""
    entries = read_log(run) if (run / LOG_FILE).is_file() else []
    last = entries[-(MAX_FAILED_STEPS - 1) :]
    return len(last) == MAX_FAILED_STEPS - 1 and all("trouble" in entry for entry in last)


def _figures(report: Path) -> dict[str, str]:
    """Those of a report; of one that was never written, that its training did not converge."""
    return pairwise_figures(json.loads(report.read_bytes())) if report.is_file() else {"puzzles": "did not converge"}


@dataclass(frozen=True)
class PaperRun:
    """What a user has for an experiment at the paper's scale."""

    data: str | None  # KIND:PATH
    folder: Path  # that plans share, so that no model is trained twice
    name: str  # of the experiment, for its reports
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

    def breaking_bad(self) -> tuple[list[Command], Path, Path]:
        """The commands that prepare Breaking Bad and train on it; its test split, and the model."""
        path, reading = self.source("breaking-bad", split="train"), {"grid": 0.02, "max_piece_points": 2500}
        self.check("breaking-bad", path, split="val")
        prepare, data = self.prepare("breaking-bad", path, "breaking-bad-train", {"split": "train", **reading})
        prepare_test, test = self.prepare("breaking-bad", path, "breaking-bad-val", {"split": "val", **reading})
        train, model = self.train("breaking-bad", "breaking-bad", data)
        return [prepare, prepare_test, train], test, model

    def threedmatch(self) -> tuple[list[Command], str, Path, Path]:
        """The commands that prepare 3DMatch; its folder, and the datasets to learn from and to validate on."""
        path = self.source("3dmatch", split="train")
        for split in ("val", "3DMatch", "3DLoMatch"):
            self.check("3dmatch", path, split=split)
        prepare, data = self.prepare("3dmatch", path, "3dmatch-train", {"split": "train", "min_overlap": 0.1})
        prepare_val, validation = self.prepare("3dmatch", path, "3dmatch-val", {"split": "val", "min_overlap": 0.1})
        return [prepare, prepare_val], path, data, validation

    def threedzeromatch(self, path: str) -> tuple[list[Command], Path]:
        """The commands that prepare pairs without overlap and train on them, and the model."""
        for part in ("train", "test"):
            self.check("3dzeromatch", path, part=part)
        prepare, data = self.prepare("3dzeromatch", path, "3dzeromatch-train", {"part": "train"})
        train, model = self.train("3dzeromatch", "3dzeromatch", data)
        return [prepare, train], model

    def prepare(self, kind: str, path: str, name: str, settings: Mapping[str, Any]) -> tuple[Command, Path]:
        """The command that writes a dataset as shards, and where."""
        folder = self.folder / "data" / name
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        return Command(("eda", "prepare", kind, path, str(folder), *words)), folder

    def train(
        self, recipe: str, name: str, data: Path, validation: Path | None = None, settings: Sequence[str] = ()
    ) -> tuple[Command, Path]:
        """The command that trains, and its model file."""
        folder = self.folder / "runs" / name
        watched = () if validation is None else ("--validation", str(validation))
        changed = [word for setting in settings for word in ("--set", setting)]
        launch = ("torchrun", "--standalone", "--nproc-per-node", str(self.processes), "-m", "eda.cli", "train")
        command = Command((*launch, recipe, "--out", str(folder), "--data", str(data), *watched, *changed))
        return command, folder / "model.safetensors"

    def evaluate(self, model: Path, data: str, name: str, *words: str) -> tuple[Command, Path]:
        """The command that measures single samples, and its report."""
        report = self.folder / f"{self.name}-{name}.json"
        options = ("--model", str(model), "--data", data, *words, "--json", str(report))
        return Command(("eda", "evaluate", *options), report), report
