"""The regime of scans: surfaces seen twice lie on each other, and local features suggest where."""

from __future__ import annotations

from eda.assembly.confidence import ConfidenceEstimator, ScanConfidence
from eda.assembly.contact.rules import ContactRules
from eda.assembly.contact.scan_contact import ScanContact
from eda.assembly.proposals import Docking, FlowSamples, KissMatcher, Proposer, kiss_matcher
from eda.calibration import Calibrations
from eda.regime import Regime


class ScanRegime:
    """Views of one scene that overlap."""

    name: Regime = "scan"
    has_breaks = False
    refines_samples = False
    redocks = False
    finishes = False

    def __init__(self, calibrations: Calibrations) -> None:
        self.contact: ContactRules = ScanContact(calibrations["joint"])
        self.confidence: ConfidenceEstimator = ScanConfidence()

    def proposers(self, docking: Docking | None) -> tuple[Proposer, ...]:
        """Matches, and samples, which are already refined: to look further would pull them off a small overlap."""
        return KissMatcher(), FlowSamples("close")

    def cautions(self, num_pieces: int) -> list[str]:
        """That more than two scans were not measured, and that a proposer is missing where it is."""
        cautions = ["probabilities were measured on pairs of scans only"] if num_pieces > 2 else []
        if not kiss_matcher.is_installed():
            cautions.append(f"{kiss_matcher.INSTALL} would add matching of local features")
        return cautions
