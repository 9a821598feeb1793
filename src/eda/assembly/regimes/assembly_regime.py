"""AssemblyRegime: everything in which the assembly of one kind of pieces differs from that of another."""

from __future__ import annotations

from typing import Protocol

from eda.assembly.confidence import ConfidenceEstimator
from eda.assembly.contact.rules import ContactRules
from eda.assembly.proposals import Docking, Proposer
from eda.regime import Regime


class AssemblyRegime(Protocol):
    """One kind of pieces. Those that there are, by name, are in `eda.assembly.regimes`."""

    name: Regime
    contact: ContactRules  # what it means that two pieces fit
    confidence: ConfidenceEstimator  # how likely an assembly of them is right
    has_breaks: bool  # whether a break head can say which points of the pieces lie on a break
    refines_samples: bool  # whether samples are also refined as they are, with all pieces at once
    redocks: bool  # whether pieces that are left over, or supported badly, are docked to the rest again
    finishes: bool  # whether the best are refined and judged once more, by all points near their joints

    def proposers(self, docking: Docking | None) -> tuple[Proposer, ...]:
        """What suggests relative poses of two pieces, in the order in which they are tried; None: without docking."""

    def cautions(self, num_pieces: int) -> list[str]:
        """What a user should know of results for so many pieces."""
