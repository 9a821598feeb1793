"""How well a model's break head tells the points of break surfaces from the others.

In: puzzles with labels of contact. Out: an `Evaluation` of the protocol "breaks", with one repeat of one sample: no
chance is involved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from eda.data import Example
from eda.errors import InputError
from eda.evaluate.groups import PROPERTIES
from eda.evaluate.records import Record
from eda.evaluate.scatter import ScatteredPuzzle
from eda.evaluate.summary import Evaluation
from eda.metrics import precision_recall, roc_auc
from eda.model import Eda
from eda.pieces import Pieces

PROTOCOL = "breaks"
CHOSEN = 0.5  # the probability from which a point is said to lie on a break


def evaluate_breaks(
    model: Eda,
    puzzles: Iterable[ScatteredPuzzle],
    *,
    points: int | None = None,
    by: Sequence[str] = ("pieces",),
    finished: Sequence[Record] = (),
    keep: Callable[[Record], None] = lambda record: None,
) -> Evaluation:
    """Judge the points that the network is given: about `points` of a puzzle, or as many as in training."""
    records = list(finished)
    for puzzle in puzzles:
        thin = puzzle.example.downsample(points or model.config.num_points)
        began = time.perf_counter()
        probability = _probability(model, puzzle, thin)
        seconds = np.array([time.perf_counter() - began])
        figures = {name: np.array([[value]]) for name, value in _figures(thin, probability).items()}
        groups = {name: PROPERTIES[name](puzzle.example) for name in by}
        record = Record(puzzle.index, thin.name, len(puzzle.own), figures, groups, seconds=seconds)
        keep(record)
        records.append(record)
    if not records:
        raise InputError("no puzzles to evaluate on")
    return Evaluation(PROTOCOL, sorted(records, key=lambda record: record.index))


def _probability(model: Eda, puzzle: ScatteredPuzzle, thin: Example) -> np.ndarray:
    """(P,) of the thinned example's points, seen as a system is given them."""
    normals = puzzle.normals(thin) if model.takes_normals else None
    pieces = Pieces.from_clouds(puzzle.clouds(thin), normals)
    return model.break_probability(pieces.to(device=model.device)).cpu().numpy()


def _figures(thin: Example, probability: np.ndarray) -> dict[str, float]:
    if thin.on_break is None:
        raise InputError(f"{thin.name}: its points are not labelled as on or off a break, so breaks cannot be scored")
    precision, recall = precision_recall(thin.on_break, probability >= CHOSEN)
    return {"auc": roc_auc(thin.on_break, probability), "precision": precision, "recall": recall}
