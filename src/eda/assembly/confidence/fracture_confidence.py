"""Confidence in assemblies of fractured pieces: logistic regressions on a few features each."""

from __future__ import annotations

from dataclasses import dataclass

from eda.assembly.confidence.features import FEATURES, Features, breaks_are_known, kind_features
from eda.assembly.confidence.stats import AssemblyStats, Probabilities
from eda.assembly.contact.evidence import Evidence
from eda.calibration import Calibration
from eda.errors import InputError

# Pieces are unlike those of a broken object if they are less likely so than this, or if one of their features lies
# outside of what is usual by more than this share of its range.
LEAST_KIN, MOST_UNLIKE = 0.5, 0.25


@dataclass(frozen=True)
class FractureConfidence:
    """A calibration for each kind of probability."""

    joint: Calibration
    piece: Calibration
    assembly: Calibration
    kind: Calibration  # that the pieces are those of a broken object

    def __post_init__(self) -> None:
        for name, columns in FEATURES.items():
            found = len(getattr(self, name).weights)
            if found != len(columns):
                raise InputError(
                    f"the model's calibration of {name} has {found} weights for {len(columns)} features: it was made "
                    "by another version of Eda; calibrate the model again"
                )

    def estimate(self, stats: AssemblyStats) -> Probabilities:
        """The three calibrations, which take for granted that the pieces are broken, times how likely that is."""
        of, broken = Features(stats), self._broken(stats.evidence)
        likely = self.joint(of.joints()), self.piece(of.pieces()), self.assembly(of.assemblies())
        return Probabilities(*(broken * values for values in likely))

    def knows(self, evidence: Evidence) -> bool:
        """Whether the pieces look broken, and in no way unlike those that the calibrations were fitted to."""
        unlikeness = float(self.kind.unlikeness(kind_features(evidence)))
        return self._broken(evidence) >= LEAST_KIN and (unlikeness <= MOST_UNLIKE or not breaks_are_known(evidence))

    def _broken(self, evidence: Evidence) -> float:
        """How likely the pieces are those of a broken object; certain where no network has looked for breaks."""
        return float(self.kind(kind_features(evidence))) if breaks_are_known(evidence) else 1.0
