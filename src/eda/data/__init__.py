"""Puzzles to learn from and to measure on: two generators, readers of everybody's formats, a loader that streams."""

from eda.data.build import Built, Plan, build
from eda.data.example import LOST, OUTER, Example
from eda.data.fracture import Fracture, FractureConfig
from eda.data.loader import Batch, Loader
from eda.data.mesh_files import mesh_source
from eda.data.prepare import open_source
from eda.data.puzzles import FractureSource
from eda.data.rooms import RoomSource
from eda.data.shapes import random_shape
from eda.data.shards import Dataset
from eda.data.sources import open_examples, register_source

__all__ = [
    "LOST",
    "OUTER",
    "Batch",
    "Built",
    "Dataset",
    "Example",
    "Fracture",
    "FractureConfig",
    "FractureSource",
    "Loader",
    "Plan",
    "RoomSource",
    "build",
    "mesh_source",
    "open_examples",
    "open_source",
    "random_shape",
    "register_source",
]
