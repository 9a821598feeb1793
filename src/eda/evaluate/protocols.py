"""Conventions of measuring: each protocol turns one assembly of one puzzle into a few named figures.

In: poses (M,) of the object's own pieces as given, predicted and true, in the units of the data, their clouds, and
which of them the system placed. An unplaced piece has a pose like a random guess (`fill_unplaced`), which enters the
means of errors; it never counts as right, and a puzzle with one is not solved.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eda.lie import SE3
from eda.metrics import (
    align_on,
    euler_rmse,
    is_solved,
    largest_piece,
    matched_part_accuracy,
    pair_errors,
    pairwise_errors,
    part_accuracy,
    pieces_in_place,
    relative_errors,
    shape_chamfer,
    translation_rmse,
)
from eda.pieces import Pieces

Clouds = Sequence[np.ndarray]
Score = Callable[[SE3, SE3, Clouds, np.ndarray], dict[str, float]]


@dataclass(frozen=True)
class Metric:
    """A figure: how it is printed."""

    label: str  # with its unit
    factor: float = 1.0  # what is printed per unit of the value
    more_is_better: bool = False
    of_pairs: bool = False  # a mean over the ordered pairs of a puzzle's pieces, so that pairs can also be pooled


@dataclass(frozen=True)
class Protocol:
    """A convention. Of several assemblies of a puzzle, the first metric tells which is the best."""

    score: Score | None  # None: it does not look at poses, but at what the break head says
    metrics: dict[str, Metric]
    anchored: bool = False  # the system is told where the largest piece belongs
    scans: bool = False  # whether what is right is decided by the bounds for scans, else by those for fragments


# Bounds within which two pieces lie rightly to each other: twice those of a solved puzzle, in units of its size, and
# for scans in metres.
FRAGMENT_DEGREES, FRAGMENT_DISTANCE = 20.0, 0.1
SCAN_DEGREES, SCAN_METRES = 15.0, 0.3


def pairs_right(protocol: Protocol, predicted: SE3, solution: SE3, size: float) -> np.ndarray:
    """(M, M) whether piece j lies rightly when piece i is put in its true place."""
    degrees, distance = (error.numpy() for error in relative_errors(predicted, solution))
    if protocol.scans:
        return (degrees < SCAN_DEGREES) & (distance < SCAN_METRES)
    return (degrees < FRAGMENT_DEGREES) & (distance < FRAGMENT_DISTANCE * size)


def body_of(right: np.ndarray, placed: np.ndarray) -> np.ndarray:
    """(M,) the pieces of the largest group that lies rightly to one of them, as pairs (M, M) say. One is no group."""
    joined = (right | np.eye(len(placed), dtype=bool)) & placed & placed[:, None]
    body = joined[joined.sum(axis=1).argmax()]
    return body if body.sum() > 1 else np.zeros_like(body)


def size_of(clouds: Clouds) -> float:
    """The puzzle's unit of length, `Pieces.scales`."""
    return float(Pieces.from_clouds(clouds).scales)


def _pairwise(predicted: SE3, solution: SE3, clouds: Clouds, placed: np.ndarray) -> dict[str, float]:
    degrees, distance = pairwise_errors(predicted, solution)
    size = size_of(clouds)
    return {
        "rotation": degrees,
        "translation": distance,
        "relative_translation": distance / size,
        "solved": float(placed.all() and is_solved(degrees, distance, size)),
        "part_accuracy": float(pieces_in_place(predicted, solution, clouds, placed, size).mean()),
    }


def _as_placed(predicted: SE3, solution: SE3, clouds: Clouds, placed: np.ndarray) -> dict[str, float]:
    return {
        "rotation_rmse": float(euler_rmse(predicted, solution).mean()),
        "translation_rmse": float(translation_rmse(predicted, solution).mean()),
        "part_accuracy": part_accuracy(predicted, solution, clouds, placed),
        "matched_part_accuracy": matched_part_accuracy(predicted, solution, clouds, placed),
        "chamfer": shape_chamfer(predicted, solution, clouds),
    }


def _breaking_bad(predicted: SE3, solution: SE3, clouds: Clouds, placed: np.ndarray) -> dict[str, float]:
    """The anchor is the largest piece that has a place."""
    rows = np.flatnonzero(placed).tolist() or list(range(len(clouds)))
    anchor = rows[largest_piece([clouds[i] for i in rows])]
    return _as_placed(align_on(predicted, solution, anchor), solution, clouds, placed)


