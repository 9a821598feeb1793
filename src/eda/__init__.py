"""Eda puts rigid 3D pieces together: equivariant flow matching for point cloud assembly.

The names below are loaded when they are first used: `import eda` takes no time, and neither does `eda --help`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eda.assembly import Assembly, assemble
    from eda.errors import InputError
    from eda.lie import SE3
    from eda.model import Eda, EdaConfig, load
    from eda.nn import NetworkConfig
    from eda.pieces import Pieces, Puzzle

__version__ = "0.1.0"

_HOME = {
    "Assembly": "eda.assembly",
    "assemble": "eda.assembly",
    "InputError": "eda.errors",
    "SE3": "eda.lie",
    "Eda": "eda.model",
    "EdaConfig": "eda.model",
    "load": "eda.model",
    "NetworkConfig": "eda.nn",
    "Pieces": "eda.pieces",
    "Puzzle": "eda.pieces",
}

__all__ = [
    "SE3",
    "Assembly",
    "Eda",
    "EdaConfig",
    "InputError",
    "NetworkConfig",
    "Pieces",
    "Puzzle",
    "assemble",
    "load",
]


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'eda' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
