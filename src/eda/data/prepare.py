"""From everybody's datasets to ours: a name, where the files lie, and shards come out.

In: the name of a kind of dataset, its path and the options of its reader. Out: the reader itself (`open_source`), which
can be used as it is, or a dataset on disk (`prepare`), which is faster to learn from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eda.data.breaking_bad import BreakingBad
from eda.data.build import Built, Plan, Progress, build
from eda.data.example import Example
from eda.data.interchange import Garf, PlyFolders, RectifiedPointFlow
from eda.data.kitti import Kitti
from eda.data.packs import BreakingBadPack, KittiPack, ThreeDMatchPack
from eda.data.source import LeftOut, Source
from eda.data.threedmatch import ThreeDMatch, ThreeDZeroMatch
from eda.errors import InputError

SOURCES: dict[str, type[Source]] = {
    "breaking-bad": BreakingBad,
    "garf": Garf,
    "rpf": RectifiedPointFlow,
    "ply": PlyFolders,
    "3dmatch": ThreeDMatch,
    "3dzeromatch": ThreeDZeroMatch,
    "kitti": Kitti,
    "breaking-bad-pack": BreakingBadPack,
    "3dmatch-pack": ThreeDMatchPack,
    "kitti-pack": KittiPack,
}

# How an option is read from text, by the type of its default.
_FROM_TEXT: dict[type, Callable[[str], Any]] = {
    int: int,
    float: float,
    str: str,
    bool: {"true": True, "false": False}.__getitem__,
    tuple: lambda text: tuple(filter(None, text.split("+"))),
}


@dataclass(frozen=True)
class Prepared:
    """What came of a dataset."""

    built: Built
    num_left_out: int  # sound puzzles that the options exclude
    num_missing: int  # what the dataset's lists name but is not there


def open_source(name: str, path: str | Path, /, **options: Any) -> Source:
    """The reader of a dataset; options are the fields of its class, as values or as text."""
    known = options_of(name)
    values = {key: _value(name, key, value, known) for key, value in options.items()}
    if not Path(path).exists():
        raise InputError(f"{path}: not there")
    return SOURCES[name](Path(path), **values)  # type: ignore[call-arg]


def options_of(name: str) -> dict[str, Any]:
    """The options of a reader and their defaults."""
    if name not in SOURCES:
        raise InputError(f"no kind of dataset is called {name!r}; there are {', '.join(SOURCES)}")
    fields = dataclasses.fields(SOURCES[name])  # type: ignore[arg-type]
    return {field.name: field.default for field in fields if field.name != "path"}


def _value(name: str, key: str, value: Any, known: Mapping[str, Any]) -> Any:
    if key not in known:
        listed = ", ".join(f"{option}={default}" for option, default in known.items())
        raise InputError(f"{name} has no option {key!r}; it has {listed}")
    if not isinstance(value, str):
        return value
    kind = type(known[key])
    try:
        return _FROM_TEXT[kind](value)
    except (ValueError, KeyError) as error:
        raise InputError(f"{name}: {key} must be a {kind.__name__} such as {known[key]}, got {value!r}") from error


def prepare(
    name: str,
    path: str | Path,
    folder: str | Path,
    *,
    options: Mapping[str, Any] | None = None,
    workers: int = 1,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> Prepared:
    """Write a dataset as shards into `folder`; interrupted work goes on where it stopped."""
    source = open_source(name, path, **(options or {}))
    chosen = {key: getattr(source, key) for key in options_of(name)}
    description = {"source": name, "path": str(Path(path).resolve()), "options": chosen}
    plan = Plan(_Make(source), len(source), description, skip_bad=skip_bad)
    built = build(plan, folder, workers=workers, progress=progress)
    left_out = len(source) - built.num_examples - built.num_skipped
    return Prepared(built, left_out, source.num_missing)


@dataclass(frozen=True)
class _Make:
    """Number of an item -> its examples; none if the reader's options exclude it."""

    source: Source

    def __call__(self, item: int) -> list[Example]:
        try:
            return [self.source[item]]
        except LeftOut:
            return []
