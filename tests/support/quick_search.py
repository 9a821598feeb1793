"""Searches that are quick enough for tests, and pieces of few points."""

from eda.assembly import DockingConfig, RankConfig

DENSITY = 110.0  # of the points of a piece
QUICK = RankConfig(docking=DockingConfig(edges=24, places=4, other_places=16, num_candidates=100, num_poses=12))
SAMPLED = RankConfig(docking=None)
