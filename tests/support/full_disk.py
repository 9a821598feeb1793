"""For tests: a disk that is full."""

from pathlib import Path
from typing import NoReturn


def fail_without_space(*_: object) -> NoReturn:
    """In place of any function that writes: fails at once as on a full disk."""
    raise OSError(28, "No space left on device")


def full_disk(self: Path, content: bytes) -> int:
    """In place of `Path.write_bytes`: writes half, then fails as a full disk does."""
    with self.open("wb") as file:
        file.write(content[: len(content) // 2])
    fail_without_space()
