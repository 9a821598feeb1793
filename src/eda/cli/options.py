"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eda.data.mesh_files import MeshSource


def listed(text: str) -> tuple[str, ...]:
    """Words separated by commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def meshes_at(path: Path | None, licences: str | None) -> MeshSource | None:
    """The meshes at a path, of a pack only those with such licences; None without a path."""
    from eda.data.mesh_files import mesh_source
    from eda.errors import InputError

    if path is not None:
        return mesh_source(path, listed(licences) if licences else None)
    if licences is not None:
        raise InputError("--licences chooses among the meshes of a pack; there are none")
    return None
