"""Files are written whole or not at all."""

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """All of the file, or nothing: a reader never meets half of it, and a full disk leaves the old one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        temporary.write_bytes(content)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())  # or a power cut could leave the name without the content
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
