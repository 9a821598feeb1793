"""AssemblyStats: what confidence is computed from; and the protocol of what computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.score import AssemblyScores


@dataclass(frozen=True)
class AssemblyStats:
    """What is observed of K assemblies of N pieces."""

    evidence: Evidence
    scores: AssemblyScores
    placed: np.ndarray  # (K, N) bool
    pinned: np.ndarray  # (N,) bool, the pieces whose place is not in question
    margin: np.ndarray  # (K,) by how much each beats the best of the others
    support: np.ndarray  # (K, N, N) the share of samples in which two pieces lie as here


class ConfidenceEstimator(Protocol):
    """Probabilities of being right. Those of joints that do not touch, and of pieces without a joint, are not used."""

    def joints(self, stats: AssemblyStats) -> np.ndarray:
        """(K, N, N) that the relative pose of two pieces is right."""

    def pieces(self, stats: AssemblyStats) -> np.ndarray:
        """(K, N) that a piece is in its place."""

    def assemblies(self, stats: AssemblyStats) -> np.ndarray:
        """(K,) that all placed pieces are."""
