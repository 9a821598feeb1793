"""Names for what users add from outside: networks, noises, solvers, recipes. A table is a plain dict beside its use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from eda.errors import InputError

Entry = TypeVar("Entry")


def register(table: dict[str, Entry], what: str, name: str, entry: Entry) -> None:
    """Add an entry to a table of, say, solvers. Raises `InputError` where the name is taken or empty."""
    if type(name) is not str or not name.strip():
        raise InputError(f"a {what} needs a name, got {name!r}")
    if name in table:
        raise InputError(f"the {what} {name!r} exists already: choose another name")
    table[name] = entry


def look_up(table: Mapping[str, Entry], what: str, name: str) -> Entry:
    """The entry of that name. Raises `InputError` that says what there is, and how to add what is missing."""
    if type(name) is not str or name not in table:
        there = f"there are {', '.join(table)}" if table else "none is registered"
        raise InputError(
            f"the {what} {name!r} is not known here ({there}): import the module that calls "
            f"eda.register_{what}({name!r}, ...) first; on the command line, eda --plugin MODULE ..."
        )
    return table[name]
