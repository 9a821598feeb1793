"""Registration of pairs of scans: Eda beside registration by features, with and without ICP, in one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from eda.errors import InputError
from eda.evaluate import (
    PROPERTIES,
    AnswerSource,
    AssemblerAnswers,
    Evaluation,
    NetworkAnswers,
    PuzzleSet,
    Sampling,
    summarize,
)
from eda.evaluate.protocols import SCAN_DEGREES, SCAN_METRES
from eda.model import Eda
from eda.reproduce.baselines import METHODS, PairAnswers, WithIcp, available
from eda.reproduce.comparison import PAIRWISE_COLUMNS, Comparison, MeasuredRow, pairwise_figures
from eda.reproduce.experiment import Experiment, Findings
from eda.reproduce.plan import PaperRun, Plan
from eda.reproduce.workbench import Trial, Workbench, weights_of

# The paper's splits, by the overlap of the pairs.
BANDS = {"30-100 %": "3DM", "10-30 %": "3DL", "0 %": "3DZ"}
COLUMNS = {
    **PAIRWISE_COLUMNS,
    "registered": "within 15 deg, 0.3 m [%]",
    "minutes": "minutes",
}
WHOLE = "whole system"


@dataclass(frozen=True)
class ScanPairs(Experiment):
    """Settings: the pairs, the model, the baselines, and how the flow is integrated."""

    title = "Registration of pairs of scans"
    labels = ("tab:3DMatch", "tab:3DMatch_complete")
    differences = (
        "The paper trains on 3DMatch and measures its test lists. Here a shipped model sees generated rooms, or the "
        "pairs that `--data` names. 3DM, 3DL and 3DZ are the pairs whose points overlap by more than 30 %, by 10 to "
        "30 %, and not at all, measured within 5 cm.",
        "`scan-small` has learned from rooms of the same generator, with other seeds. So generated rooms favour it "
        "over methods that do not learn.",
        "FGR is our small implementation of the method on our own FPFH features; the paper's row is from the official "
        "one. FPFH-RANSAC and KISS-Matcher are not in the paper.",
        "GEO, ROI and AMR are only printed: their networks do not run here. `eda evaluate --predictions` scores their "
        "answers.",
        "The whole system is ours: it refines, scores and searches, and may leave a scan unplaced, which counts as a "
        "random guess.",
        "The paper's two tables differ in the errors without overlap, and in one Δt.",
    )

    data: str = "rooms:rooms=16,seed=778"
    pairs: int = 24  # of every band of overlap
    model: str = "scan-small"
    solver: str = "rk4"
    steps: int = 50
    repeats: int = 3
    baselines: tuple[str, ...] = tuple(METHODS)
    assemble: bool = True  # also the whole system
    seed: int = 0

    def measure(self, bench: Workbench) -> Findings:
        """One row a system and band."""
        self._check()
        puzzles = pairs_of_bands(bench, self.data, self.seed, self.pairs, tuple(BANDS))
        found = bench.evaluate(self._trials(puzzles))
        rows = [
            MeasuredRow(BANDS[band], system, _figures(part))
            for band in BANDS
            for system, evaluation in found.items()
            if (part := _of_band(evaluation, band)) is not None
        ]
        missing = [name for name in self.baselines if not available(name)]
        notes = [f"Weights: {weights_of(self.model)}."]
        notes += [f"{name} was not measured: it is not installed (the extra `scan`)." for name in missing]
        table = Comparison(COLUMNS, rows, self.labels, ("puzzles", "registered", "minutes"))
        return Findings([table], notes=notes)

    def _check(self) -> None:
        unknown = [name for name in self.baselines if name not in METHODS]
        if unknown:
            raise InputError(f"there is no baseline {unknown[0]!r}; there are {', '.join(METHODS)}")

    def _trials(self, puzzles: PuzzleSet) -> list[Trial]:
        sampling = Sampling(samples=1, repeats=self.repeats, solver=self.solver, steps=self.steps, seed=self.seed)

        def eda() -> AnswerSource:
            return NetworkAnswers(Eda.load(self.model), sampling)

        def trial(system: str, answers: Callable[[], AnswerSource]) -> Trial:
            return Trial(system, puzzles, answers, by=("overlap",))

        trials = [trial(f"Eda ({self.solver.upper()}, {self.steps})", eda)]
        for name in filter(available, self.baselines):
            method = METHODS[name]()
            trials += [
                trial(name, partial(PairAnswers, method)),
                trial(f"{name}, ICP", partial(PairAnswers, WithIcp(method))),
            ]
        return [*trials, trial(WHOLE, partial(AssemblerAnswers, self.model))] if self.assemble else trials

    def plan(self, run: PaperRun) -> Plan:
        """Two models, one for pairs that overlap and one for those that do not, and the three test lists."""
        commands, path, data, validation = run.threedmatch()
        without_overlap, model_zero = run.threedzeromatch(path)
        train, model = run.train("3dmatch", "3dmatch", data, validation)
        commands += [train, *without_overlap]
        reports: dict[tuple[str, str], Path] = {}
        for group, weights, source in (
            ("3DM", model, f"3dmatch:{path},split=3DMatch"),
            ("3DL", model, f"3dmatch:{path},split=3DLoMatch"),
            ("3DZ", model_zero, f"3dzeromatch:{path}"),
        ):
            words = ("--solver", "rk4", "--steps", "50", "--repeats", "3")
            command, report = run.evaluate(weights, source, group, *words)
            commands.append(command)
            reports[group, "Eda (RK4, 50)"] = report
        return Plan(commands, PAIRWISE_COLUMNS, self.labels, reports)


def pairs_of_bands(bench: Workbench, data: str, seed: int, number: int, bands: Sequence[str]) -> PuzzleSet:
    """At most `number` pairs of each of some bands of overlap, evenly within it."""
    chosen = bench.puzzles(data, seed=seed, per_group=number, by="overlap")
    kept = [slot for slot in chosen.slots if PROPERTIES["overlap"](chosen.source[slot.start]) in bands]
    if not kept:
        raise InputError(
            f"{data}: no pair of scans has an overlap of {' or '.join(bands)}; try other data or more of it"
        )
    return replace(chosen, slots=kept)


def _of_band(evaluation: Evaluation, band: str) -> Evaluation | None:
    records = [record for record in evaluation.records if record.groups["overlap"] == band]
    return replace(evaluation, records=records) if records else None


def _figures(evaluation: Evaluation) -> dict[str, str]:
    """A pair of which one scan stayed unplaced is not registered."""
    values = evaluation.values
    near = (values["rotation"] < SCAN_DEGREES) & (values["translation"] < SCAN_METRES)
    if "placed" in values:
        near &= values["placed"] == 1
    return {**pairwise_figures(summarize(evaluation)), "registered": f"{100 * near.mean():.3g}"}
