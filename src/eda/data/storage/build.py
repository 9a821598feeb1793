"""Making a dataset: many examples, on all cores, into shards. Interrupted work goes on where it stopped.

What goes into a shard depends only on its number, never on the number of workers or on what was done before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from eda.data.example import Example
from eda.data.source import LeftOut, Source
from eda.data.storage.output_folder import claim_folder
from eda.data.storage.processes import run_in_processes
from eda.data.storage.shards import FORMAT, MANIFEST, VERSION, Dataset, read_manifest, shard_name, write_shard
from eda.errors import InputError

SHARD_SIZE = 256

Make = Callable[[int], Iterable[Example]]  # number of an item -> its examples; must be picklable for many workers
Progress = Callable[[int, int], None]  # items done, items in all


@dataclass(frozen=True)
class Plan:
    """A dataset to be made: items 0 .. num_items - 1, each giving some examples."""

    make: Make
    num_items: int
    description: dict[str, Any]  # what is being made, as JSON: two runs with the same one may be joined
    skip_bad: bool = False  # leave out items that raise `InputError`, and count them
    shard_size: int = SHARD_SIZE  # items in a shard

    @staticmethod
    def from_source(source: Source, description: dict[str, Any], *, skip_bad: bool = False) -> Plan:
        """A plan for the puzzles of a source, each an item; those that its options exclude give no example."""
        return Plan(_OneExampleEach(source), len(source), description, skip_bad=skip_bad)

    @property
    def num_shards(self) -> int:
        """The number of files."""
        return -(-self.num_items // self.shard_size)

    @property
    def manifest(self) -> dict[str, Any]:
        """The content of `dataset.json`."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "num_items": self.num_items,
            "num_shards": self.num_shards,
            "shard_size": self.shard_size,
            "skip_bad": self.skip_bad,
            **self.description,
        }

    def items(self, shard: int) -> range:
        """The items of a shard."""
        return range(shard * self.shard_size, min((shard + 1) * self.shard_size, self.num_items))


@dataclass(frozen=True)
class _OneExampleEach:
    source: Source

    def __call__(self, item: int) -> list[Example]:
        try:
            return [self.source[item]]
        except LeftOut:
            return []


@dataclass(frozen=True)
class BuildResult:
    """What a dataset holds once it is made."""

    dataset: Dataset
    num_examples: int
    num_skipped: int


def build(plan: Plan, folder: str | Path, *, workers: int = 1, progress: Progress | None = None) -> BuildResult:
    """Make what is missing of a dataset in `folder`. Raises `InputError` if another dataset lies there."""
    folder = Path(folder)
    if (folder / MANIFEST).is_file():
        read_manifest(folder)  # raises for one that is damaged, or newer than this
    claim_folder(folder, MANIFEST, plan.manifest)
    missing = [shard for shard in range(plan.num_shards) if not (folder / shard_name(shard)).is_file()]
    done = plan.num_items - sum(len(plan.items(shard)) for shard in missing)
    for shard in run_in_processes(partial(_make_shard, plan, folder), missing, workers):
        done += len(plan.items(shard))
        if progress:
            progress(done, plan.num_items)
    dataset = Dataset(folder)
    shards = [dataset.shard(i) for i in range(dataset.num_shards)]
    built = BuildResult(dataset, sum(map(len, shards)), sum(shard.skipped for shard in shards))
    if not built.num_examples:
        raise InputError(f"{folder}: not one usable example ({built.num_skipped} skipped)")
    return built


def _make_shard(plan: Plan, folder: Path, shard: int) -> int:
    examples: list[Example] = []
    skipped = 0
    for item in plan.items(shard):
        try:
            made = list(plan.make(item))
            for example in made:
                example.check()
            examples.extend(made)
        except InputError:
            if not plan.skip_bad:
                raise
            skipped += 1
    write_shard(folder / shard_name(shard), examples, skipped)
    return shard
