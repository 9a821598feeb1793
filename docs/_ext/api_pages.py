"""Writes the pages of the API reference: one for every package, found by walking the tree. There is no list to keep.

A package's page has its docstring, its public names, and a section for each of its modules. The pages are written
to docs/api before Sphinx reads its sources, and are not in version control.
"""

from __future__ import annotations

import importlib
import pkgutil
import shutil
from pathlib import Path
from typing import Any

ROOT = "eda"


def public_modules(package: str) -> tuple[list[str], list[str]]:
    """The names of the packages and of the modules right inside a package, without private ones."""
    found = pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")
    inside = [(name, is_package) for _, name, is_package in found if not name.rpartition(".")[2].startswith("_")]
    return [name for name, is_package in inside if is_package], [name for name, is_package in inside if not is_package]


def write_page(package: str, folder: Path) -> None:
    """Write the page of a package and those of the packages inside it."""
    packages, modules = public_modules(package)
    lines = [_title(package, "="), *_automodule(package), *_public_names(package)]
    if packages:
        lines += [".. toctree::", "   :maxdepth: 1", "   :caption: Packages inside", ""]
        lines += [*(f"   {name}" for name in packages), ""]
    for name in modules:
        lines += [_title(name, "-"), *_automodule(name)]
    (folder / f"{package}.rst").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name in packages:
        write_page(name, folder)


def _title(text: str, underline: str) -> str:
    return f"{text}\n{underline * len(text)}\n"


def _automodule(name: str) -> list[str]:
    # Names that a package imports from its modules are described where they are defined.
    return [f".. automodule:: {name}", "   :ignore-module-all:", ""]


def _public_names(package: str) -> list[str]:
    """One line for every name that the package offers, with a link to where it is defined."""
    module = importlib.import_module(package)
    names = sorted(getattr(module, "__all__", ()), key=str.casefold)
    if not names:
        return []
    return [".. rubric:: Public names", "", *(f"- {_link(package, name, getattr(module, name))}" for name in names), ""]


def _link(package: str, name: str, value: Any) -> str:
    home = getattr(value, "__module__", None)
    if not isinstance(home, str) or not home.startswith(f"{ROOT}.") or getattr(value, "__name__", None) != name:
        return f"``{package}.{name}``"
    return f":py:obj:`{package}.{name} <{home}.{name}>`"


def generate(app: Any) -> None:
    """Write all pages anew, so that those of modules that are gone do not stay."""
    folder = Path(app.srcdir) / "api"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write_page(ROOT, folder)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", generate, priority=100)
    return {"parallel_read_safe": True}
