"""One process at a time writes into a folder.

The lock is the system's (`flock`) on a hidden file beside the folder, so it ends with the process, however that ends.
The file by itself means nothing: one that a killed process left is taken over by the next.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from types import TracebackType

from eda.errors import InputError

# A child process inherits open files, and with them a lock that would outlive a killed parent.
_descriptors: set[int] = set()


def _close_in_child() -> None:
    while _descriptors:
        os.close(_descriptors.pop())


os.register_at_fork(after_in_child=_close_in_child)


class FolderLock:
    """A context manager that holds the lock of a folder, which need not exist yet.

    Entering raises `InputError` at once if another process, or another `FolderLock` of this one, holds it.
    `exclusive` says whether the file system keeps locks at all; where it does not, work goes on without one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        place = folder.resolve()
        self._place = place
        self._file = place.parent / f".{place.name}.eda-lock"
        self._descriptor = -1
        self._parents: list[Path] = []  # that were created for the file
        self.exclusive = False

    def __enter__(self) -> FolderLock:
        try:
            self._descriptor = self._acquire()
        except BaseException:
            self._remove_parents()
            raise
        _descriptors.add(self._descriptor)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._is_current(self._descriptor):
            self._file.unlink(missing_ok=True)  # before the lock ends: afterwards it could be somebody else's
        _descriptors.discard(self._descriptor)
        os.close(self._descriptor)
        self._remove_parents()

    def _acquire(self) -> int:
        """A descriptor of the file, locked. Raises `InputError` if that is impossible."""
        while True:
            descriptor = self._open()
            try:
                self.exclusive = self._try_lock(descriptor)
                if self._is_current(descriptor):
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, str(os.getpid()).encode())  # for the message of the others
                    return descriptor
                if os.path.isdir(descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # the holder before removed the file after it was opened here: try again

    def _open(self) -> int:
        try:
            self._make_parents()
            return os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            if not self._place.is_dir():
                raise InputError(f"{self.folder}: cannot be created ({error})") from error
        # Nothing can be created beside a mounted disk, for example; then the folder itself is locked.
        try:
            return os.open(self._place, os.O_RDONLY)
        except OSError as error:
            raise InputError(f"{self.folder}: cannot be opened ({error})") from error

    def _try_lock(self, descriptor: int) -> bool:
        """Whether the file system keeps locks. Raises `InputError` if somebody else holds this one."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise InputError(
                f"{self.folder}: another process{self._holder(descriptor)} is writing there; "
                "wait until it ends, or choose another folder"
            ) from error
        return True

    def _holder(self, descriptor: int) -> str:
        if os.path.isdir(descriptor):
            return ""
        number = os.pread(descriptor, 20, 0)
        return f" ({int(number)})" if number.isdigit() else ""

    def _is_current(self, descriptor: int) -> bool:
        """Whether the open file is the one that has the name now."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(self._file))
        except FileNotFoundError:
            return False

    def _make_parents(self) -> None:
        missing = [path for path in self._place.parents if not path.exists()]
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
            self._parents.insert(0, path)

    def _remove_parents(self) -> None:
        """Remove those created here that stayed empty."""
        for path in self._parents:
            try:
                path.rmdir()
            except OSError:
                return
