"""Eda puts rigid 3D pieces together: equivariant flow matching for point cloud assembly."""

from eda.errors import InputError
from eda.lie import SE3
from eda.model import Eda, EdaConfig
from eda.nn import NetworkConfig
from eda.pieces import Pieces, Puzzle

__version__ = "0.1.0"

load = Eda.load

__all__ = ["SE3", "Eda", "EdaConfig", "InputError", "NetworkConfig", "Pieces", "Puzzle", "load"]
