"""Workbench: where an experiment measures and trains, so that what is finished is kept and never done twice.

Results per puzzle go into a journal, a file of JSON lines, as they come; training keeps its state in a folder.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eda
from eda.atomic import write_atomically
from eda.data import Example, Plan, Source, build, open_examples
from eda.data.source import ItemSource, LeftOut
from eda.data.storage.shards import MANIFEST
from eda.errors import InputError
from eda.evaluate import AnswerSource, Evaluation, Journal, PuzzleSet, Record, evaluate
from eda.model import Eda
from eda.train import Ranks, TrainConfig, Watcher, train
from eda.weights import path_of

Advance = Callable[[str, int, int], None]  # what is being done, units done, units in all


@dataclass(frozen=True)
class Trial:
    """One system on some puzzles."""

    system: str  # its name, unique in an experiment
    puzzles: PuzzleSet
    answers: Callable[[], AnswerSource]  # made only if puzzles are left: it may load or train a model
    protocol: str = "pairwise"
    by: tuple[str, ...] = ("pieces",)


@dataclass(frozen=True)
class Workbench:
    """The folder of one experiment, its journal, and whom to tell about progress."""

    folder: Path  # of runs and datasets that are made on the way
    journal: Journal
    say: Callable[[str], None] = lambda line: None
    advance: Advance = lambda what, done, total: None

    # -- measuring -------------------------------------------------------------------------------------------

    def evaluate(self, trials: Sequence[Trial]) -> dict[str, Evaluation]:
        """The figures of every system. Puzzles that the journal has are not assembled again."""
        total, evaluations = sum(len(trial.puzzles) for trial in trials), {}
        clock = _Clock(sum(len(self.journal.finished(trial.system)) for trial in trials), total)
        for trial in trials:
            evaluations[trial.system] = self._evaluate(trial, clock)
            self.say(f"{trial.system}: {len(evaluations[trial.system].records)} puzzles; {clock.left()}")
        return evaluations

    def _evaluate(self, trial: Trial, clock: _Clock) -> Evaluation:
        finished = self.journal.finished(trial.system)

        def keep(record: Record) -> None:
            self.journal.keep(trial.system, record)
            self.advance(trial.system, *clock.tick())

        if len(finished) >= len(trial.puzzles):
            return Evaluation(trial.protocol, finished)
        self.advance(trial.system, clock.done, clock.total)
        left = trial.puzzles.scatter([record.index for record in finished])
        return evaluate(trial.answers().answers(left), trial.protocol, by=trial.by, finished=finished, keep=keep)

    def once(self, part: str, name: str, measure: Callable[[], Mapping[str, float]]) -> Record:
        """A few figures that belong to no puzzle."""
        for record in self.journal.finished(part):
            if record.name == name:
                return record
        figures = {key: np.array([[value]]) for key, value in measure().items()}
        record = Record(len(self.journal.finished(part)), name, 0, figures)
        self.journal.keep(part, record)
        return record

    # -- puzzles ---------------------------------------------------------------------------------------------

    def puzzles(self, data: str, **choice: Any) -> PuzzleSet:
        """Some puzzles of a source, each read or made only once, however many systems are measured on it."""
        return PuzzleSet.choose(_ReadOnce(open_examples(data)), **choice)

    def dataset(self, name: str, data: str) -> Path:
        """A dataset to learn from: the one in this folder, or else what a source gives, written as shards."""
        if (Path(data) / MANIFEST).is_file():
            return Path(data)
        folder = self.folder / "data" / name
        plan = Plan.from_source(open_examples(data), {"source": data}, skip_bad=False)
        build(plan, folder, progress=lambda done, total: self.advance(f"making {name}", done, total))
        return folder

    # -- training --------------------------------------------------------------------------------------------

    def train(self, name: str, config: TrainConfig, examples: Sequence[Example] = ()) -> Eda:
        """The averaged weights of a run on the CPU. It goes on where it was stopped."""
        folder = self.claim(name, config)
        watcher = Watcher(config, folder, self.say, examples)
        run = train(config, folder, Ranks(0, 1, torch.device("cpu")), watcher)
        if not run.done:
            raise KeyboardInterrupt
        return run.averaged

    def claim(self, name: str, config: TrainConfig) -> Path:
        """The folder of a run. Raises `InputError` if another version or another config began it."""
        folder = self.run_folder(name)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "config.json"
        begun = json.loads(json.dumps({"version": eda.__version__, "config": dataclasses.asdict(_resolved(config))}))
        if file.is_file() and json.loads(file.read_bytes()) != begun:
            raise InputError(
                f"{folder}: holds a run of another version or with other settings; choose another folder with "
                f"--out, or remove {self.folder}.jsonl and {self.folder}/ to start anew"
            )
        write_atomically(file, json.dumps(begun, indent=1).encode())
        return folder

    def run_folder(self, name: str) -> Path:
        """Of a training run."""
        return self.folder / "runs" / name


def _resolved(config: TrainConfig) -> TrainConfig:
    """A config with absolute paths of its data, the same however they were typed."""
    train, validation = _resolved_folders(config.data.train), _resolved_folders(config.data.validation)
    return dataclasses.replace(config, data=dataclasses.replace(config.data, train=train, validation=validation))


def _resolved_folders(folders: str) -> str:
    """Of a folder, or of several joined by +."""
    parts = [folders] if Path(folders).is_dir() else folders.split("+")
    return "+".join(str(Path(part).resolve()) if part else "" for part in parts)


def weights_of(model: str) -> str:
    """The name of a model with a short fingerprint of its file, so that results tell which weights gave them."""
    try:
        content = path_of(Path(model)).read_bytes()
    except OSError as error:
        raise InputError(f"{model}: cannot be read ({error})") from error
    return f"{model} ({hashlib.sha256(content).hexdigest()[:12]})"


class _ReadOnce(ItemSource[int]):
    """A source that keeps the puzzles that were read, or why they were left out."""

    def __init__(self, source: Source) -> None:
        self._source, self._read = source, dict[int, Example | LeftOut]()

    @property
    def items(self) -> range:
        """The numbers of the puzzles."""
        return range(len(self._source))

    def read(self, item: int) -> Example:
        """Read it, or give what was read before."""
        if item not in self._read:
            try:
                self._read[item] = self._source[item]
            except LeftOut as reason:
                self._read[item] = reason
        found = self._read[item]
        if isinstance(found, LeftOut):
            raise found
        return found


class _Clock:
    """How many puzzles are done, and an estimate of the time that the others take."""

    def __init__(self, done: int, total: int) -> None:
        self.done, self.total, self._first, self._began = done, total, done, time.perf_counter()

    def tick(self) -> tuple[int, int]:
        """One more is done. -> done, total."""
        self.done += 1
        return self.done, self.total

    def left(self) -> str:
        """In words."""
        made = self.done - self._first
        if not made or self.done >= self.total:
            return f"{self.done} of {self.total} done"
        seconds = (time.perf_counter() - self._began) / made * (self.total - self.done)
        return f"{self.done} of {self.total} done, about {seconds / 60:.1f} min left"
