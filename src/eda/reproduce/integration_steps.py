"""Errors against the number of integration steps, by RK1 and RK4, and the training curve of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from eda.errors import InputError
from eda.evaluate import Evaluation, NetworkAnswers, Sampling, summarize
from eda.flow import SOLVERS
from eda.model import Eda
from eda.reproduce.comparison import PAIRWISE_COLUMNS, Comparison, MeasuredRow, pairwise_figures
from eda.reproduce.curves import Curve, charts
from eda.reproduce.experiment import Experiment, Findings
from eda.reproduce.plan import PaperRun, Plan
from eda.reproduce.workbench import Trial, Workbench, weights_of
from eda.settings import check_choice
from eda.train.log import read_log

CLOSE = 10.0  # degrees
COLUMNS = {**PAIRWISE_COLUMNS, "close": "within 10 deg [%]", "minutes": "minutes"}


@dataclass(frozen=True)
class IntegrationSteps(Experiment):
    """Settings: the model and its puzzles, the solvers and numbers of steps, and a run whose curve is drawn."""

    title = "Errors against the number of integration steps"
    labels = ("fig-registration",)
    differences = (
        "Every setting starts from the same noise, on the same puzzles; the paper's figure is of 3DLoMatch.",
        "The mean error of uncertain answers may grow when samples become sharper, so the share of samples within 10 "
        "degrees stands beside it.",
        "The paper prints no figures for these curves, only the picture.",
    )
    plan_settings: ClassVar[tuple[str, ...]] = ("solvers", "steps")

    data: str = "fracture:pieces=2-8,puzzles=70,seed=9,shapes=held_out"
    puzzles: int = 70  # evenly over the data
    model: str = "fracture-small"
    solvers: tuple[str, ...] = ("rk1", "rk4")
    steps: tuple[str, ...] = ("1", "2", "5", "10", "20")
    run: str = ""  # folder of a training run, for its curve
    seed: int = 0

    def measure(self, bench: Workbench) -> Findings:
        """One row a solver and number of steps."""
        self._check()
        puzzles = bench.puzzles(self.data, seed=self.seed, limit=self.puzzles)
        load = lru_cache(lambda: Eda.load(self.model))
        curve = _training_curve(Path(self.run)) if self.run else None

        def trial(solver: str, steps: str) -> Trial:
            sampling = Sampling(samples=1, repeats=1, solver=solver, steps=int(steps), seed=self.seed)
            return Trial(_name(solver, steps), puzzles, lambda: NetworkAnswers(load(), sampling))

        settings = [(solver, steps) for solver in self.solvers for steps in self.steps]
        found = bench.evaluate([trial(*setting) for setting in settings])
        rows = [MeasuredRow("", _name(*setting), _figures(found[_name(*setting)])) for setting in settings]
        notes = [f"Weights: {weights_of(self.model)}."]
        if curve is None:
            notes.append("No training curve: `--set run=FOLDER` draws that of a run of `eda train`.")
        return Findings([Comparison(COLUMNS, rows, ())], self._drawing(found, curve), notes)

    def _check(self) -> None:
        """Raises `InputError` for a solver that there is not, or for steps that are no number."""
        for solver in self.solvers:
            check_choice("solvers", solver, tuple(SOLVERS))
        for steps in self.steps:
            if not (steps.isascii() and steps.isdigit() and int(steps)):
                raise InputError(f"steps must be whole numbers joined by +, such as 1+2+5, got {steps!r}")

    def _drawing(self, found: Mapping[str, Evaluation], curve: Curve | None) -> str:
        panels = {} if curve is None else {"training loss": [curve]}
        steps = np.array([int(number) for number in self.steps])
        for title, figure in (("Δr [deg]", _rotation), ("Δt", _translation), ("within 10 deg [%]", _close)):
            panels[title] = [
                Curve(solver.upper(), steps, np.array([figure(found[_name(solver, n)]) for n in self.steps]))
                for solver in self.solvers
            ]
        return charts(panels, "steps")

    def plan(self, run: PaperRun) -> Plan:
        """The paper's: 3DLoMatch."""
        self._check()
        commands, path, data, validation = run.threedmatch()
        train, model = run.train("3dmatch", "3dmatch", data, validation)
        commands.append(train)
        reports: dict[tuple[str, str], Path] = {}
        for solver in self.solvers:
            for steps in self.steps:
                words = ("--solver", solver, "--steps", steps, "--repeats", "1")
                command, report = run.evaluate(model, f"3dmatch:{path},split=3DLoMatch", f"{solver}-{steps}", *words)
                commands.append(command)
                reports["", _name(solver, steps)] = report
        return Plan(commands, PAIRWISE_COLUMNS, (), reports)


def _name(solver: str, steps: str) -> str:
    return f"Eda ({solver.upper()}, {steps})"


def _degrees(evaluation: Evaluation) -> np.ndarray:
    return evaluation.values["rotation"]


def _rotation(evaluation: Evaluation) -> float:
    return float(_degrees(evaluation).mean())


def _translation(evaluation: Evaluation) -> float:
    return float(evaluation.values["translation"].mean())


def _close(evaluation: Evaluation) -> float:
    return float(100 * (_degrees(evaluation) < CLOSE).mean())


def _figures(evaluation: Evaluation) -> dict[str, str]:
    return {**pairwise_figures(summarize(evaluation)), "close": f"{_close(evaluation):.3g}"}


def _training_curve(folder: Path) -> Curve:
    """The loss of a run by the steps that were made; of steps that were made twice, the last."""
    losses = {entry["step"]: entry["loss"] for entry in read_log(folder) if "loss" in entry}
    if not losses:
        raise InputError(f"{folder}: no losses in its log; give the folder of a run of `eda train`")
    steps, values = zip(*sorted(losses.items()), strict=True)
    return Curve("loss", np.array(steps), np.array(values))
