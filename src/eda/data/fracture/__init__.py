"""Objects broken into rough pieces that fit exactly: our own shapes, or any closed meshes.

In: what to break and how. Out: `FractureSource`, a source of labelled puzzles; `write_puzzles` writes them as meshes.
"""

from eda.data.fracture.fracture_source import FractureSource
from eda.data.fracture.generator import Fracture, FractureConfig, fracture
from eda.data.fracture.mesh_collections import Meshes, open_meshes
from eda.data.fracture.puzzle_folders import write_puzzles
from eda.data.fracture.shapes import random_shape

__all__ = [
    "Fracture",
    "FractureConfig",
    "FractureSource",
    "Meshes",
    "fracture",
    "open_meshes",
    "random_shape",
    "write_puzzles",
]
