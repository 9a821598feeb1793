"""Broken objects: Eda beside regression of poses, learned by the same loop from the same kind of puzzles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from eda.errors import InputError
from eda.evaluate import AnswerSource, AssemblerAnswers, Evaluation, NetworkAnswers, Sampling, summarize
from eda.model import Eda
from eda.reproduce.baselines import REGRESSIONS, regression_config
from eda.reproduce.comparison import PAIRWISE_COLUMNS, Comparison, MeasuredRow, pairwise_figures
from eda.reproduce.experiment import Experiment, Findings
from eda.reproduce.plan import PaperRun, Plan
from eda.reproduce.workbench import Trial, Workbench, weights_of

COLUMNS = {
    **PAIRWISE_COLUMNS,
    "solved": "solved [%]",
    "part_accuracy": "parts in place [%]",
    "minutes": "minutes",
}
ONE_STEP = Sampling(samples=1, repeats=1, solver="rk1", steps=1)


@dataclass(frozen=True)
class BrokenObjects(Experiment):
    """Settings: the puzzles, the model, the baselines, and from what and how long these learn."""

    title = "Assembly of broken objects, with times"
    labels = ("tab:BB", "tab:BB_complete")
    differences = (
        "The paper trains and measures on Breaking Bad. Here a shipped model sees generated fractures of kinds that it "
        "was not trained on, or the puzzles that `--data` names. Δt is in the units of the data.",
        "GLO, DGL and LEV are our small networks after the ideas of these papers, not the authors' code: they regress "
        "the motion of every piece at once, see as many points as `points` says, and learn by the loop of `eda train` "
        "for `training_steps` steps. `fracture-small` has learned for hours.",
        "JIG and GARF are only printed; `eda evaluate --predictions` scores their answers.",
        "Minutes are wall time for all puzzles: one core here (with samples of a model taken in batches), a T4 in the "
        "paper.",
        "The whole system is ours: it refines, scores and searches, and may leave pieces unplaced, which count as "
        "random guesses.",
    )

    data: str = "fracture:pieces=2-8,puzzles=70,seed=12,shapes=held_out"
    puzzles: int = 70  # evenly over the data
    model: str = "fracture-small"
    steps: int = 10
    repeats: int = 1
    baselines: tuple[str, ...] = tuple(REGRESSIONS)
    training: str = "fracture:pieces=2-8,puzzles=2000,seed=31,shapes=train,num_points=2000"  # of the baselines
    training_steps: int = 2000
    points: int = 1000  # of a puzzle, that a baseline sees
    assemble: bool = True  # also the whole system
    seed: int = 0

    def measure(self, bench: Workbench) -> Findings:
        """One row a system."""
        unknown = [name for name in self.baselines if name not in REGRESSIONS]
        if unknown:
            raise InputError(f"there is no baseline {unknown[0]!r}; there are {', '.join(REGRESSIONS)}")
        found = bench.evaluate(self._trials(bench))
        rows = [MeasuredRow("", system, _figures(evaluation)) for system, evaluation in found.items()]
        table = Comparison(COLUMNS, rows, self.labels, ("puzzles", "solved", "part_accuracy"))
        return Findings([table], notes=[f"Weights: {weights_of(self.model)}."])

    def _trials(self, bench: Workbench) -> list[Trial]:
        puzzles = bench.puzzles(self.data, seed=self.seed, limit=self.puzzles)
        load = lru_cache(lambda: Eda.load(self.model))

        def eda(solver: str) -> AnswerSource:
            sampling = Sampling(samples=1, repeats=self.repeats, solver=solver, steps=self.steps, seed=self.seed)
            return NetworkAnswers(load(), sampling)

        def regression(name: str) -> AnswerSource:
            data = bench.dataset("training", self.training)
            config = regression_config(name, str(data), points=self.points, steps=self.training_steps, seed=self.seed)
            return NetworkAnswers(bench.train(name, config), ONE_STEP)

        trials = [
            Trial(f"Eda ({solver.upper()}, {self.steps})", puzzles, partial(eda, solver)) for solver in ("rk1", "rk4")
        ]
        trials += [Trial(name, puzzles, partial(regression, name)) for name in self.baselines]
        return (
            [*trials, Trial("whole system", puzzles, partial(AssemblerAnswers, self.model))]
            if self.assemble
            else trials
        )

    def plan(self, run: PaperRun) -> Plan:
        """The paper's recipe; its test split is the official `val`."""
        commands, test, model = run.breaking_bad()
        reports: dict[tuple[str, str], Path] = {}
        for solver in ("rk1", "rk4"):
            words = ("--solver", solver, "--steps", "10", "--repeats", "3")
            command, report = run.evaluate(model, str(test), f"{solver}-10", *words)
            commands.append(command)
            reports["", f"Eda ({solver.upper()}, 10)"] = report
        return Plan(commands, {**PAIRWISE_COLUMNS, "minutes": "minutes"}, self.labels, reports)


def _figures(evaluation: Evaluation) -> dict[str, str]:
    report = summarize(evaluation)
    shares = {name: f"{100 * report['metrics'][name]['mean']:.3g}" for name in ("solved", "part_accuracy")}
    return {**pairwise_figures(report), **shares}
