"""The regime of fractures: breaks face each other, and geometry alone suggests where a piece may go."""

from __future__ import annotations

from eda.assembly.confidence import ConfidenceEstimator, FractureConfidence
from eda.assembly.confidence.features import FEATURES
from eda.assembly.contact.fracture_contact import FractureContact
from eda.assembly.contact.rules import ContactRules
from eda.assembly.proposals import Docking, FlowSamples, Proposer
from eda.calibration import Calibrations
from eda.regime import Regime


class FractureRegime:
    """Pieces of a broken object."""

    name: Regime = "fracture"
    has_breaks = True
    refines_samples = True
    redocks = True
    finishes = True

    def __init__(self, calibrations: Calibrations) -> None:
        self.contact: ContactRules = FractureContact()
        self.confidence: ConfidenceEstimator = FractureConfidence(**{name: calibrations[name] for name in FEATURES})

    def proposers(self, docking: Docking | None) -> tuple[Proposer, ...]:
        """Samples, which are rough, and dockings."""
        samples = FlowSamples("rough")
        return (samples,) if docking is None else (samples, docking)

    def cautions(self, num_pieces: int) -> list[str]:
        """None."""
        return []
