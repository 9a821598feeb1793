"""Scenes: many scans, of which only those pairs are registered that may overlap, joined by a pose graph.

scans ─► places ─► candidate pairs ─► registered pairs ─► pose graph ─► groups
"""

from eda.assembly.scenes.many_scans import MOST_AT_ONCE, Scene
from eda.assembly.scenes.pair_cache import PairCache, PairJoint, model_digest
from eda.assembly.scenes.places import can_describe

__all__ = ["MOST_AT_ONCE", "PairCache", "PairJoint", "Scene", "can_describe", "model_digest"]
