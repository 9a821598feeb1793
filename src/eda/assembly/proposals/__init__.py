"""Proposals: relative poses of pairs of pieces, worth refining. One proposer a file, behind one protocol."""

from eda.assembly.proposals.base import PairPoses, PairProposer, Problem, Proposals, Proposer
from eda.assembly.proposals.docking import Docking, DockingConfig, docking_poses
from eda.assembly.proposals.flow import FlowSamples
from eda.assembly.proposals.kiss_matcher import KissMatcher, match

__all__ = [
    "Docking",
    "DockingConfig",
    "FlowSamples",
    "KissMatcher",
    "PairPoses",
    "PairProposer",
    "Problem",
    "Proposals",
    "Proposer",
    "docking_poses",
    "match",
]
