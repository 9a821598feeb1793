"""Who measures what: each protocol turns one assembly of one puzzle into a few named figures.

In: poses (M,) of the given pieces, predicted and true, in the units of the data, and the clouds of the given pieces.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eda.lie import SE3
from eda.metrics import (
    aligned_on,
    euler_rmse,
    is_solved,
    largest,
    matched_part_accuracy,
    pair_errors,
    pairwise_errors,
    part_accuracy,
    shape_chamfer,
    translation_rmse,
)
from eda.pieces import Pieces

Clouds = Sequence[np.ndarray]
Score = Callable[[SE3, SE3, Clouds], dict[str, float]]


@dataclass(frozen=True)
class Metric:
    """A figure: how it is printed."""

    label: str  # with its unit
    factor: float = 1.0  # what is printed per unit of the value
    more_is_better: bool = False


@dataclass(frozen=True)
class Protocol:
    """A convention. Of several assemblies of a puzzle, the first metric tells which is the best."""

    score: Score | None  # None: it does not look at poses, but at what the break head says
    metrics: dict[str, Metric]
    anchored: bool = False  # the system is told where the largest piece belongs


def _pairwise(predicted: SE3, solution: SE3, clouds: Clouds) -> dict[str, float]:
    degrees, distance = pairwise_errors(predicted, solution)
    size = float(Pieces.from_clouds(clouds).scales)
    return {
        "rotation": degrees,
        "translation": distance,
        "relative_translation": distance / size,
        "solved": float(is_solved(degrees, distance, size)),
    }


def _as_placed(predicted: SE3, solution: SE3, clouds: Clouds) -> dict[str, float]:
    return {
        "rotation_rmse": float(euler_rmse(predicted, solution).mean()),
        "translation_rmse": float(translation_rmse(predicted, solution).mean()),
        "part_accuracy": part_accuracy(predicted, solution, clouds),
        "matched_part_accuracy": matched_part_accuracy(predicted, solution, clouds),
        "chamfer": shape_chamfer(predicted, solution, clouds),
    }


def _breaking_bad(predicted: SE3, solution: SE3, clouds: Clouds) -> dict[str, float]:
    return _as_placed(aligned_on(predicted, solution, largest(clouds)), solution, clouds)


def _registration(predicted: SE3, solution: SE3, clouds: Clouds) -> dict[str, float]:
    """Every pair of scans, the later one as the source; RRE and RTE are NaN where no pair succeeds."""
    pairs = [
        pair_errors(predicted[i].inverse() @ predicted[j], solution[i].inverse() @ solution[j], clouds[j], clouds[i])
        for i, j in itertools.combinations(range(len(clouds)), 2)
    ]
    good = [pair for pair in pairs if pair.succeeded]
    return {
        "recall": len(good) / len(pairs),
        "rotation": float(np.mean([pair.degrees for pair in good])) if good else float("nan"),
        "translation": float(np.mean([pair.distance for pair in good])) if good else float("nan"),
    }


_BREAKING_BAD = {
    "rotation_rmse": Metric("RMSE(R) [deg]"),
    "translation_rmse": Metric("RMSE(T) [1e-2]", factor=100),
    "part_accuracy": Metric("PA [%]", factor=100, more_is_better=True),
    "matched_part_accuracy": Metric("matched PA [%]", factor=100, more_is_better=True),
    "chamfer": Metric("CD [1e-3]", factor=1000),
}

PROTOCOLS = {
    "pairwise": Protocol(
        _pairwise,
        {
            "rotation": Metric("rotation [deg]"),
            "translation": Metric("translation"),
            "relative_translation": Metric("of size [%]", factor=100),
            "solved": Metric("solved [%]", factor=100, more_is_better=True),
        },
    ),
    "breaking_bad": Protocol(_breaking_bad, _BREAKING_BAD),
    "breaking_bad_anchored": Protocol(_as_placed, _BREAKING_BAD, anchored=True),
    "registration": Protocol(
        _registration,
        {
            "recall": Metric("RR [%]", factor=100, more_is_better=True),
            "rotation": Metric("RRE [deg]"),
            "translation": Metric("RTE [m]"),
        },
    ),
    "breaks": Protocol(
        None,
        {
            "auc": Metric("AUC [%]", factor=100, more_is_better=True),
            "precision": Metric("precision [%]", factor=100, more_is_better=True),
            "recall": Metric("recall [%]", factor=100, more_is_better=True),
        },
    ),
}
