"""Files are written whole or not at all."""

import os
import re
from pathlib import Path

_PARTIAL = re.compile(r"\..+\.\d+\.eda-partial")  # what a killed process leaves


def write_atomically(path: Path, content: bytes, *, backup: Path | None = None) -> None:
    """All of the file, or nothing: a reader never meets half of it, and a full disk leaves the old one.

    With a `backup`, the old file is kept under that name, once the new one is on the disk.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.eda-partial")
    try:
        temporary.write_bytes(content)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())  # or a power cut could leave the name without the content
        if backup is not None and path.is_file():
            os.replace(path, backup)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_partial_files(folder: Path) -> None:
    """Remove what killed processes left half-written in a folder; only for who holds the lock of the folder."""
    for path in folder.iterdir():
        if _PARTIAL.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)
