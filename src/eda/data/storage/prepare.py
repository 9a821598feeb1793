"""From other people's datasets to shards, which are faster to learn from.

In: the kind of a dataset, its path and the options of its reader. Out: a dataset on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eda.data.readers import open_reader, options_of
from eda.data.storage.build import BuildResult, Plan, Progress, build


@dataclass(frozen=True)
class PrepareResult:
    """What came of a dataset."""

    built: BuildResult
    num_left_out: int  # sound puzzles that the options exclude
    num_missing: int  # what the dataset's lists name but is not there


def prepare(
    kind: str,
    path: str | Path,
    folder: str | Path,
    *,
    options: Mapping[str, Any] | None = None,
    workers: int = 1,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> PrepareResult:
    """Write a dataset as shards into `folder`; interrupted work goes on where it stopped."""
    source = open_reader(kind, path, **(options or {}))
    chosen = {key: getattr(source, key) for key in options_of(kind)}
    description = {"source": kind, "path": str(Path(path).resolve()), "options": chosen}
    plan = Plan.from_source(source, description, skip_bad=skip_bad)
    built = build(plan, folder, workers=workers, progress=progress)
    left_out = len(source) - built.num_examples - built.num_skipped
    return PrepareResult(built, left_out, source.num_missing)
