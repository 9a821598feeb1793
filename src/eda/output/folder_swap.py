"""A folder replaced as a whole, by one exchange of two names: at any moment it is complete, the old one or the new one.

Everything happens in a hidden staging folder beside it, `.NAME.PID.eda-staging`. In it are a marker; `partial`, which
is being written; `new`, which is complete and after the exchange holds the old content; and `old`, which is needed only
where names cannot be exchanged. What a killed process left is put in order by `tidy`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from eda.errors import InputError, InputWarning

_MARKER, _PARTIAL, _NEW, _OLD = "written-by-eda", "partial", "new", "old"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux
_CANNOT_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP)

Check = Callable[[Path], None]  # raises `InputError` for a folder with content that must not be deleted


def staging_folder(place: Path) -> Path:
    """The staging folder of this process; the lock of `place` keeps it from having two."""
    return place.parent / f".{place.name}.{os.getpid()}.eda-staging"


@contextmanager
def replaced_folder(place: Path, check: Check) -> Iterator[Path]:
    """A folder to write into. At the end it replaces `place`, unless there was an error or `check` refuses that.

    The caller holds the lock of `place`, which is an absolute path without links.
    """
    staging = staging_folder(place)
    try:
        staging.mkdir(parents=True)
        (staging / _MARKER).touch()  # first, so that whatever is in the folder is recognised as ours
        (staging / _PARTIAL).mkdir()
        yield staging / _PARTIAL
        _put_in_place(staging, place, check)
    finally:
        try:
            _tidy(staging, place, check)
        except BaseException:  # an interruption; what has begun is soon done
            _tidy(staging, place, check)
            raise


def tidy(place: Path, check: Check) -> None:
    """Put in order what killed processes left beside `place`. The caller holds its lock, so nobody needs it."""
    name = re.compile(rf"\.{re.escape(place.name)}\.\d+\.eda-staging")
    for staging in place.parent.iterdir():
        is_ours = name.fullmatch(staging.name) and staging.is_dir() and not staging.is_symlink()
        if is_ours and ((staging / _MARKER).is_file() or not any(staging.iterdir())):
            _tidy(staging, place, check)


def _put_in_place(staging: Path, place: Path, check: Check) -> None:
    partial, new = staging / _PARTIAL, staging / _NEW
    _flush(partial)
    if not place.exists():
        os.rename(partial, place)
        return
    shutil.copymode(place, partial)
    os.rename(partial, new)
    old = _swap(new, place, staging / _OLD)
    try:
        check(old)  # Something may have been put there meanwhile. Now nobody finds it by its name any more.
    except InputError:
        _swap(old, place, staging / _PARTIAL)
        check(place)  # raises with the name that the user knows


def _swap(new: Path, place: Path, old: Path) -> Path:
    """Put `new` in the place of `place`. Returns where the content of `place` is now: at `new`, or else at `old`."""
    if _exchange(new, place):
        return new
    os.rename(place, old)
    os.rename(new, place)  # after a kill before this, `_tidy` puts the old one back
    return old


def _exchange(a: Path, b: Path) -> bool:
    """Exchange two names in one step. Returns False where the system or the file system cannot do that."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), ctypes.c_uint(_RENAME_EXCHANGE)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(b))


def _flush(folder: Path) -> None:
    """Write all files to the disk, or a power cut could leave their names without their content."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def _tidy(staging: Path, place: Path, check: Check) -> None:
    """Undo a replacement that is half done, and remove the staging folder, unless somebody's files are in it."""
    if (staging / _OLD).is_dir() and not place.exists():
        os.rename(staging / _OLD, place)
    for name in (_NEW, _OLD):
        if (staging / name).is_dir() and not _is_deletable(staging / name, check):
            return
    for name in (_PARTIAL, _NEW, _OLD):
        _delete(staging / name)
    (staging / _MARKER).unlink(missing_ok=True)
    if staging.is_dir() and not any(staging.iterdir()):
        staging.rmdir()


def _is_deletable(folder: Path, check: Check) -> bool:
    try:
        check(folder)
    except InputError as error:
        warnings.warn(f"{error}; an interrupted replacement left this folder there", InputWarning, stacklevel=2)
        return False
    return True


def _delete(folder: Path) -> None:
    """Delete a folder, the folders in it first, because the files beside them say what they hold."""
    if folder.is_dir():
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
