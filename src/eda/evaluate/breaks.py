"""How well a model's break head tells the points of break surfaces from the others.

In: examples with labels of contact. Out: an `Evaluation` of the protocol "breaks", with one repeat of one sample: no
chance is involved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np

from eda.data import Example
from eda.errors import InputError
from eda.evaluate.scatter import Scattered, scattered
from eda.evaluate.summary import Evaluation
from eda.metrics import precision_recall, roc_auc
from eda.model import Eda
from eda.pieces import Pieces

PROTOCOL = "breaks"
CHOSEN = 0.5  # the probability from which a point is said to lie on a break


def evaluate_breaks(
    model: Eda,
    examples: Iterable[Example],
    *,
    points: int = 1000,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Judge the points that the network is given, about `points` of a puzzle; `progress` hears how many there were."""
    names: list[str] = []
    num_pieces, figures, seconds = [], [], []
    for puzzle in scattered(examples, seed):
        thin = puzzle.example.downsample(points)
        began = time.perf_counter()
        probability = _probability(model, puzzle, thin)
        seconds.append(time.perf_counter() - began)
        figures.append(_figures(thin, probability))
        names.append(thin.name)
        num_pieces.append(len(puzzle.own))
        if progress:
            progress(len(names))
    if not names:
        raise InputError("no puzzles to evaluate on")
    return Evaluation(
        protocol_name=PROTOCOL,
        names=names,
        num_pieces=np.array(num_pieces),
        values={name: np.array([each[name] for each in figures]).reshape(-1, 1, 1) for name in figures[0]},
        poses=[],
        seconds=np.array(seconds)[:, None],
    )


def _probability(model: Eda, puzzle: Scattered, thin: Example) -> np.ndarray:
    """(P,) of the thinned example's points, seen as a system is given them."""
    normals = puzzle.normals(thin) if model.config.network.normals != "absent" else None
    pieces = Pieces.from_clouds(puzzle.clouds(thin), normals)
    return model.break_probability(pieces.to(device=next(model.parameters()).device)).cpu().numpy()


def _figures(thin: Example, probability: np.ndarray) -> dict[str, float]:
    if thin.on_break is None:
        raise InputError(f"{thin.name}: nobody says which of its points lie on a break, so breaks cannot be scored")
    precision, recall = precision_recall(thin.on_break, probability >= CHOSEN)
    return {"auc": roc_auc(thin.on_break, probability), "precision": precision, "recall": recall}
