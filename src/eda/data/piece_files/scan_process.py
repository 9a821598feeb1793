"""A process of its own for the libraries that read laser scans: a damaged file may end it, and nothing else.

Run as a script: `python scan_process.py KIND FILE FOLDER BYTES SECONDS` reads FILE, with at most so much memory and
time, and writes the arrays of its n-th scan to FOLDER as `n-points.npy` and `n-colors.npy`. What is wrong with the file
is written to `problem`. It imports numpy and the library alone, because every scan starts it anew.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    del sys.path[0]  # this folder, which Python puts before all others for a script

from collections.abc import Iterator
from pathlib import Path
from typing import Any

_CHUNK = 1_000_000  # points: what is promised but not there is never allocated
Scan = tuple[Any, Any]  # points (n, 3) float64, and colours (n, 3) or None


def read_las(path: Path) -> Iterator[Scan]:
    """The only scan of a LAS or LAZ file."""
    import laspy  # type: ignore[import-untyped, unused-ignore]
    import numpy as np

    with open(path, "rb") as file, laspy.open(file, closefd=False) as reader:
        chunks = [(_xyz(chunk), _las_colors(chunk)) for chunk in reader.chunk_iterator(_CHUNK)]
        promised = reader.header.point_count
    if not chunks or sum(len(points) for points, _ in chunks) != promised:
        raise EOFError(f"fewer points than the {promised} that its header promises; copy it again")
    colors = [of_chunk for _, of_chunk in chunks if of_chunk is not None]
    yield np.concatenate([points for points, _ in chunks]), np.concatenate(colors) if colors else None


def _xyz(chunk: Any) -> Any:
    import numpy as np

    return np.column_stack([chunk.x, chunk.y, chunk.z])


def _las_colors(chunk: Any) -> Any:
    import numpy as np

    if "red" not in chunk.point_format.dimension_names:
        return None
    return np.column_stack([chunk.red, chunk.green, chunk.blue])


def read_e57(path: Path) -> Iterator[Scan]:
    """Every scan of an E57 file, each at its own place in the file's frame."""
    import pye57  # type: ignore[import-untyped, unused-ignore]

    file = pye57.E57(str(path))
    try:
        for index in range(file.scan_count):
            yield _e57_scan(file, index, path.stat().st_size)
    finally:
        file.close()


def _e57_scan(file: Any, index: int, size: int) -> Scan:
    import numpy as np

    header = file.get_header(index)
    if not 0 <= header.point_count <= size:
        raise EOFError(f"it promises {header.point_count} points, but holds {size} bytes; it is incomplete or damaged")
    names = [f"color{channel}" for channel in ("Red", "Green", "Blue")]
    has_colors = set(names) <= set(header.point_fields)
    data = file.read_scan(index, colors=has_colors, ignore_missing_fields=True)
    points = np.column_stack([data[f"cartesian{axis}"] for axis in "XYZ"])
    return points, np.column_stack([data[name] for name in names]) if has_colors else None


READERS = {"las": read_las, "e57": read_e57}


def _limit(num_bytes: int, seconds: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits; there the time of the process is limited from outside alone
        return
    resource.setrlimit(resource.RLIMIT_AS, (num_bytes, num_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(kind: str, path: str, folder: str, num_bytes: str, seconds: str) -> int:
    """Read a file and write its arrays. Returns 0 if all is written, 1 if `problem` says why not."""
    import numpy as np

    _limit(int(num_bytes), int(seconds))
    try:
        for number, (points, colors) in enumerate(READERS[kind](Path(path))):
            np.save(Path(folder) / f"{number}-points.npy", points)
            if colors is not None:
                np.save(Path(folder) / f"{number}-colors.npy", colors)
    except EOFError as error:
        (Path(folder) / "problem").write_text(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
