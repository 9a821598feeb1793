"""The parts of the system, each measured on the same puzzles, so that what every step adds can be seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eda.assembly import AssembleConfig
from eda.evaluate.answers import AnswerSource
from eda.evaluate.assembler_answers import AssemblerAnswers
from eda.evaluate.network_answers import NetworkAnswers, Sampling
from eda.evaluate.scatter import ScatteredPuzzle
from eda.model import Eda

WHOLE = "whole system"


def system_parts(
    model: str | None,
    network: Eda | Callable[[ScatteredPuzzle], tuple[str, Eda]],
    config: AssembleConfig,
    *,
    points: int | None = None,
    device: str = "cpu",
    anchored: bool = False,
) -> dict[str, AnswerSource]:
    """From the whole assembler down to what the paper's network says alone. Single samples are rk4 x 20.

    Pairs alone: nothing is synchronised, or searched by a beam, over the whole. The plain Croco path is the paper's
    network, without correspondences.
    """
    unrefined = replace(config, ranking=replace(config.ranking, refine=False))
    single = Sampling(samples=1, repeats=1, solver="rk4", steps=20, points=points, seed=config.seed)
    return {
        WHOLE: AssemblerAnswers(model, config, device, anchored),
        "without refinement": AssemblerAnswers(model, unrefined, device, anchored),
        "single sample": NetworkAnswers(network, single, anchored),
        "single sample, pairs alone": NetworkAnswers(network, replace(single, paths="pairs"), anchored),
        "plain Croco path": NetworkAnswers(network, replace(single, paths="croco"), anchored),
    }
