"""Eda puts rigid 3D pieces together: equivariant flow matching for point cloud assembly.

The names below are loaded when they are first used: `import eda` takes no time, and neither does `eda --help`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from eda.version import __version__ as __version__

if TYPE_CHECKING:
    from eda.assembly import AssembleConfig, Assembly, assemble, prepare
    from eda.errors import InputError
    from eda.flow import register_noise, register_solver
    from eda.lie import SE3
    from eda.model import Eda, load
    from eda.model_config import EdaConfig
    from eda.nn import NetworkConfig
    from eda.nn.protocol import register_network
    from eda.output.save import save_assembly, show_assembly
    from eda.pieces import Pieces, Puzzle
    from eda.recipes import register_recipe

_HOME = {
    "AssembleConfig": "eda.assembly",
    "Assembly": "eda.assembly",
    "assemble": "eda.assembly",
    "prepare": "eda.assembly",
    "InputError": "eda.errors",
    "SE3": "eda.lie",
    "Eda": "eda.model",
    "EdaConfig": "eda.model_config",
    "load": "eda.model",
    "NetworkConfig": "eda.nn",
    "Pieces": "eda.pieces",
    "Puzzle": "eda.pieces",
    "register_network": "eda.nn.protocol",
    "register_noise": "eda.flow",
    "register_recipe": "eda.recipes",
    "register_solver": "eda.flow",
    "save_assembly": "eda.output.save",
    "show_assembly": "eda.output.save",
}

__all__ = [
    "SE3",
    "AssembleConfig",
    "Assembly",
    "Eda",
    "EdaConfig",
    "InputError",
    "NetworkConfig",
    "Pieces",
    "Puzzle",
    "assemble",
    "load",
    "prepare",
    "register_network",
    "register_noise",
    "register_recipe",
    "register_solver",
    "save_assembly",
    "show_assembly",
]


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'eda' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
