"""Confidence in assemblies of fractured pieces: three logistic regressions on a few features each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eda.assembly.confidence.features import assembly_features, joint_features, mean_support, piece_features
from eda.assembly.confidence.stats import AssemblyStats
from eda.calibration import Calibration


@dataclass(frozen=True)
class FractureConfidence:
    """A calibration for each kind of probability."""

    joint: Calibration
    piece: Calibration
    assembly: Calibration

    def joints(self, stats: AssemblyStats) -> np.ndarray:
        """(K, N, N)."""
        return self.joint(joint_features(stats.evidence, stats.scores, stats.margin, stats.support))

    def pieces(self, stats: AssemblyStats) -> np.ndarray:
        """(K, N)."""
        return self.piece(piece_features(stats.evidence, stats.scores, stats.placed, stats.margin))

    def assemblies(self, stats: AssemblyStats) -> np.ndarray:
        """(K,)."""
        support = mean_support(stats.support, stats.placed)
        return self.assembly(assembly_features(stats.scores, stats.placed, support))
