"""For tests: a disk that is full."""

from pathlib import Path


def full_disk(self: Path, content: bytes) -> int:
    """In place of `Path.write_bytes`: writes half, then fails as a full disk does."""
    with self.open("wb") as file:
        file.write(content[: len(content) // 2])
    raise OSError(28, "No space left on device")