def _registration(predicted: SE3, solution: SE3, clouds: Clouds, placed: np.ndarray) -> dict[str, float]:
    """Every pair of scans, the later one as the source; RRE and RTE are NaN where no pair succeeds."""
    every = list(itertools.combinations(range(len(clouds)), 2))
    pairs = [
        pair_errors(predicted[i].inverse() @ predicted[j], solution[i].inverse() @ solution[j], clouds[j], clouds[i])
        for i, j in every
    ]
    both = [bool(placed[i] and placed[j]) for i, j in every]
    good = [pair for pair, is_placed in zip(pairs, both, strict=True) if is_placed and pair.succeeded]
    degrees, distance = relative_errors(predicted, solution)
    near = [bool(degrees[j, i] < SCAN_DEGREES and distance[j, i] < SCAN_METRES) for i, j in every]
    return {
        "recall": len(good) / len(pairs),
        "registered": float(np.mean([a and b for a, b in zip(near, both, strict=True)])),
        "rotation": float(np.mean([pair.degrees for pair in good])) if good else float("nan"),
        "translation": float(np.mean([pair.distance for pair in good])) if good else float("nan"),
    }


def _conventions(predicted: SE3, solution: SE3, clouds: Clouds, placed: np.ndarray) -> dict[str, float]:
    """One answer by every convention; those of scans where any number counts as metres."""
    pairwise = _pairwise(predicted, solution, clouds, placed)
    return {
        **{name: pairwise[name] for name in ("rotation", "translation", "solved")},
        **_breaking_bad(predicted, solution, clouds, placed),
        **{f"scan_{name}": value for name, value in _registration(predicted, solution, clouds, placed).items()},
    }


_BREAKING_BAD = {
    "rotation_rmse": Metric("RMSE(R) [deg]"),
    "translation_rmse": Metric("RMSE(T) [1e-2]", factor=100),
    "part_accuracy": Metric("PA [%]", factor=100, more_is_better=True),
    "matched_part_accuracy": Metric("matched PA [%]", factor=100, more_is_better=True),
    "chamfer": Metric("CD [1e-3]", factor=1000),
}

_REGISTRATION = {
    "recall": Metric("RR [%]", factor=100, more_is_better=True),
    "registered": Metric("within 15 deg, 0.3 m [%]", factor=100, more_is_better=True),
    "rotation": Metric("RRE [deg]"),
    "translation": Metric("RTE [m]"),
}

_ROTATION, _TRANSLATION = Metric("rotation [deg]", of_pairs=True), Metric("translation", of_pairs=True)
_SOLVED = Metric("solved [%]", factor=100, more_is_better=True)

# Of systems that may leave pieces unplaced, beside every protocol.
PLACEMENT = {
    "placed": Metric("placed [%]", factor=100, more_is_better=True),
    "placed_rotation": Metric("rotation of placed [deg]"),
}


def placement_figures(predicted: SE3, solution: SE3, placed: np.ndarray) -> dict[str, float]:
    """The share of pieces that are placed, and the pairwise rotation error of these; NaN of fewer than two."""
    rows = np.flatnonzero(placed)
    degrees = pairwise_errors(predicted[rows], solution[rows])[0] if len(rows) > 1 else float("nan")
    return {"placed": float(placed.mean()), "placed_rotation": degrees}


PROTOCOLS = {
    "pairwise": Protocol(
        _pairwise,
        {
            "rotation": _ROTATION,
            "translation": _TRANSLATION,
            "relative_translation": Metric("of size [%]", factor=100),
            "solved": _SOLVED,
            "part_accuracy": Metric("parts in place [%]", factor=100, more_is_better=True),
        },
    ),
    "breaking_bad": Protocol(_breaking_bad, _BREAKING_BAD),
    "breaking_bad_anchored": Protocol(_as_placed, _BREAKING_BAD, anchored=True),
    "registration": Protocol(
        _registration,
        _REGISTRATION,
        scans=True,
    ),
    "conventions": Protocol(
        _conventions,
        {
            "rotation": _ROTATION,
            "translation": _TRANSLATION,
            "solved": _SOLVED,
            **_BREAKING_BAD,
            **{f"scan_{name}": metric for name, metric in _REGISTRATION.items()},
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
