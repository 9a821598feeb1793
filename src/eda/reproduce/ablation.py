"""The ablation of the theory: Eda, Eda-(r), Eda-(r, h), Eda-(r, e) and Eda-(r, h, e), and their curves.

All variants have the same weights to learn and see the same puzzles for the same number of steps. The loss of Eda
itself is not comparable with that of the others: r* makes its paths shorter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eda.atomic import write_atomically
from eda.data import Dataset
from eda.errors import DivergedError, InputError
from eda.evaluate import Evaluation, NetworkAnswers, PuzzleSet, Sampling, summarize
from eda.recipes import RECIPES
from eda.reproduce.comparison import PAIRWISE_COLUMNS, Comparison, MeasuredRow
from eda.reproduce.curves import Curve, charts
from eda.reproduce.experiment import Experiment, Findings
from eda.reproduce.plan import PaperRun, Plan
from eda.reproduce.workbench import Trial, Workbench
from eda.train import TrainConfig, overridden
from eda.train.log import read_log

# By the recipe of `eda train`.
VARIANTS = {
    "ablation": "Eda",
    "ablation-r": "Eda-(r)",
    "ablation-rh": "Eda-(r, h)",
    "ablation-re": "Eda-(r, e)",
    "ablation-rhe": "Eda-(r, h, e)",
}
# What they change in a recipe of the paper's scale.
SWITCHES = {"r": "model.no_correction=True", "h": "model.body_twist=True", "e": "model.network.free_network=True"}
REPORTS = 8  # validations of a run
COLUMNS = {
    "seeds": "seeds",
    **PAIRWISE_COLUMNS,
    "relative_translation": "Δt [% of size]",
    "solved": "solved [%]",
    "loss": "last loss (rotation)",
    "seconds_per_step": "s/step",
}


@dataclass(frozen=True)
class Run:
    """A variant with a seed: what it was measured to do, and its log; or why it failed."""

    variant: str
    report: Mapping[str, Any] | None  # None: its training did not converge, which is a result too
    curves: Mapping[str, Curve]
    loss: float
    seconds_per_step: float


@dataclass(frozen=True)
class Ablation(Experiment):
    """Settings: the puzzles to learn from and to measure on, steps, seeds and variants."""

    title = "Ablation of the theory"
    labels = ("tab:ablation", "fig-ablation")
    differences = (
        "The paper trains every variant on 3DMatch and measures 3DLoMatch. Here small networks memorise a handful of "
        "generated puzzles and are measured on the same ones, from other noise: on unseen objects hours of training "
        "are needed before the variants differ.",
        "All variants make the same number of steps; a network that is not equivariant takes several times as long "
        "for one.",
        "As in the paper, samples are by RK1 with 10 steps. ± is over seeds.",
    )

    data: str = "fracture:pieces=2-2,puzzles=4,seed=5,num_points=1600"  # to learn from
    validation: str = ""  # to measure on; empty: the same
    steps: int = 500
    seeds: int = 3
    variants: tuple[str, ...] = tuple(VARIANTS)
    puzzles: int = 4  # to measure on at the end, evenly over the data

    def measure(self, bench: Workbench) -> Findings:
        """A whole table for the first seed, then for the next."""
        unknown = [name for name in self.variants if name not in VARIANTS]
        if unknown:
            raise InputError(f"there is no variant {unknown[0]!r}; there are {', '.join(VARIANTS)}")
        learned = bench.dataset("training", self.data)
        measured = bench.dataset("validation", self.validation) if self.validation else learned
        puzzles = bench.puzzles(str(measured), seed=0, limit=self.puzzles)
        runs = [
            self._run(bench, variant, seed, learned, measured, puzzles)
            for seed in range(self.seeds)
            for variant in self.variants
        ]
        table = Comparison(COLUMNS, _rows(runs), self.labels[:1], ("seeds", "puzzles"))
        return Findings([table], _drawing(runs))

    def config_of(self, variant: str, seed: int, learned: Path, measured: Path) -> TrainConfig:
        """The recipe, with its cosine over `steps`."""
        settings = {
            "data.train": learned,
            "data.validation": measured,
            "optimizer.steps": self.steps,
            "optimizer.warmup": max(1, self.steps // 20),
            "watch.log_every": max(1, self.steps // 40),
            "watch.checkpoint_every": max(1, self.steps // 10),
            "watch.validate_every": max(1, self.steps // REPORTS),
            "seed": seed,
        }
        return overridden(RECIPES[variant](), [f"{name}={value}" for name, value in settings.items()])

    def _run(self, bench: Workbench, variant: str, seed: int, learned: Path, measured: Path, puzzles: PuzzleSet) -> Run:
        """Train one variant, or finish its training, and measure it."""
        name, config = f"{variant}-{seed}", self.config_of(variant, seed, learned, measured)
        bench.say(f"{VARIANTS[variant]}, seed {seed} of {self.seeds}, {self.steps:,} steps")
        examples = Dataset(measured)[: config.watch.validation_puzzles]
        sampling = Sampling(samples=1, repeats=3, solver="rk1", steps=10, points=config.model.num_points)

        def answers() -> NetworkAnswers:
            return NetworkAnswers(bench.train(name, config, examples), sampling)

        failed = bench.run_folder(name) / "failed.txt"
        if failed.is_file():
            bench.claim(name, config)
        trial = Trial(f"{VARIANTS[variant]}, seed {seed}", puzzles, answers)
        evaluation = _converged(bench, trial, failed)
        log = read_log(bench.run_folder(name))
        return Run(
            variant,
            None if evaluation is None else summarize(evaluation),
            _curves(log),
            next((entry["rotation"] for entry in reversed(log) if "rotation" in entry), float("nan")),
            float(
                np.median([1 / entry["steps_per_second"] for entry in log if "steps_per_second" in entry] or [np.nan])
            ),
        )

    def plan(self, run: PaperRun) -> Plan:
        """The paper's recipe for 3DMatch with its parts removed, measured on 3DLoMatch."""
        commands, path, data, validation = run.threedmatch()
        reports: dict[tuple[str, str], Path] = {}
        for variant, label in VARIANTS.items():
            letters = variant.removeprefix("ablation").removeprefix("-")
            changed = [SWITCHES[letter] for letter in letters]
            train, model = run.train("3dmatch", f"3dmatch-{letters}".rstrip("-"), data, validation, changed)
            words = ("--solver", "rk1", "--steps", "10")
            command, report = run.evaluate(model, f"3dmatch:{path},split=3DLoMatch", variant, *words)
            commands += [replace(train, may_diverge=model.parent), command]
            reports["", label] = report
        return Plan(commands, PAIRWISE_COLUMNS, self.labels[:1], reports)


