"""The error of rotation and permutation equivariance of the field, of trained and untrained networks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from eda.evaluate import check_equivariance
from eda.model import Eda
from eda.reproduce.comparison import Comparison, MeasuredRow
from eda.reproduce.experiment import Experiment, Findings
from eda.reproduce.plan import Command, PaperRun, Plan
from eda.reproduce.workbench import Workbench, weights_of

UNTRAINED = "untrained"
COLUMNS = {
    "L_R": "L_R",
    "L_P": "L_P",
    "norm": "norm of the field",
    "L_R_relative": "L_R / norm",
    "L_P_relative": "L_P / norm",
}


@dataclass(frozen=True)
class EquivarianceError(Experiment):
    """Settings: the models, and how many random puzzles each sees."""

    title = "Rotation and permutation equivariance error"
    labels = ("tab:equi-error",)
    differences = (
        "The paper prints the mean of 3 draws of its trained network, on its data. Ours are medians over random "
        "puzzles of 2 to 8 pieces of about 60 points, of networks with other sizes.",
        "An absolute error grows with the field, so the norm of the field and the errors divided by it stand beside. "
        "All in float32.",
    )

    models: tuple[str, ...] = (UNTRAINED, "fracture-small", "scan-small")
    draws: int = 20
    seed: int = 0

    def measure(self, bench: Workbench) -> Findings:
        """One row a model; `untrained` is the paper's network with random weights."""
        rows = []
        for number, name in enumerate(self.models):
            bench.advance(f"checking {name}", number, len(self.models))
            figures = bench.once("equivariance", name, partial(self._errors, name)).figures
            texts = {key: f"{float(values[0, 0]):.2e}" for key, values in figures.items()}
            system = "the paper's network, untrained" if name == UNTRAINED else weights_of(name)
            rows.append(MeasuredRow("", system, texts))
            bench.say(f"{system}: L_R {texts['L_R']}, L_P {texts['L_P']}; {number + 1} of {len(self.models)} done")
        only_measured = ("norm", "L_R_relative", "L_P_relative")
        return Findings([Comparison(COLUMNS, rows, self.labels, only_measured)])

    def _errors(self, name: str) -> dict[str, float]:
        """By the names of the columns."""
        model = Eda() if name == UNTRAINED else Eda.load(name)
        report = check_equivariance(model, draws=self.draws, seed=self.seed)
        laws = {result.law: result for result in report.results if result.dtype == "float32"}
        errors = {law: laws[law].absolute for law in ("L_R", "L_P")}
        relative = {f"{law}_relative": laws[law].relative for law in ("L_R", "L_P")}
        return {**errors, "norm": report.field_norm, **relative}

    def plan(self, run: PaperRun) -> Plan:
        """The check of a network that was trained on Breaking Bad."""
        commands, _, model = run.breaking_bad()
        return Plan([*commands, Command(("eda", "check", str(model), "--draws", "3"))])
