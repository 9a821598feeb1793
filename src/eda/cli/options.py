"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eda.data.fracture import Meshes

PUZZLES = (
    "Where the puzzles are: a dataset, a folder of pieces in assembled position, fracture:KEY=VALUE,..., "
    "rooms:KEY=VALUE,..., streets:KEY=VALUE,... or KIND:PATH."
)


def listed(text: str) -> tuple[str, ...]:
    """Words separated by commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def meshes_at(path: Path | None, licences: str | None) -> Meshes | None:
    """The meshes at a path, of a pack only those with such licences; None without a path."""
    from eda.data.fracture import open_meshes
    from eda.errors import InputError

    if path is not None:
        return open_meshes(path, listed(licences) if licences else None)
    if licences is not None:
        raise InputError("--licences chooses among the meshes of a pack, but no pack was given")
    return None