def _converged(bench: Workbench, trial: Trial, failed: Path) -> Evaluation | None:
    """The figures of a trial; None if its training or its field diverged, which a file keeps for the next time."""
    if failed.is_file():
        return None
    try:
        return bench.evaluate([trial])[trial.system]
    except (DivergedError, FloatingPointError) as error:  # the latter in a validation
        write_atomically(failed, f"{error}\n".encode())
        return None


def _curves(log: Sequence[Mapping[str, Any]]) -> dict[str, Curve]:
    """By the titles of the panels; of steps that were made twice, the last."""
    errors = {entry["step"]: entry["validation"]["mean"] for entry in log if "validation" in entry}
    losses = {entry["step"]: entry["rotation"] for entry in log if "rotation" in entry}
    return {
        title: Curve("", np.array(sorted(values)), np.array([values[step] for step in sorted(values)]))
        for title, values in (("validation error [deg]", errors), ("rotation loss", losses))
        if values
    }


def _rows(runs: Sequence[Run]) -> list[MeasuredRow]:
    """A row for every variant: means over seeds ± their standard deviation."""
    rows = []
    for variant in dict.fromkeys(run.variant for run in runs):
        every = [run for run in runs if run.variant == variant]
        done = [run for run in every if run.report is not None]
        lost = f"{len(every) - len(done)} failed" if len(done) < len(every) else ""
        figures = {"seeds": ", ".join(filter(None, [str(len(done)) if done else "", lost]))}
        rows.append(MeasuredRow("", VARIANTS[variant], figures | (_means(done) if done else {})))
    return rows


def _means(runs: Sequence[Run]) -> dict[str, str]:
    reports = [run.report for run in runs if run.report is not None]
    factors = {"rotation": 1, "translation": 1, "relative_translation": 100, "solved": 100}
    metrics = {
        name: _with_spread([factor * report["metrics"][name]["mean"] for report in reports])
        for name, factor in factors.items()
    }
    return {
        "puzzles": str(reports[0]["puzzles"]),
        **metrics,
        "loss": _with_spread([run.loss for run in runs]),
        "seconds_per_step": _with_spread([run.seconds_per_step for run in runs]),
    }


def _with_spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3g}" + (f" ± {np.std(values, ddof=1):.2g}" if len(values) > 1 else "")


def _drawing(runs: Sequence[Run]) -> str:
    """Both curves of all variants, means over the seeds that have them whole."""
    panels: dict[str, list[Curve]] = {}
    for title in ("validation error [deg]", "rotation loss"):
        panels[title] = []
        for variant in dict.fromkeys(run.variant for run in runs):
            curves = [run.curves[title] for run in runs if run.variant == variant and title in run.curves]
            whole = [curve for curve in curves if len(curve.x) == max(len(each.x) for each in curves)]
            if whole:
                mean = np.mean([curve.y for curve in whole], axis=0)
                panels[title].append(Curve(VARIANTS[variant], whole[0].x, mean))
    return charts(panels, "steps")
