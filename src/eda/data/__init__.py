"""Puzzles to learn from and to measure on: three generators, readers of other people's formats, a streaming loader."""

from eda.data.example import LOST, OUTER, Example
from eda.data.fracture import Fracture, FractureConfig, FractureSource, open_meshes, random_shape
from eda.data.readers import open_reader
from eda.data.rooms import RoomSource
from eda.data.source import Source
from eda.data.sources import open_examples, register_source
from eda.data.storage.build import BuildResult, Plan, build
from eda.data.storage.loader import Batch, Loader
from eda.data.storage.shards import Dataset
from eda.data.streets import StreetSource

__all__ = [
    "LOST",
    "OUTER",
    "Batch",
    "BuildResult",
    "Dataset",
    "Example",
    "Fracture",
    "FractureConfig",
    "FractureSource",
    "Loader",
    "Plan",
    "RoomSource",
    "Source",
    "StreetSource",
    "build",
    "open_examples",
    "open_meshes",
    "open_reader",
    "random_shape",
    "register_source",
]
