"""The result folder: the names of its files, whether it may be replaced, and how it is written all or not at all.

A folder is replaced only if everything in it was written by Eda. Other files are never touched. It is replaced as a
whole, so it can be neither a mounted disk nor the folder one is in.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from eda.data.reading import read_json, reading
from eda.errors import InputError
from eda.folder_lock import FolderLock
from eda.output.folder_swap import replaced_folder, staging_folder, tidy

RECORD, REPORT, PREVIEW, ANIMATION = "assembly.json", "report.html", "preview.png", "assembly.gif"
MERGED_PLY, MERGED_GLB = "assembled.ply", "assembled.glb"
PIECES, UNPLACED, ALTERNATIVES = "pieces", "unplaced", "alternatives"  # folders
_MERGED = (MERGED_PLY, MERGED_GLB)  # in the folder of every alternative
_FILES = (RECORD, *_MERGED, PREVIEW, ANIMATION, REPORT)
_MAX_NAMES = 3  # of files in a message
_MOUNTS = Path("/proc/self/mountinfo")  # of Linux


@dataclass(frozen=True)
class ClaimedFolder:
    """A folder that this process alone may replace; `claimed_folder` makes one."""

    folder: Path  # as the user wrote it
    overwrite: bool

    @contextmanager
    def replaced(self, inputs: Sequence[Path]) -> Iterator[Path]:
        """A folder to write into. At the end it replaces the claimed one, unless there was an error."""
        _check_folder(self.folder, self.overwrite, inputs)
        place = self.folder.resolve()
        try:
            with replaced_folder(place, _check_no_foreign_files) as partial:
                yield partial
        except OSError as error:
            raise InputError(f"{self.folder}: cannot be written ({error})") from error


@contextmanager
def claimed_folder(folder: Path, overwrite: bool, inputs: Sequence[Path] = ()) -> Iterator[ClaimedFolder]:
    """Claim a folder for a result, so that no other process writes there meanwhile.

    Raises `InputError` if one does already, if the folder cannot be written, or if it must not be replaced.
    """
    _check_folder(folder, overwrite, inputs)
    with FolderLock(folder) as lock:
        _check_writable(folder, folder.resolve())
        if lock.exclusive:
            with reading(folder.resolve().parent, "a folder that can be listed"):
                tidy(folder.resolve(), _check_no_foreign_files)
            _check_folder(folder, overwrite, inputs)
        yield ClaimedFolder(folder, overwrite)


def _check_folder(folder: Path, overwrite: bool, inputs: Sequence[Path]) -> None:
    """Raise `InputError` if the folder is none, or holds something that must not be replaced."""
    with reading(folder, "a folder to write"):
        place = folder.resolve()
        if place.exists() and not place.is_dir():
            raise InputError(f"{folder}: is a file, not a folder; choose another name")
        if place.is_dir() and any(place.iterdir()):
            _check_replaceable(folder, place, overwrite, inputs)
        _check_movable(folder, place)


def _check_writable(folder: Path, place: Path) -> None:
    """Raise `InputError` if no folder can be created beside it."""
    trial = staging_folder(place)
    try:
        # Permissions are not enough to know: some file systems refuse even users who may write.
        trial.mkdir(exist_ok=True)
        if not any(trial.iterdir()):
            trial.rmdir()
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written, because {place.parent} is not writable ({error.strerror}); "
            "choose another folder"
        ) from error


def _check_replaceable(folder: Path, place: Path, overwrite: bool, inputs: Sequence[Path]) -> None:
    if not overwrite:
        raise InputError(f"{folder}: is not empty; choose another folder, or give --overwrite to replace a result")
    needed = next((path for path in inputs if path.resolve().is_relative_to(place)), None)
    if needed is not None:
        raise InputError(
            f"{folder}: contains {needed}, one of the pieces to assemble, so it is not replaced; choose another folder"
        )
    _check_no_foreign_files(folder)


def _check_movable(folder: Path, place: Path) -> None:
    """Raise `InputError` for a folder that cannot be replaced as a whole."""
    if place.is_dir() and (os.path.ismount(place) or str(place) in _mount_points()):
        reason = "is a mounted disk"
    elif Path.cwd().is_relative_to(place):
        reason = "is the folder you are in"
    else:
        return
    raise InputError(
        f"{folder}: {reason}, which cannot be replaced as a whole; give a folder inside it, such as {folder / 'result'}"
    )


def _mount_points() -> set[str]:
    """The mount points, also those that `os.path.ismount` does not see: folders bound to others of the same disk."""
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return set()
    points = (line.split(" ")[4] for line in lines)
    return {re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), point) for point in points}


def _check_no_foreign_files(folder: Path) -> None:
    """Raise `InputError` if something in the folder was not written by Eda."""
    foreign = _foreign_files(folder)
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
    names = _piece_names(folder / RECORD)
    found = _foreign_in_alternative(folder, _FILES, names, ALTERNATIVES)
    if _is_real_folder(folder / ALTERNATIVES):
        for path in (folder / ALTERNATIVES).iterdir():
            if _is_real_folder(path) and path.name.isdecimal():
                found += _foreign_in_alternative(path, _MERGED, names)
            else:
                found.append(path)
    return sorted(str(path.relative_to(folder)) for path in found)


def _foreign_in_alternative(folder: Path, files: Sequence[str], names: Sequence[str], *folders: str) -> list[Path]:
    """What is not of Eda in the folder of one alternative, other than these files, its pieces and these folders."""
    own = (PIECES, UNPLACED)
    found = [
        path
        for path in folder.iterdir()
        if not (path.name in files and path.is_file()) and not (path.name in (*own, *folders) and _is_real_folder(path))
    ]
    pieces = [path for name in own if _is_real_folder(folder / name) for path in (folder / name).iterdir()]
    return found + [path for path in pieces if path.is_dir() or path.stem not in names]


def _is_real_folder(path: Path) -> bool:
    """Whether it is a folder; a link to one is somebody's."""
    return path.is_dir() and not path.is_symlink()


def _piece_names(record: Path) -> list[str]:
    """The names of the pieces of a result; empty if its record is missing or damaged."""
    try:
        names = read_json(record)[PIECES]
    except (InputError, LookupError, TypeError):
        return []
    return names if isinstance(names, list) else []
