"""One text for any source of puzzles, as the command line takes it.

FOLDER                    a dataset made by `eda fracture`, `rooms`, `streets` or `prepare`, or pieces in assembled
                          position
fracture:KEY=VALUE,...    puzzles that the generator breaks: pieces=2-8, puzzles=200, seed=7, shapes=held_out,
                          and the settings of `FractureConfig`
rooms:KEY=VALUE,...       pairs of scans of generated rooms: rooms=10, seed=7, scans=14, pairs=10, objects=PATH
streets:KEY=VALUE,...     clips of drives through generated streets: clips=100, seed=7, frames=2-8, spacing=100,
                          and the other settings of `StreetSource` and `LidarConfig`
KIND:PATH,KEY=VALUE,...   somebody else's dataset, with the kinds and options of `eda prepare`

`register_source` adds a kind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from eda.data.fracture import FractureSource
from eda.data.readers import READERS, PieceFolders, open_reader
from eda.data.rooms import RoomSource
from eda.data.setting_text import read_settings, split_words
from eda.data.source import Source
from eda.data.storage.shards import MANIFEST, Dataset
from eda.data.streets import StreetSource
from eda.errors import InputError
from eda.registry import register


def open_examples(spec: str) -> Source:
    """The puzzles that a text names. Raises `InputError` where there are none."""
    if Path(spec).is_dir():
        return Dataset(spec) if (Path(spec) / MANIFEST).is_file() else PieceFolders.whole(Path(spec))
    kind, colon, rest = spec.partition(":")
    if not colon or kind not in _SOURCES:
        raise InputError(
            f"{spec}: neither a folder nor fracture:KEY=VALUE,... nor rooms:KEY=VALUE,... nor "
            "streets:KEY=VALUE,... nor KIND:PATH, where KIND is one of "
            f"{', '.join(name for name in _SOURCES if name not in _GENERATORS)}"
        )
    return _SOURCES[kind](rest)


def register_source(kind: str, open: Callable[[str], Source]) -> None:
    """Make `KIND:TEXT` a source for `open_examples`, `eda evaluate --data` and `eda show`.

    `open` is called with the text after the colon and gives a `Source`: anything with a length, `source[i]` and
    iteration over `Example`s. It should raise `InputError` for a text that makes no sense. Raises `InputError` if the
    name is taken, or is empty or has a colon or a slash in it.
    """
    if set(kind) & set(":/\\"):
        raise InputError(f"{kind!r}: the name of a source must not have a colon or a slash in it")
    register(_SOURCES, "source", kind, open)


def _open_fractures(text: str) -> Source:
    return FractureSource.from_settings(read_settings(split_words(text)))


def _open_rooms(text: str) -> Source:
    return RoomSource.from_settings(read_settings(split_words(text)))


def _open_streets(text: str) -> Source:
    return StreetSource.from_settings(read_settings(split_words(text)))


def _open_reader(kind: str, text: str) -> Source:
    path, *words = split_words(text) or [""]
    return open_reader(kind, path, **read_settings(words))


_GENERATORS: dict[str, Callable[[str], Source]] = {
    "fracture": _open_fractures,
    "rooms": _open_rooms,
    "streets": _open_streets,
}
_SOURCES: dict[str, Callable[[str], Source]] = {
    **_GENERATORS,
    **{kind: partial(_open_reader, kind) for kind in READERS},
}
