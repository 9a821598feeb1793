"""What a run says when it cannot write to its folder."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class WriteError(OSError):
    """A file of a run could not be written. The message says which, why and what to do."""


def is_disk_full(error: BaseException) -> bool:
    """Whether this is the error of a disk, a quota or a file that may not grow any more."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the system while this file or folder is written into a `WriteError`."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        remedy = "free some space" if is_disk_full(error) else "mend the cause"
        raise WriteError(
            f"{path}: cannot be written ({error.strerror or error}); "
            f"the last saved state is kept: {remedy} and run the same command again"
        ) from error
