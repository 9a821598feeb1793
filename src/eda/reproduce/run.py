"""Running an experiment in its folder: measured on a CPU, or the plan of the paper's scale.

NAME.jsonl     every finished puzzle, so that a run that was stopped goes on; first, what was asked for
NAME.md        the page
NAME.svg       its picture, if there is one
NAME/          datasets and training runs that are made on the way
NAME-paper.md  the page of the paper's scale; paper/ has what it is made of, which all plans share
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import eda
from eda.atomic import write_atomically
from eda.errors import InputError
from eda.evaluate import Journal
from eda.folder_lock import FolderLock
from eda.reproduce.catalogue import make_experiment
from eda.reproduce.equivariance_error import UNTRAINED
from eda.reproduce.experiment import Experiment, Findings
from eda.reproduce.plan import PaperRun, Plan
from eda.reproduce.results_page import page, paper_page, settings_of
from eda.reproduce.workbench import Advance, Workbench, weights_of


@dataclass(frozen=True)
class Request:
    """What is asked for: an experiment by name, its settings as text, and where results go."""

    name: str
    settings: Mapping[str, str]
    folder: Path
    command: str  # as the user typed it, for the page

    @property
    def experiment(self) -> Experiment:
        """The experiment. Raises `InputError` for settings that it does not have."""
        return make_experiment(self.name, self.settings)

    def file(self, suffix: str) -> Path:
        """A file of this experiment."""
        return self.folder / f"{self.name}{suffix}"


def reproduce(request: Request, say: Callable[[str], None], advance: Advance) -> Findings:
    """Measure at the scale of a CPU, or go on with it, and write page and picture."""
    experiment = request.experiment
    with _claimed(request.folder):
        made = f"{request.file('.jsonl')} and {request.file('')}/"
        journal = Journal(request.file(".jsonl"), _identity(request.name, experiment), made)
        findings = experiment.measure(Workbench(request.folder / request.name, journal, say, advance))
        picture = request.file(".svg") if findings.drawing else None
        if picture is not None and findings.drawing:
            write_atomically(picture, findings.drawing.encode())
        text = page(experiment, findings, request.command, picture.name if picture else None)
        write_atomically(request.file(".md"), text.encode())
    return findings


def plan_of(request: Request, data: str | None, processes: int) -> Plan:
    """The commands of the paper's scale; everything is made below `paper`.

    Raises `InputError` where data are missing, and for a setting that only the scale of a CPU has.
    """
    experiment = request.experiment
    for key in request.settings:
        if key not in experiment.plan_settings:
            which = " and ".join(experiment.plan_settings) or "nothing"
            raise InputError(f"--set {key}: not read at the paper's scale, where {which} can be set for {request.name}")
    return experiment.plan(PaperRun(data, request.folder / "paper", request.name, processes))


def execute(request: Request, plan: Plan, say: Callable[[str], None]) -> None:
    """Run the commands of a plan that are not done, and write the page of what they measured."""
    with _claimed(request.folder):
        (request.folder / "paper").mkdir(exist_ok=True)
        plan.execute(say)
        comparison = plan.comparison()
        if comparison is not None:
            text = paper_page(request.experiment, comparison, request.command)
            write_atomically(request.file("-paper.md"), text.encode())


def _claimed(folder: Path) -> FolderLock:
    """The folder, made and locked."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be used for results ({error})") from error
    return FolderLock(folder)


def _identity(name: str, experiment: Experiment) -> dict[str, Any]:
    """All that results depend on: a journal that was kept for something else is refused."""
    settings = dict(settings_of(experiment))
    models = [settings.get("model"), *settings.get("models", ())]
    weights = [weights_of(model) for model in models if model and model != UNTRAINED]
    return {"experiment": name, "settings": settings, "weights": weights, "version": eda.__version__}
