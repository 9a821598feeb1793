"""Scans of laser scanners: LAS and LAZ by laspy, E57 by pye57. Raises `ImportError` where these are missing.

Both libraries are compiled code that a damaged file can bring down, so they run in a process of their own.
"""

from __future__ import annotations

import importlib.util
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from eda.data.archives import read_npy
from eda.data.piece_files import scan_process
from eda.data.piece_files.piece_file import Geometry
from eda.data.reading import check_promise, reading
from eda.errors import InputError

_LAS_HEADER = 375  # bytes of the longest
_LAZ = 64  # formats of points from here on are compressed
_MEMORY, _MEMORY_PER_BYTE = 2**30, 60  # of the process: three copies of 24 bytes a point, and a point has 4 or more
_SECONDS, _BYTES_PER_SECOND = 8, 10**6  # of computing
_PATIENCE = 10  # times as long may pass on a busy machine
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


def read_las(path: Path) -> list[Geometry]:
    """One cloud."""
    _require("laspy")
    _check_las_header(path)
    return _read_alone("las", path, "a LAS or LAZ scan")


def read_e57(path: Path) -> list[Geometry]:
    """Every scan of the file, each at its own place in the file's frame."""
    _require("pye57")
    return _read_alone("e57", path, "an E57 scan")


def _require(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        raise ImportError(f"No module named {library!r}", name=library)


def _check_las_header(path: Path) -> None:
    """laspy believes the counts in a header, and would look for billions of records after the end of the file."""
    with reading(path, "a LAS or LAZ scan"), open(path, "rb") as file:
        head, size = file.read(_LAS_HEADER), path.stat().st_size
        if head[:4] != b"LASF":
            raise InputError(f"{path}: not a LAS or LAZ file; look whether its ending is right")
        start, num_records, kind, row, count = struct.unpack_from("<IIBHI", head, 96)
        if head[25] >= 4:  # version 1.4 counts further
            num_late_records, count = struct.unpack_from("<IQ", head, 243)
            check_promise(path, f"{num_late_records} late records", 60 * num_late_records, size)
        check_promise(path, f"{num_records} records", 54 * num_records, size)
        if kind < _LAZ:
            check_promise(path, f"{count} points", count * row, size - start)


def _read_alone(kind: str, path: Path, expected: str) -> list[Geometry]:
    """What `scan_process` makes of a file. Its end, whatever it is, becomes an `InputError`."""
    with reading(path, expected), tempfile.TemporaryDirectory(prefix="eda-scan-") as name:
        folder, size = Path(name), path.stat().st_size
        seconds = _SECONDS + size // _BYTES_PER_SECOND
        limits = [str(_MEMORY + _MEMORY_PER_BYTE * size), str(seconds)]
        command = [sys.executable, scan_process.__file__, kind, str(path.resolve()), name, *limits]
        try:
            # In a folder that nobody else has written to: libraries look for their files where they are started.
            ended = subprocess.run(
                command, cwd=name, env=os.environ | _ONE_THREAD, timeout=_PATIENCE * seconds, capture_output=True
            )
        except subprocess.TimeoutExpired as error:
            raise InputError(f"{path}: reading it takes more than {_PATIENCE * seconds} s; {_AGAIN}") from error
        problem = folder / "problem"
        if problem.exists():
            raise InputError(f"{path}: {problem.read_text()}")
        if ended.returncode:
            raise InputError(
                f"{path}: expected {expected}, but its reader failed (with at most {_MEMORY / 2**30:.0f} GB of memory "
                f"on top of {_MEMORY_PER_BYTE} times the file, and {seconds} s); {_AGAIN}"
            )
        return [_scan(folder, number) for number in range(len(list(folder.glob("*-points.npy"))))]


_AGAIN = "the file is damaged or something else, look at its ending, or write or copy it again"


def _scan(folder: Path, number: int) -> Geometry:
    colors = folder / f"{number}-colors.npy"
    return Geometry(read_npy(folder / f"{number}-points.npy"), colors=read_npy(colors) if colors.exists() else None)
