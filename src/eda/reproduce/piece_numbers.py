"""Errors against the number of pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from eda.evaluate import NetworkAnswers, Sampling, summarize
from eda.model import Eda
from eda.reproduce.comparison import PAIRWISE_COLUMNS, Comparison, MeasuredRow
from eda.reproduce.curves import Curve, charts
from eda.reproduce.experiment import Experiment, Findings
from eda.reproduce.plan import PaperRun, Plan
from eda.reproduce.workbench import Trial, Workbench, weights_of

LONGEST = 6  # pieces of the paper's figure
COLUMNS = {**PAIRWISE_COLUMNS, "relative_translation": "Δt [% of size]", "solved": "solved [%]"}


@dataclass(frozen=True)
class PieceNumbers(Experiment):
    """Settings: models, and puzzles of several numbers of pieces, as many of each."""

    title = "Errors against the number of pieces"
    labels = ("fig-kitti",)
    differences = (
        "The paper trains on runs of 2 to 3 and of 2 to 4 lidar views of KITTI and measures runs of 2 to 6. Here a "
        "shipped model assembles generated fractures; `fracture-small` has learned from 2 to 8 pieces, so no number "
        "up to 8 is new to it.",
        "The paper prints no figures for these curves, only the picture.",
    )

    data: str = "fracture:pieces=2-10,puzzles=180,seed=11,shapes=held_out"
    per_number: int = 10
    models: tuple[str, ...] = ("fracture-small",)
    solver: str = "rk1"
    steps: int = 20
    seed: int = 0

    def measure(self, bench: Workbench) -> Findings:
        """One row a model and number of pieces."""
        puzzles = bench.puzzles(self.data, seed=self.seed, per_group=self.per_number, by="pieces")
        sampling = Sampling(samples=1, repeats=1, solver=self.solver, steps=self.steps, seed=self.seed)

        def answers(model: str) -> NetworkAnswers:
            return NetworkAnswers(Eda.load(model), sampling)

        found = bench.evaluate([Trial(model, puzzles, partial(answers, model)) for model in self.models])
        by_number = {model: summarize(evaluation)["by"]["pieces"] for model, evaluation in found.items()}
        rows = [
            MeasuredRow(f"{number} pieces", model, _figures(means))
            for number in next(iter(by_number.values()))
            for model, groups in by_number.items()
            for means in (groups[number],)
        ]
        notes = [
            f"Weights: {weights_of(model)}, {self.solver.upper()} with {self.steps} steps." for model in self.models
        ]
        return Findings([Comparison(COLUMNS, rows, ())], _drawing(by_number), notes)

    def plan(self, run: PaperRun) -> Plan:
        """The paper's Eda-3 and Eda-4 on KITTI."""
        path = run.source("kitti", split="train")
        run.check("kitti", path, split="test")
        prepare, data = run.prepare("kitti", path, "kitti-train", {"split": "train", "max_pieces": 4})
        commands, reports = [prepare], dict[tuple[str, str], Path]()
        for most in (3, 4):
            train, model = run.train(f"kitti-{most}", f"kitti-{most}", data)
            commands.append(train)
            for count in range(2, LONGEST + 1):
                source = f"kitti:{path},split=test,min_pieces={count},max_pieces={count}"
                command, report = run.evaluate(model, source, f"Eda-{most}-of-{count}", "--solver", "rk4")
                commands.append(command)
                reports[f"{count} pieces", f"Eda-{most}"] = report
        return Plan(commands, PAIRWISE_COLUMNS, (), reports)


def _figures(means: Mapping[str, Any]) -> dict[str, str]:
    percent = {name: f"{100 * means[name]:.3g}" for name in ("relative_translation", "solved")}
    return {
        "puzzles": str(means["puzzles"]),
        "rotation": f"{means['rotation']:.4g}",
        "translation": f"{means['translation']:.4g}",
        **percent,
    }


def _drawing(by_number: Mapping[str, Mapping[str, Any]]) -> str:
    panels = {}
    for title, name, factor in (("Δr [deg]", "rotation", 1.0), ("Δt [% of size]", "relative_translation", 100.0)):
        panels[title] = [
            Curve(model, np.array([int(n) for n in groups]), factor * np.array([of[name] for of in groups.values()]))
            for model, groups in by_number.items()
        ]
    return charts(panels, "pieces")
