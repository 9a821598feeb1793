"""How well the points of break surfaces are told from the others."""

from __future__ import annotations

import numpy as np

from eda.errors import InputError


def roc_auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """How often a point on a break scores above one that is not; a tie counts half. NaN without points of both kinds.

    By ranks (Mann and Whitney): labels (n,) bool, scores (n,).
    """
    labels, scores = _checked(labels, scores)
    positives, negatives = int(labels.sum()), int((~labels).sum())
    if not positives or not negatives:
        return float("nan")
    _, value, count = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[value]  # from 1; equal scores share the mean of their ranks
    above = rank[labels].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))


def precision_recall(labels: np.ndarray, chosen: np.ndarray) -> tuple[float, float]:
    """Of the points chosen, the share on a break; of those on a break, the share chosen. NaN where there are none."""
    labels, chosen = (array.astype(bool) for array in _checked(labels, chosen))
    hits = (labels & chosen).sum()
    return _share(hits, chosen.sum()), _share(hits, labels.sum())


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else float("nan")


def _checked(labels: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    labels, values = np.asarray(labels), np.asarray(values)
    if labels.shape != values.shape or labels.ndim != 1:
        raise InputError(f"labels and scores must be (n,) each, got {labels.shape} and {values.shape}")
    if not np.isfinite(values.astype(np.float64)).all():
        raise InputError("scores with NaN or infinite values have no order")
    return labels.astype(bool), values
