"""Files that commands write: whether they can be written is checked before the work, not after it."""

from __future__ import annotations

from pathlib import Path


def check_output_file(path: Path, *, overwrite: bool) -> None:
    """Raise `InputError` if a file cannot be written at this path, or exists and must not be replaced."""
    from eda.errors import InputError

    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise InputError(f"{path}: cannot be written, because the folder {path.parent} does not exist; create it first")
    if path.exists() and not overwrite:
        raise InputError(f"{path}: exists already; choose another name, or add --overwrite")


def write_output_file(path: Path, content: bytes) -> None:
    """Write a file completely or not at all; raise `InputError` if that is impossible."""
    from eda.atomic import write_atomically
    from eda.errors import InputError

    try:
        write_atomically(path, content)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error})") from error
