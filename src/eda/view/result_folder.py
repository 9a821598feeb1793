"""The folder of a result: what is in it and may be replaced, and how a new one appears whole or not at all.

Somebody else's files are never touched: a folder is replaced only if all that lies in it was written by Eda.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eda.data.reading import read_json, reading
from eda.errors import InputError

RECORD, PIECES = "assembly.json", "pieces"
_FILES = (RECORD, "assembled.ply", "assembled.glb", "preview.png", "assembly.gif", "report.html")
_NAMED = 3  # files in a message


def check_free(folder: Path, overwrite: bool, inputs: Sequence[Path] = ()) -> None:
    """Raises `InputError` where nothing can be written, or something lies that is not ours to replace."""
    with reading(folder, "a folder to write"):
        place = folder.resolve()
        if place.exists() and not place.is_dir():
            raise InputError(f"{folder}: a file, not a folder; choose another name")
        if place.is_dir() and any(place.iterdir()):
            _check_replaceable(folder, place, overwrite, inputs)
        above = next(path for path in (place, *place.parents) if path.exists())
    try:
        # Tried, because permissions do not tell: some file systems take nothing even from those who may write.
        trial = above / _hidden(place, "partial")
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be made, because {above} cannot be written to ({error.strerror}); choose another folder"
        ) from error


def _check_replaceable(folder: Path, place: Path, overwrite: bool, inputs: Sequence[Path]) -> None:
    if not overwrite:
        raise InputError(f"{folder}: not empty; choose another folder, or give --overwrite")
    needed = next((path for path in inputs if path.resolve().is_relative_to(place)), None)
    if needed is not None:
        raise InputError(f"{folder}: holds {needed}, which is to be assembled, so it is kept; choose another folder")
    foreign = _foreign(place)
    if foreign:
        names = ", ".join(foreign[:_NAMED]) + (f" and {len(foreign) - _NAMED} more" if len(foreign) > _NAMED else "")
        raise InputError(
            f"{folder}: holds something else than a result ({names}), so it is kept; move that away, or choose another "
            f"folder"
        )


def _foreign(folder: Path) -> list[str]:
    """What lies in a folder and was not written by Eda, in order."""
    found = [path.name for path in folder.iterdir() if not (_is_file_of_ours(path) or _is_folder_of_ours(path))]
    if _is_folder_of_ours(folder / PIECES):
        names = _piece_names(folder / RECORD)
        pieces = (folder / PIECES).iterdir()
        found += [f"{PIECES}/{path.name}" for path in pieces if path.is_dir() or path.stem not in names]
    return sorted(found)


def _is_file_of_ours(path: Path) -> bool:
    return path.name in _FILES and path.is_file()


def _is_folder_of_ours(path: Path) -> bool:
    return path.name == PIECES and path.is_dir()


def _piece_names(record: Path) -> list[str]:
    """Of the pieces of a result; none if it does not say."""
    try:
        names = read_json(record)[PIECES]
    except (InputError, LookupError, TypeError):
        return []
    return names if isinstance(names, list) else []


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """A folder to write into, whose content becomes that of `folder` at the end, unless something went wrong."""
    place = folder.resolve()
    # Inside a folder that is there, because it may be a disk of its own, onto which nothing can be renamed.
    making, old = ((place if place.exists() else place.parent) / _hidden(place, state) for state in ("partial", "old"))
    try:
        making.mkdir(parents=True)
        yield making
        if place.exists():
            old.mkdir()
            _exchange(making, place, old)
        else:
            os.replace(making, place)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error})") from error
    finally:
        for left in (making, old):
            shutil.rmtree(left, ignore_errors=True)


def _exchange(making: Path, place: Path, old: Path) -> None:
    """What is in `place` goes to `old`, and what is in `making` takes its place, or all stays as it was.

    The folder itself stays: a shell that is in it would be nowhere if another one took its name.
    """
    moves = [(path, old / path.name) for path in place.iterdir() if path not in (making, old)]
    moves += [(path, place / path.name) for path in making.iterdir()]
    try:
        for source, target in moves:
            os.replace(source, target)
    except BaseException:
        for source, target in reversed(moves):
            if not source.exists():
                os.replace(target, source)
        raise


def _hidden(place: Path, state: str) -> str:
    """A name that no other process uses."""
    return f".{place.name}.{os.getpid()}.{state}"
