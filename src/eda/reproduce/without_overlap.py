"""The distribution of the rotation error on pairs of scans that share nothing."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from eda.evaluate import NetworkAnswers, Sampling, summarize
from eda.model import Eda
from eda.reproduce.comparison import PAIRWISE_COLUMNS, Comparison, MeasuredRow, pairwise_figures
from eda.reproduce.curves import histogram
from eda.reproduce.experiment import Experiment, Findings
from eda.reproduce.plan import PaperRun, Plan
from eda.reproduce.scan_pairs import pairs_of_bands
from eda.reproduce.workbench import Trial, Workbench, weights_of

NEAR = 15.0  # degrees from a multiple of a right angle
RIGHT_ANGLES = (0.0, 90.0, 180.0)
SHARES = {f"near {angle:g}": f"within {NEAR:g} of {angle:g} deg [%]" for angle in RIGHT_ANGLES}
BY_CHANCE = math.degrees(math.pi / 2 + 2 / math.pi)  # the mean angle of a uniformly random rotation
BINS = np.linspace(0, 180, 19)


@dataclass(frozen=True)
class WithoutOverlap(Experiment):
    """Settings: the model, the pairs, and how the flow is integrated."""

    title = "Distribution of Δr without overlap"
    labels = ("fig-3DZ",)
    differences = (
        "The paper trains a model on pairs without overlap; the shipped one was trained on pairs of which few share "
        "nothing.",
        "In a room of walls that are parallel or orthogonal, the paper expects errors near 0, 90 and 180 degrees. "
        "The row of a uniformly random rotation says how many would lie there by chance.",
    )

    data: str = "rooms:rooms=40,seed=779"
    pairs: int = 72
    model: str = "scan-small"
    solver: str = "rk4"
    steps: int = 20
    seed: int = 0

    def measure(self, bench: Workbench) -> Findings:
        """Single samples of the pairs without overlap."""
        puzzles = pairs_of_bands(bench, self.data, self.seed, self.pairs, ("0 %",))
        sampling = Sampling(samples=1, repeats=1, solver=self.solver, steps=self.steps, seed=self.seed)
        trial = Trial("Eda", puzzles, lambda: NetworkAnswers(Eda.load(self.model), sampling))
        evaluation = bench.evaluate([trial])["Eda"]
        degrees = evaluation.values["rotation"].ravel()
        figures = {name: f"{100 * np.mean(np.abs(degrees - a) < NEAR):.3g}" for name, a in _angles()}
        chance = {name: f"{100 * by_chance(a - NEAR, a + NEAR):.3g}" for name, a in _angles()}
        rows = [
            MeasuredRow(
                "", f"Eda ({self.solver.upper()}, {self.steps})", pairwise_figures(summarize(evaluation)) | figures
            ),
            MeasuredRow("", "uniformly random rotation, computed", {"rotation": f"{BY_CHANCE:.4g}", **chance}),
        ]
        columns = {**PAIRWISE_COLUMNS, **SHARES}
        expected = np.array([by_chance(low, high) for low, high in itertools.pairwise(BINS.tolist())])
        drawing = histogram("Δr [deg], share of pairs without overlap [%]", BINS, degrees, 100 * expected)
        return Findings([Comparison(columns, rows, ())], drawing, [f"Weights: {weights_of(self.model)}."])

    def plan(self, run: PaperRun) -> Plan:
        """The paper's 3DZeroMatch; the report has the error of every pair, for the histogram."""
        path = run.source("3dmatch", split="train")
        commands, model = run.threedzeromatch(path)
        words = ("--solver", "rk4", "--steps", "50", "--repeats", "3", "--csv", str(run.folder / f"{run.name}-3DZ.csv"))
        evaluate, report = run.evaluate(model, f"3dzeromatch:{path}", "3DZ", *words)
        reports = {("3DZ", "Eda (RK4, 50)"): report}
        labels = ("tab:3DMatch", "tab:3DMatch_complete")
        return Plan([*commands, evaluate], PAIRWISE_COLUMNS, labels, reports)


def _angles() -> list[tuple[str, float]]:
    return list(zip(SHARES, RIGHT_ANGLES, strict=True))


def by_chance(low: float, high: float) -> float:
    """The chance that the angle of a uniformly random rotation lies between two angles in degrees."""

    def below(degrees: float) -> float:
        angle = math.radians(min(max(degrees, 0.0), 180.0))
        return (angle - math.sin(angle)) / math.pi

    return below(high) - below(low)
