"""Files that another file names: they lie in its folder, or nothing is read.

A file from somewhere else may name any path. Were it followed, a piece could show what lies elsewhere on the disk, and
the result that is passed on would contain it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PureWindowsPath

from eda.errors import InputError


class OutsideError(InputError):
    """A name that leads out of the folder, or to something that is not a regular file."""


def file_inside(folder: Path, name: str, named_by: Path) -> Path:
    """The file in `folder` or below it that `named_by` calls `name`.

    Raises `InputError`, which says the name, if it is not there, and `OutsideError` if the path leaves the folder,
    through a symbolic link or not, or leads to what is no regular file.
    """
    inside, text = folder.resolve(), name.strip()
    try:
        # Windows separates by backslashes, which other systems allow in names; so do programs that came from there.
        file = (inside / text.replace("\\", "/")).resolve()
        outside = bool(PureWindowsPath(text).drive) or not file.is_relative_to(inside)
        is_there, is_regular = file.exists(), file.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # no path at all, or links in a circle
        raise OutsideError(f"{named_by}: it names {name!r:.100}, which is no path of a file") from error
    if outside:
        raise OutsideError(f"{named_by}: it names {name}, which is outside its folder; put the file into {folder}")
    if not is_there:
        raise InputError(f"{named_by}: it names {name}, which is not there in {folder}; put the file there")
    if not is_regular:
        raise OutsideError(f"{named_by}: it names {name}, which is not a regular file")
    return file


def check_names_inside(names: Iterable[str], named_by: Path) -> None:
    """Raise `OutsideError` if a list of folders has one that would lead out of the folder of the dataset."""
    for name in names:
        path = PureWindowsPath(name)  # which takes slashes of both kinds
        if path.root or path.drive or ".." in path.parts:
            raise OutsideError(f"{named_by}: it names {name}, which is outside its folder; take this name out of it")
