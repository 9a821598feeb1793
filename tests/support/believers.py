"""For tests: confidence that does not depend on what is seen."""

from collections.abc import Sequence

import numpy as np

from eda.assembly import Evidence
from eda.assembly.confidence import AssemblyStats, Probabilities


class Believer:
    """Believes the same of every assembly: in the whole, and in every piece or in each as it is told."""

    def __init__(self, whole: float = 1.0, pieces: float | Sequence[float] = 1.0) -> None:
        self.whole, self.of_pieces = whole, pieces

    def estimate(self, stats: AssemblyStats) -> Probabilities:
        pieces = np.ones(stats.placed.shape) * np.array(self.of_pieces)
        return Probabilities(np.ones(stats.support.shape), pieces, np.full(len(pieces), self.whole))

    def knows(self, evidence: Evidence) -> bool:
        return True
