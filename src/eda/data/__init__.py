"""Puzzles to learn from and to measure on: a generator, readers of everybody's formats, and a loader that streams."""

from eda.data.build import Built, Plan, build
from eda.data.example import LOST, OUTER, Example
from eda.data.shards import Dataset

__all__ = ["LOST", "OUTER", "Built", "Dataset", "Example", "Plan", "build"]
