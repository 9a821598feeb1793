"""The result folder: the names of its files, whether it may be replaced, and how it is written all or not at all.

A folder is replaced only if everything in it was written by Eda. Other files are never touched.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eda.data.reading import read_json, reading
from eda.errors import InputError

RECORD, REPORT, PREVIEW, ANIMATION = "assembly.json", "report.html", "preview.png", "assembly.gif"
MERGED_PLY, MERGED_GLB = "assembled.ply", "assembled.glb"
PIECES = "pieces"  # a folder
_FILES = (RECORD, MERGED_PLY, MERGED_GLB, PREVIEW, ANIMATION, REPORT)
_MAX_NAMES = 3  # of files in a message


def check_output_folder(folder: Path, overwrite: bool, inputs: Sequence[Path] = ()) -> None:
    """Raise `InputError` if the folder cannot be written, or holds something that must not be replaced."""
    with reading(folder, "a folder to write"):
        place = folder.resolve()
        if place.exists() and not place.is_dir():
            raise InputError(f"{folder}: is a file, not a folder; choose another name")
        if place.is_dir() and any(place.iterdir()):
            _check_replaceable(folder, place, overwrite, inputs)
        above = next(path for path in (place, *place.parents) if path.exists())
    try:
        # Permissions are not enough to know: some file systems refuse even users who may write.
        trial = above / _hidden(place, "partial")
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be created, because {above} is not writable ({error.strerror}); choose another folder"
        ) from error


def _check_replaceable(folder: Path, place: Path, overwrite: bool, inputs: Sequence[Path]) -> None:
    if not overwrite:
        raise InputError(f"{folder}: is not empty; choose another folder, or give --overwrite to replace a result")
    needed = next((path for path in inputs if path.resolve().is_relative_to(place)), None)
    if needed is not None:
        raise InputError(
            f"{folder}: contains {needed}, one of the pieces to assemble, so it is not replaced; choose another folder"
        )
    foreign = _foreign_files(place)
    if foreign:
        names = ", ".join(foreign[:_MAX_NAMES]) + (
            f" and {len(foreign) - _MAX_NAMES} more" if len(foreign) > _MAX_NAMES else ""
        )
        raise InputError(
            f"{folder}: contains files that are not part of a result ({names}), so it is not replaced; move them away, "
            f"or choose another folder"
        )


def _foreign_files(folder: Path) -> list[str]:
    """The names of the files in a folder that were not written by Eda, sorted."""
    found = [path.name for path in folder.iterdir() if not (_is_result_file(path) or _is_piece_folder(path))]
    if _is_piece_folder(folder / PIECES):
        names = _piece_names(folder / RECORD)
        pieces = (folder / PIECES).iterdir()
        found += [f"{PIECES}/{path.name}" for path in pieces if path.is_dir() or path.stem not in names]
    return sorted(found)


def _is_result_file(path: Path) -> bool:
    return path.name in _FILES and path.is_file()


def _is_piece_folder(path: Path) -> bool:
    return path.name == PIECES and path.is_dir()


def _piece_names(record: Path) -> list[str]:
    """The names of the pieces of a result; empty if its record is missing or damaged."""
    try:
        names = read_json(record)[PIECES]
    except (InputError, LookupError, TypeError):
        return []
    return names if isinstance(names, list) else []


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder to write into. At the end its content replaces that of `folder`, unless there was an error."""
    place = folder.resolve()
    # Inside an existing folder, because that may be a mounted disk, onto which nothing can be renamed.
    partial, old = ((place if place.exists() else place.parent) / _hidden(place, state) for state in ("partial", "old"))
    try:
        partial.mkdir(parents=True)
        yield partial
        if place.exists():
            old.mkdir()
            _exchange(partial, place, old)
        else:
            os.replace(partial, place)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error})") from error
    finally:
        for left in (partial, old):
            shutil.rmtree(left, ignore_errors=True)


def _exchange(partial: Path, place: Path, old: Path) -> None:
    """Move the content of `place` to `old`, and that of `partial` to `place`; after an error, undo all moves.

    The folder itself stays, so that a shell whose working directory it is keeps working.
    """
    moves = [(path, old / path.name) for path in place.iterdir() if path not in (partial, old)]
    moves += [(path, place / path.name) for path in partial.iterdir()]
    try:
        for source, target in moves:
            os.replace(source, target)
    except BaseException:
        for source, target in reversed(moves):
            if not source.exists():
                os.replace(target, source)
        raise


def _hidden(place: Path, state: str) -> str:
    """A hidden name that no other process uses."""
    return f".{place.name}.{os.getpid()}.{state}"
