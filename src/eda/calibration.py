"""Calibration: from features of an assembly to the probability that it is right, by logistic regression.

A model file carries the calibrations that were fitted to its own assemblies, by name, as JSON in its header. Which
names and features there are is up to `eda.assembly.confidence`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from eda.errors import InputError
from eda.model_file import read_header, rewrite_header
from eda.regime import Regime
from eda.weights import shipped_for

_ENTRY = "calibration"  # of a model file's header
# The quantiles within which features are usual, and the least width of a range.
USUAL, NARROWEST = (0.005, 0.995), 1e-6


@dataclass(frozen=True)
class Calibration:
    """p = sigmoid(bias + weights . features)."""

    weights: tuple[float, ...]  # (F,), in the order of the features
    bias: float
    fitted: str  # to what data
    low: tuple[float, ...] = ()  # (F,) the least that was usual in that data; empty: not known
    high: tuple[float, ...] = ()  # (F,) and the most

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """The probabilities (...) of features (..., F)."""
        return expit(features @ np.array(self.weights) + self.bias)

    def unlikeness(self, features: np.ndarray) -> np.ndarray:
        """How far features (..., F) lie outside of what was usual, in widths of that, for the worst of them. -> (...)

        0 within, and where it is not known what was usual.
        """
        if not self.low:
            return np.zeros(features.shape[:-1])
        low, high = np.array(self.low), np.array(self.high)
        outside = np.maximum(low - features, features - high) / np.maximum(high - low, NARROWEST)
        return outside.max(axis=-1).clip(min=0)


Calibrations = Mapping[str, Calibration]  # by what the probability is of: "joint", "piece", "assembly"


def calibrate(
    features: np.ndarray, right: np.ndarray, *, fitted: str, ridge: float = 1e-2, usual: np.ndarray | None = None
) -> Calibration:
    """The calibration that fits features (M, F) of assemblies that are right or not (M,), by Newton's method.

    The ridge, on standardised features, keeps the weights finite where right and wrong separate. `usual` (M,) bool are
    the rows whose features the calibration is to know as usual; None: it does not know.
    """
    if features.ndim != 2 or features.shape[:1] != np.shape(right) or len(right) < 2:
        raise InputError(f"features must be (M, F) and labels (M,) with M > 1, got {features.shape}, {np.shape(right)}")
    mean, spread = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-6)
    rows = np.hstack([(features - mean) / spread, np.ones((len(right), 1))])
    penalty = ridge * len(right) * np.diag([*np.ones(features.shape[1]), 1e-3])
    weights = np.zeros(features.shape[1] + 1)
    for _ in range(50):
        probability = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (probability - right) + penalty @ weights
        curvature = (rows * (probability * (1 - probability))[:, None]).T @ rows + penalty
        weights = weights - np.linalg.solve(curvature, slope)
    plain = weights[:-1] / spread
    low, high = ((), ()) if usual is None else np.quantile(features[usual], USUAL, axis=0).tolist()
    return Calibration(tuple(plain.tolist()), float(weights[-1] - plain @ mean), fitted, tuple(low), tuple(high))


# -- in a model file ---------------------------------------------------------------------------------------------------


def write_calibrations(path: Path, calibrations: Calibrations) -> None:
    """Put calibrations into the header of a model file, in place of those it had. The weights stay as they are."""
    rewrite_header(path, {_ENTRY: calibration_values(calibrations)})


def read_calibrations(path: Path) -> Calibrations | None:
    """The calibrations in a model file; None if it has none."""
    return calibrations_from(read_header(path).get(_ENTRY), path)


@cache
def shipped_calibrations(regime: Regime) -> Calibrations:
    """The calibrations of the model that ships for a regime: what stands in where a model brings none of its own."""
    calibrations = read_calibrations(shipped_for(regime).path)
    assert calibrations is not None
    return calibrations


def calibration_values(calibrations: Calibrations) -> dict[str, Any]:
    """Calibrations as plain values, as they are written to JSON."""
    return {name: dataclasses.asdict(calibration) for name, calibration in calibrations.items()}


def calibrations_from(values: Any, path: Path) -> Calibrations | None:
    """The inverse of `calibration_values`, for values from the header of a model file; None stays None."""
    if values is None:
        return None
    try:
        return {str(name): _calibration(**entry) for name, entry in values.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: the calibration in the header of this model is damaged ({error}); fetch the model again"
        ) from error


def _calibration(weights: Any, bias: Any, fitted: Any, low: Any = (), high: Any = ()) -> Calibration:
    numbers = [*weights, bias, *low, *high]
    if not all(type(number) in (int, float) and math.isfinite(number) for number in numbers):
        raise ValueError("weights, bias and ranges must be finite numbers")
    if not len(low) == len(high) or len(low) not in (0, len(weights)):
        raise ValueError(f"{len(low)} and {len(high)} ends of ranges for {len(weights)} weights")
    per_feature = [tuple(map(float, values)) for values in (weights, low, high)]
    return Calibration(per_feature[0], float(bias), str(fitted), *per_feature[1:])
