"""Readers of other people's datasets: one dataset a file. Every reader is an `ItemSource` with its options as fields.

In: the name of a kind of dataset, the path of its files and the options of its reader. Out: the reader, a `Source`.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from eda.data.readers.breaking_bad import BreakingBad
from eda.data.readers.breaking_bad_pack import BreakingBadPack
from eda.data.readers.garf import Garf
from eda.data.readers.kitti import Kitti
from eda.data.readers.kitti_pack import KittiPack
from eda.data.readers.piece_folders import PieceFolders
from eda.data.readers.rectified_point_flow import RectifiedPointFlow
from eda.data.readers.threedmatch import ThreeDMatch, ThreeDZeroMatch
from eda.data.readers.threedmatch_pack import ThreeDMatchPack
from eda.data.setting_text import typed_settings
from eda.data.source import ItemSource
from eda.errors import InputError

READERS: dict[str, type[ItemSource]] = {
    "breaking-bad": BreakingBad,
    "garf": Garf,
    "rpf": RectifiedPointFlow,
    "folders": PieceFolders,
    "3dmatch": ThreeDMatch,
    "3dzeromatch": ThreeDZeroMatch,
    "kitti": Kitti,
    "breaking-bad-pack": BreakingBadPack,
    "3dmatch-pack": ThreeDMatchPack,
    "kitti-pack": KittiPack,
}


def open_reader(kind: str, path: str | Path, /, **options: Any) -> ItemSource:
    """The reader of a dataset; options are the fields of its class, as values or as text."""
    values = typed_settings(kind, options, options_of(kind))
    if not Path(path).exists():
        raise InputError(f"{path}: not there")
    return READERS[kind](Path(path), **values)  # type: ignore[call-arg]


def options_of(kind: str) -> dict[str, Any]:
    """The options of a reader and their defaults."""
    if kind not in READERS:
        raise InputError(f"no kind of dataset is called {kind!r}; there are {', '.join(READERS)}")
    fields = dataclasses.fields(READERS[kind])  # type: ignore[arg-type]
    return {field.name: field.default for field in fields if field.name != "path"}
