"""Proposals: relative poses of pairs of pieces, worth refining. One proposer a file, behind one protocol."""

from eda.assembly.proposals.docking import Docking, DockingConfig, docking_poses
from eda.assembly.proposals.flow_samples import FlowSamples, Resampler, Sampler
from eda.assembly.proposals.kiss_matcher import KissMatcher, match
from eda.assembly.proposals.proposer import PairPoses, PairProposer, Problem, Proposals, Proposer, Resample

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
    "Resample",
    "Resampler",
    "Sampler",
    "docking_poses",
    "match",
]
