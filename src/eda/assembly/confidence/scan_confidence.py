"""Confidence in assemblies of scans: the calibrated probabilities of their joints, which the score is made of too."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from eda.assembly.confidence.stats import AssemblyStats, Probabilities
from eda.assembly.contact.evidence import Evidence


class ScanConfidence:
    """A piece is as likely right as the likeliest of its joints; an assembly, as the joints that connect it."""

    def estimate(self, stats: AssemblyStats) -> Probabilities:
        """All from the same joints."""
        return Probabilities(self.joints(stats), self.pieces(stats), self.assemblies(stats))

    def knows(self, evidence: Evidence) -> bool:
        """It cannot tell, so it does not say that it does not."""
        return True

    def joints(self, stats: AssemblyStats) -> np.ndarray:
        """(K, N, N)."""
        return stats.scores.good

    def pieces(self, stats: AssemblyStats) -> np.ndarray:
        """(K, N)."""
        return self.joints(stats).max(axis=2)

    def assemblies(self, stats: AssemblyStats) -> np.ndarray:
        """(K,) that the likeliest joints which connect all pieces are all right; 0 if the pieces are not connected."""
        likely = np.where(stats.pinned[:, None] & stats.pinned, 1, self.joints(stats))
        each = zip(likely, stats.placed, strict=True)
        return np.array([_spanning_probability(one[np.ix_(rows, rows)]) for one, rows in each])


def _spanning_probability(likely: np.ndarray) -> float:
    """The product of the joints (n, n) of the likeliest spanning tree, 0 if there is none."""
    if len(likely) < 2:
        return 1.0
    cost = np.where(likely > 0, 1 - np.log(np.where(likely > 0, likely, 1)), 0)  # one a joint, since 0 is no joint
    tree = minimum_spanning_tree(np.triu(cost, 1))
    return float(np.exp(tree.nnz - tree.sum())) if tree.nnz == len(likely) - 1 else 0.0
