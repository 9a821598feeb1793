"""What `eda evaluate` is asked to measure: single samples of a model, the assembler, its parts, or a file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from eda.cli.evaluation_report import Output
    from eda.evaluate import AnswerSource, Evaluation, Record, ScatteredPuzzle
    from eda.model import Eda


class MeasurePuzzles(Protocol):
    """Measures puzzles, beside those that are finished."""

    def __call__(
        self,
        puzzles: Iterable[ScatteredPuzzle],
        *,
        by: Sequence[str],
        finished: Sequence[Record],
        keep: Callable[[Record], None],
    ) -> Evaluation:
        """The figures of all."""


@dataclass(frozen=True)
class Measurement:
    """One row of `--parts`, or the only one there is."""

    settings: dict[str, Any]  # all that its figures depend on besides the puzzles
    run: MeasurePuzzles


@dataclass(frozen=True)
class Request:
    """The options that say who answers, and how."""

    protocol: str
    model: str | None
    predictions: Path | None
    assemble: bool
    parts: bool
    samples: int | None
    repeats: int | None
    solver: str | None
    steps: int | None
    rounds: int
    points: int | None
    seed: int
    device: str | None

    def check(self, output: Output) -> None:
        """Raise `InputError` for options that contradict each other."""
        from eda.errors import InputError
        from eda.evaluate import PROTOCOLS

        who = {"--predictions": self.predictions is not None, "--assemble": self.assemble, "--parts": self.parts}
        given = [option for option, is_given in who.items() if is_given]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} each say what is measured: give one of them")
        if not given and self.model is None:
            raise InputError("nothing to measure: give --model, --predictions, --assemble or --parts")
        if self.model is not None and self.predictions is not None:
            raise InputError("give either --model or --predictions")
        if PROTOCOLS[self.protocol].score is None and (given or output.predictions):
            raise InputError(f"--protocol {self.protocol} measures what a --model says of points: there are no poses")
        if self.parts and output.predictions:
            raise InputError("--save-predictions writes one set of assemblies, but --parts makes several")
        if output.diagram and not (self.assemble or self.parts):
            raise InputError("--diagram draws the probabilities of the assembler: give --assemble or --parts")
        if (self.assemble or self.parts) and self.repeats not in (None, 1):
            raise InputError("--repeats is for single samples of a --model: the assembler runs once")

    def measurements(self) -> dict[str, Measurement]:
        """By the names of the parts; a single one has no name."""
        from eda.evaluate import PROTOCOLS, PredictionAnswers, evaluate_breaks

        if PROTOCOLS[self.protocol].score is None:
            assert self.model is not None
            network = self._load(self.model)
            points = self.points or network.config.num_points
            run = partial(evaluate_breaks, network, points=points)
            return {"": Measurement({"points": points, "seed": self.seed}, run)}
        if self.predictions is not None:
            return {"": self._scoring(PredictionAnswers.read(self.predictions))}
        sources = self._assembler() if self.assemble or self.parts else {"": self._network()}
        return {part: self._scoring(source) for part, source in sources.items()}

    def _scoring(self, source: AnswerSource) -> Measurement:
        from eda.evaluate import evaluate

        def run(puzzles: Iterable[ScatteredPuzzle], **options: Any) -> Evaluation:
            return evaluate(source.answers(puzzles), self.protocol, **options)

        return Measurement(source.settings(), run)

    def _network(self) -> AnswerSource:
        from eda.evaluate import PROTOCOLS, NetworkAnswers, Sampling

        assert self.model is not None
        sampling = Sampling(**self._given("samples", "repeats", "solver", "steps", "rounds", "points", "seed"))
        return NetworkAnswers(self._load(self.model), sampling, PROTOCOLS[self.protocol].anchored)

    def _assembler(self) -> dict[str, AnswerSource]:
        """The whole assembler, or each part of the system."""
        from eda.assembly import AssembleConfig
        from eda.evaluate import PROTOCOLS, AssemblerAnswers, suitable_model, system_parts

        config = AssembleConfig(**self._given("samples", "steps", "rounds", "solver", "seed"))
        device, anchored = self._device(), PROTOCOLS[self.protocol].anchored
        if not self.parts:
            return {"": AssemblerAnswers(self.model, config, device, anchored)}
        network = suitable_model(device) if self.model is None else self._load(self.model)
        return system_parts(self.model, network, config, points=self.points, device=device, anchored=anchored)

    def _given(self, *names: str) -> dict[str, Any]:
        """The options that the user gave; what is not given has another default for a model than for the assembler."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def _device(self) -> str:
        """The device that was asked for, or the best there is."""
        import torch

        from eda.settings import check_choice

        kind = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        check_choice("--device", kind, ("cpu", "cuda"))
        return kind

    def _load(self, model: str) -> Eda:
        from eda.model import Eda

        return Eda.load(model, device=self._device())
