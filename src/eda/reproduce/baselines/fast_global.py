"""Fast global registration (Zhou, Park and Koltun 2016) on FPFH correspondences.

    minimise sum_c mu |T x_c - y_c|^2 / (mu + |T x_c - y_c|^2)

from a large mu, with which all correspondences count, down to the size of an inlier. By Black and Rangarajan this is
weighted least squares with the weights (mu / (mu + |r|^2))^2, solved here in closed form instead of by a linear step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from eda.registration.rigid import act
from eda.reproduce.baselines.feature_ransac import INLIER, feature_matches, fit_motions

DIVISION, EVERY = 1.4, 4  # mu is divided by this, after so many steps
TUPLES, TUPLE_RATIO = 20_000, 0.9  # drawn, and how similar the lengths of their edges must be


def scales(first: float, last: float) -> np.ndarray:
    """(s,) mu of every step: shrinks from `first` until it is `last`, with which the last `EVERY` steps are made."""
    last = max(last, np.finfo(float).eps * first)  # of points that coincide, the size of an inlier is zero
    divisions = max(0, math.ceil(math.log(first / last) / math.log(DIVISION)))
    return np.repeat(np.append(first / DIVISION ** np.arange(divisions), last), EVERY)


@dataclass(frozen=True)
class FastGlobalRegistration:
    """FGR."""

    seed: int = 0

    def register(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """T_target_source (4, 4)."""
        x, y, spacing = feature_matches(source, target)
        return self.fit(x, y, INLIER * spacing)

    def fit(self, x: np.ndarray, y: np.ndarray, inlier: float) -> np.ndarray:
        """The motion (4, 4) of points x (c, 3) to y; the identity if hardly any agree in shape."""
        rows = self._tuples(x, y)
        if len(np.unique(rows)) < 3:
            return np.eye(4)
        x, y = x[rows], y[rows]
        diagonal = max(np.linalg.norm(np.ptp(x, axis=0)), np.linalg.norm(np.ptp(y, axis=0)))
        motion = fit_motions(x[None], y[None], np.ones((1, len(x))))[0]
        for mu in scales(float(diagonal) ** 2, inlier**2):
            square = np.square(act(motion, x) - y).sum(axis=1)
            motion = fit_motions(x[None], y[None], np.square(mu / (mu + square))[None])[0]
        return motion

    def _tuples(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(m,) rows of the correspondences in triples of about the same shape in both clouds; a row may be repeated."""
        if len(x) < 3:
            return np.zeros(0, dtype=np.int64)
        triples = np.random.default_rng(self.seed).integers(len(x), size=(TUPLES, 3))
        mine, theirs = (
            np.linalg.norm(points[triples] - points[np.roll(triples, 1, axis=1)], axis=2) for points in (x, y)
        )
        alike = (np.minimum(mine, theirs) > TUPLE_RATIO * np.maximum(mine, theirs)).all(axis=1)
        return triples[alike].ravel()
