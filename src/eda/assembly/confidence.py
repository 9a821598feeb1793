"""Confidence: from what is seen of an assembly to the probability that it is right.

Of sherds, a logistic regression on a few features. Its coefficients are literals below, with how they were fitted;
`calibrate` fits others, `eda.metrics` says how far to believe them. Of scans, see `scans`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit

from eda.assembly.evidence import Evidence
from eda.assembly.features import assembly_features, joint_features, mean_support, piece_features
from eda.assembly.judge import Judgement
from eda.errors import InputError


@dataclass(frozen=True)
class Calibration:
    """p = sigmoid(bias + weights . features)."""

    weights: tuple[float, ...]  # (F,), in the order of the features
    bias: float
    fitted: str  # on what, and how well it does

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """(..., F) -> (...)."""
        return expit(features @ np.array(self.weights) + self.bias)


def calibrate(features: np.ndarray, right: np.ndarray, *, fitted: str, ridge: float = 1e-2) -> Calibration:
    """Fit a calibration to features (M, F) of assemblies that are right or not (M,), by Newton's method.

    The ridge, on standardised features, keeps the weights finite where right and wrong separate.
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
    return Calibration(tuple(plain.tolist()), float(weights[-1] - plain @ mean), fitted)


@dataclass(frozen=True)
class Seen:
    """What is seen of K assemblies of N pieces."""

    evidence: Evidence
    judged: Judgement
    placed: np.ndarray  # (K, N) bool
    known: np.ndarray  # (N,) the pieces whose place is not in question
    margin: np.ndarray  # (K,) by how much each beats the best of the others
    support: np.ndarray  # (K, N, N) the share of samples in which two pieces lie as here


class Confidence(Protocol):
    """How sure one may be of what is seen. Of joints that do not touch nobody asks, nor of pieces without a joint."""

    def joints(self, seen: Seen) -> np.ndarray:
        """(K, N, N) that two pieces lie rightly to each other."""

    def pieces(self, seen: Seen) -> np.ndarray:
        """(K, N) that a piece is in its place."""

    def whole(self, seen: Seen) -> np.ndarray:
        """(K,) that all pieces placed are."""


@dataclass(frozen=True)
class Calibrated:
    """By features, each kind on its own."""

    joint: Calibration
    piece: Calibration
    assembly: Calibration

    def joints(self, seen: Seen) -> np.ndarray:
        """(K, N, N)."""
        return self.joint(joint_features(seen.evidence, seen.judged, seen.margin, seen.support))

    def pieces(self, seen: Seen) -> np.ndarray:
        """(K, N)."""
        return self.piece(piece_features(seen.evidence, seen.judged, seen.placed, seen.margin))

    def whole(self, seen: Seen) -> np.ndarray:
        """(K,)."""
        return self.assembly(assembly_features(seen.judged, seen.placed, mean_support(seen.support, seen.placed)))


_ON = "144 puzzles of 2 to 8 pieces of unseen kinds by fracture-small"
SHERDS = Calibrated(
    joint=Calibration((-1.71, 0.707, 1.071, 4.762, 1.947, 1.776), -3.352, f"427 joints of {_ON}"),
    piece=Calibration((1.392, -0.126, 3.703, 1.895, 0.0), -0.858, f"433 pieces of {_ON}"),
    assembly=Calibration((2.365, 3.01, 3.698), -2.863, f"144 assemblies of {_ON}"),
)
