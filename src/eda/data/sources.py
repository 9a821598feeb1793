"""One word for any source of puzzles, as the command line takes it.

FOLDER                    a dataset made by `eda fracture`, `rooms` or `prepare`, or pieces in assembled position
fracture:KEY=VALUE,...    puzzles that the generator breaks: pieces=2-8, puzzles=200, seed=7, shapes=held_out,
                          and the settings of `FractureConfig`
rooms:KEY=VALUE,...       pairs of scans of rooms that are made up: rooms=10, seed=7, scans=14, pairs=10, objects=PATH
KIND:PATH,KEY=VALUE,...   somebody else's dataset, with the kinds and options of `eda prepare`
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from eda.data.example import Example
from eda.data.folder import PieceFolders
from eda.data.fracture import FractureConfig
from eda.data.mesh_files import mesh_source
from eda.data.prepare import SOURCES, open_source
from eda.data.puzzles import FractureSource
from eda.data.rooms import RoomSource
from eda.data.shapes import HELD_OUT_KINDS, SHAPES, TRAIN_KINDS
from eda.data.shards import MANIFEST, Dataset
from eda.data.source import LeftOut, Source
from eda.errors import InputError
from eda.registry import register
from eda.settings import check_whole


class Examples(Protocol):
    """Puzzles in a fixed order, read one at a time; a reader may pass over some, so `len` is an upper bound."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Example: ...
    def __iter__(self) -> Iterator[Example]: ...


_REGISTERED: dict[str, Callable[[str], Examples]] = {}


def register_source(kind: str, open: Callable[[str], Examples]) -> None:
    """Make `KIND:TEXT` a source of puzzles; `open` gets the text. Raises `InputError` where the name is taken."""
    if kind in ("fracture", "rooms", *SOURCES):
        raise InputError(f"a source called {kind!r} exists already; choose another name")
    register(_REGISTERED, "source", kind, open)


def open_examples(spec: str) -> Examples:
    """The puzzles that a word names. Raises `InputError` where there are none."""
    if Path(spec).is_dir():
        return Dataset(spec) if (Path(spec) / MANIFEST).is_file() else PieceFolders(Path(spec))
    name, _, rest = spec.partition(":")
    first, *words = re.split(r",(?=\w+=)", rest)  # values and paths may have commas of their own
    if name == "fracture":
        return Fractures.from_settings(_settings([first, *words] if first else []))
    if name == "rooms":
        return Rooms.from_settings(_settings([first, *words] if first else []))
    if name in SOURCES:
        return open_source(name, first, **_settings(words))
    if name in _REGISTERED:
        return _REGISTERED[name](rest)
    raise InputError(
        f"{spec}: neither a folder nor fracture:KEY=VALUE,... nor rooms:KEY=VALUE,... nor KIND:PATH, where KIND is "
        f"one of {', '.join(SOURCES)}"
    )


# Names for many kinds of shapes.
_SHAPES = {"all": tuple(SHAPES), "train": TRAIN_KINDS, "held_out": HELD_OUT_KINDS}


@dataclass(frozen=True)
class Fractures(Source[int]):
    """Puzzles fresh from the generator; puzzle i is always the same one."""

    make: FractureSource
    puzzles: int

    def __post_init__(self) -> None:
        check_whole("puzzles", self.puzzles, 1, 2**31)
        check_whole("seed", self.make.seed, 0, 2**63)

    @staticmethod
    def from_settings(settings: Mapping[str, str]) -> Fractures:
        """From words; `shapes` is train, held_out, all or some kinds joined by +; `meshes` a path, in their place."""
        words = {"seed": "0", "puzzles": "100", "shapes": "all", **settings}
        seed, puzzles = (_value(key, words.pop(key), 1) for key in ("seed", "puzzles"))
        shapes = words.pop("shapes")
        meshes = mesh_source(words.pop("meshes")) if "meshes" in words else None
        if "pieces" in words:
            least, _, most = words.pop("pieces").partition("-")
            words |= {"min_pieces": least, "max_pieces": most or least}
        fields = dataclasses.fields(FractureConfig)
        defaults = {field.name: field.default for field in fields if field.default is not None}
        unknown = sorted(set(words) - set(defaults))
        if unknown:
            raise InputError(f"fracture: no setting {', '.join(unknown)}; it has {', '.join(defaults)}")
        config = FractureConfig(**{key: _value(key, word, defaults[key]) for key, word in words.items()})
        kinds = _SHAPES.get(shapes) or tuple(shapes.split("+"))
        return Fractures(FractureSource(config, seed, kinds, meshes), puzzles)

    @property
    def items(self) -> range:
        """The numbers of the puzzles."""
        return range(self.puzzles)

    def read(self, item: int) -> Example:
        """One puzzle."""
        return self.make(item)[0]


@dataclass(frozen=True)
class Rooms(Source[int]):
    """Pairs of scans fresh from the generator, one room after the other; item i is always the same one."""

    make: RoomSource
    rooms: int

    def __post_init__(self) -> None:
        check_whole("rooms", self.rooms, 1, 2**31)

    @staticmethod
    def from_settings(settings: Mapping[str, str]) -> Rooms:
        """From words; `objects` is a path to meshes that are put about."""
        words = dict(settings)
        objects = mesh_source(words.pop("objects")) if "objects" in words else None
        defaults = {"rooms": 10, "seed": 0, "scans": RoomSource.scans, "pairs": RoomSource.pairs}
        unknown = sorted(set(words) - set(defaults))
        if unknown:
            raise InputError(f"rooms: no setting {', '.join(unknown)}; it has {', '.join(defaults)}, objects")
        numbers = defaults | {key: _value(key, word, 1) for key, word in words.items()}
        rooms = numbers.pop("rooms")
        return Rooms(RoomSource(objects=objects, **numbers), rooms)

    @property
    def items(self) -> range:
        """Room by room as many pairs as a room may give; some give fewer."""
        return range(self.rooms * self.make.pairs)

    def read(self, item: int) -> Example:
        """One pair; raises `LeftOut` where its room has no more."""
        room, number = divmod(item, self.make.pairs)
        pairs = _pairs_of_room(self.make, room)
        if number >= len(pairs):
            raise LeftOut(f"room {room} has {len(pairs)} pairs, not one number {number}")
        return pairs[number]


@lru_cache(maxsize=2)  # pairs are mostly read in order
def _pairs_of_room(make: RoomSource, room: int) -> list[Example]:
    return make(room)


def _settings(words: list[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    bad = [key for key, equals, _ in pairs if not equals]
    if bad:
        raise InputError(f"{bad[0]}: expected settings as KEY=VALUE, separated by commas")
    return {key: value for key, _, value in pairs}


def _value(key: str, word: str, default: Any) -> Any:
    """A word as a setting with this default wants it; several names are joined by +."""
    if isinstance(default, tuple):
        return tuple(word.split("+"))
    try:
        return type(default)(word)
    except (ValueError, TypeError) as error:
        raise InputError(f"{key}={word}: expected something like {default!r}") from error
