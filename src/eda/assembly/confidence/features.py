"""Features of joints, pieces and assemblies that say whether they are right; calibrations weigh their columns."""

from __future__ import annotations

import numpy as np

from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.score import AssemblyScores


def assembly_features(scores: AssemblyScores, placed: np.ndarray, support: np.ndarray) -> np.ndarray:
    """Of K assemblies: score, gain of the worst piece, `support` (K,) among the samples. -> (K, 3).

    Few, as there are few wrong ones to fit to.
    """
    worst = np.where(placed, scores.pieces, 1).min(axis=1)
    return np.stack([scores.score, worst, support], axis=1)


def piece_features(evidence: Evidence, scores: AssemblyScores, placed: np.ndarray, margin: np.ndarray) -> np.ndarray:
    """Of all pieces in K assemblies: gain, best joint, score, margin, share of pieces placed. -> (K, N, 5)."""
    shape = placed.shape
    whole = (np.broadcast_to(values[:, None], shape) for values in (scores.score, margin, placed.mean(axis=1)))
    return np.stack([scores.pieces, _quality(evidence, scores).max(axis=2), *whole], axis=-1)


def joint_features(evidence: Evidence, scores: AssemblyScores, margin: np.ndarray, support: np.ndarray) -> np.ndarray:
    """Of all pairs in K assemblies: quality, log contacts, gain of the worse piece, score, margin, `support` (K, N, N).

    -> (K, N, N, 6), symmetric in the pieces.
    """
    quality = _quality(evidence, scores)
    contacts = np.log1p(scores.good + scores.good.swapaxes(1, 2))
    worse = np.minimum(scores.pieces[:, :, None], scores.pieces[:, None])
    shape = quality.shape
    score, step = (np.broadcast_to(values[:, None, None], shape) for values in (scores.score, margin))
    return np.stack([quality, contacts, worse, score, step, support], axis=-1)


def _quality(evidence: Evidence, scores: AssemblyScores) -> np.ndarray:
    """(K, N, N) what joints gain, as a share of what the piece with less break could gain."""
    least = np.minimum(evidence.masses[:, None], evidence.masses)
    return scores.joints * evidence.masses.sum() / (2 * least)


def mean_support(support: np.ndarray, placed: np.ndarray) -> np.ndarray:
    """(K,) of (K, N, N), over the pairs of pieces placed (K, N)."""
    count = placed.sum(axis=1)
    return support.sum(axis=(1, 2)) / np.maximum(count * (count - 1), 1)
