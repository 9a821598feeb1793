"""Names of pieces: they tell pieces apart in all that is written, and become names of files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from eda.errors import InputError

_MAX_BYTES = 250  # so that an ending fits into the 255 of most file systems


def piece_names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """The names of `count` pieces; numbers if none are given. Raises `InputError` for what cannot name a file."""
    if names is None:
        return tuple(f"piece {i}" for i in range(count))
    if len(names) != count:
        raise InputError(f"{count} pieces but {len(names)} names")
    for name in names:
        _check_name(name)
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InputError(f"{times} pieces have the name {name!r}; give each a name of its own")
    return tuple(names)


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise InputError(f"the name {name!r} of a piece is not text; give strings")
    # The last part of a path leads nowhere else, unless it is nothing or two dots.
    if PurePath(name).name != name or name in ("", "..") or "\0" in name:
        raise InputError(f"the name {name!r} of a piece cannot name its file; give one word or more, and no path")
    if len(os.fsencode(name)) > _MAX_BYTES:
        raise InputError(f"the name {name[:40]!r}... of a piece is too long to name its file; shorten it")
