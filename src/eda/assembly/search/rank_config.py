"""RankConfig: what a search tries."""

from __future__ import annotations

from dataclasses import dataclass, field

from eda.assembly.confidence import ConfidenceEstimator
from eda.assembly.proposals import DockingConfig, Proposer
from eda.assembly.search.joints import JointConfig


@dataclass(frozen=True)
class RankConfig:
    """What to try, and how much of it."""

    refine: bool = True  # False: samples are scored as they are, nothing is proposed or refined
    joints: JointConfig = field(default_factory=JointConfig)
    docking: DockingConfig | None = field(default_factory=DockingConfig)  # None: only what was sampled
    proposals: int = 320  # from docking, shared by all pairs
    looks: int = 2  # further ones, each with what is surely joined as one piece
    repairs: int = 1  # assemblies whose weakest pieces are docked again
    candidates: int = 8
    support_weight: float = 0.05  # of the share of samples that agree, when ranking
    support_distance: float = 0.5  # a sample agrees with a joint if no point lies further off
    confidence: ConfidenceEstimator | None = None  # None: that of the regime
    proposers: tuple[Proposer, ...] | None = None  # None: those of the regime
