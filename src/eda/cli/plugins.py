"""Modules of the user's that register networks, noises, solvers, recipes or data sources before a command runs.

There are two ways. An installed package names its module in the entry-point group `eda.plugins`; a module that is not
installed is named on the command line, `eda --plugin my_module evaluate ...`, and may lie in the working folder.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points

GROUP = "eda.plugins"


def load_plugins(modules: Sequence[str]) -> None:
    """Import the installed plugins, then these modules. Raises `InputError` for one that cannot be imported."""
    from eda.errors import InputError

    for point in entry_points(group=GROUP):
        try:
            point.load()
        except (ImportError, AttributeError) as error:
            raise InputError(f"the plugin {point.name} = {point.value} cannot be imported: {error}") from error
    if modules and "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` does; the console script does not look into the working folder
    for module in modules:
        try:
            import_module(module)
        except (ImportError, ValueError) as error:
            raise InputError(f"--plugin {module}: cannot be imported: {error}; give the name of a module") from error
