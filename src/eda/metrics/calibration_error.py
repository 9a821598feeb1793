"""How far probabilities can be believed: whether what is given 80 % comes true four times in five.

In: probabilities (n,) and whether each came true (n,).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eda.errors import InputError


class ReliabilityBin(NamedTuple):
    """One row of a reliability table: the probabilities within [low, high)."""

    low: float
    high: float
    number: int
    mean_probability: float
    share_right: float


def reliability_bins(probability: np.ndarray, right: np.ndarray, bins: int = 10) -> list[ReliabilityBin]:
    """The bins of equal width that hold any probability; 1 belongs to the last one."""
    probability, right = _checked(probability, right)
    bin_of = np.minimum((probability * bins).astype(int), bins - 1)
    return [
        ReliabilityBin(
            low=b / bins,
            high=(b + 1) / bins,
            number=int((bin_of == b).sum()),
            mean_probability=float(probability[bin_of == b].mean()),
            share_right=float(right[bin_of == b].mean()),
        )
        for b in np.unique(bin_of).tolist()
    ]


def expected_calibration_error(probability: np.ndarray, right: np.ndarray, bins: int = 10) -> float:
    """The mean over bins of |share that is right - mean probability|, weighted by how many fall into each."""
    rows = reliability_bins(probability, right, bins)
    return sum(row.number * abs(row.share_right - row.mean_probability) for row in rows) / len(probability)


def brier_score(probability: np.ndarray, right: np.ndarray) -> float:
    """The mean squared difference between probabilities and what came true (0 or 1)."""
    probability, right = _checked(probability, right)
    return float(np.square(probability - right).mean())


def _checked(probability: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    probability, right = np.asarray(probability, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if len(probability) == 0 or probability.shape != right.shape:
        raise InputError(f"{probability.shape} probabilities but {right.shape} labels")
    return probability, right
