"""AssemblyStats: what confidence is computed from; Probabilities; and the protocol of what computes these."""

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
    poses: np.ndarray  # (K, N, 4, 4)
    scores: AssemblyScores
    placed: np.ndarray  # (K, N) bool
    pinned: np.ndarray  # (N,) bool, the pieces whose place is not in question
    margin: np.ndarray  # (K,) by how much each beats the best of the others
    support: np.ndarray  # (K, N, N) the share of samples in which two pieces lie as here

    @property
    def touching(self) -> np.ndarray:
        """(K, N, N) which pieces touch each other."""
        touching = self.scores.good + self.scores.bad > 0
        return touching | touching.swapaxes(1, 2)


@dataclass(frozen=True)
class Probabilities:
    """How likely K assemblies of N pieces are right, as a whole and in parts.

    A joint is right if its two pieces lie rightly to each other, a piece is if it belongs to the body, which is the
    largest group of at least two pieces that do, and the whole is if all pieces placed are.
    """

    joints: np.ndarray  # (K, N, N), symmetric
    pieces: np.ndarray  # (K, N)
    wholes: np.ndarray  # (K,)

    def consistent(self, stats: AssemblyStats) -> Probabilities:
        """The same without contradictions, and 0 for what does not touch.

        A piece is never likelier right than the likeliest of its joints, and the whole never than its pieces. A joint
        is never less likely right than the whole. Of two pieces alone, all this is one and the same.
        """
        joints = np.maximum(self.joints, self.joints.swapaxes(1, 2)) * stats.touching
        pieces = np.minimum(self.pieces, joints.max(axis=2))
        in_question = stats.placed & ~stats.pinned
        wholes = np.minimum(self.wholes, np.where(in_question, pieces, 1).min(axis=1))
        pair = (stats.placed.sum(axis=1) == 2)[:, None]
        pieces = np.where(pair, np.minimum(pieces, wholes[:, None]), pieces)
        joints = np.where(pair[..., None], np.minimum(joints, wholes[:, None, None]), joints)
        at_least = stats.touching * wholes[:, None, None]
        return Probabilities(np.maximum(joints, at_least), pieces, wholes)


class ConfidenceEstimator(Protocol):
    """Probabilities of being right. Those of joints that do not touch, and of pieces without a joint, are not used."""

    def estimate(self, stats: AssemblyStats) -> Probabilities:
        """Those of K assemblies, which may still contradict each other."""

    def knows(self, evidence: Evidence) -> bool:
        """Whether the pieces are like those that the probabilities were fitted to."""
