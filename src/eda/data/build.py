"""Making a dataset: many examples, on all cores, into shards. Interrupted work goes on where it stopped.

What goes into a shard depends only on its number, never on the number of workers or on what was done before.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eda.atomic import write_atomically
from eda.data.example import Example
from eda.data.shards import FORMAT, MANIFEST, VERSION, Dataset, read_manifest, shard_name, write_shard
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

    @property
    def num_shards(self) -> int:
        """How many files it will be."""
        return -(-self.num_items // self.shard_size)

    def items(self, shard: int) -> range:
        """The items of a shard."""
        return range(shard * self.shard_size, min((shard + 1) * self.shard_size, self.num_items))


@dataclass(frozen=True)
class Built:
    """What was made."""

    dataset: Dataset
    num_examples: int
    num_skipped: int


def build(plan: Plan, folder: str | Path, *, workers: int = 1, progress: Progress | None = None) -> Built:
    """Make what is missing of a dataset in `folder`. Raises `InputError` if another dataset lies there."""
    folder = Path(folder)
    _claim(folder, plan)
    missing = [shard for shard in range(plan.num_shards) if not (folder / shard_name(shard)).is_file()]
    done = plan.num_items - sum(len(plan.items(shard)) for shard in missing)
    for shard in _made(plan, folder, missing, workers):
        done += len(plan.items(shard))
        if progress:
            progress(done, plan.num_items)
    dataset = Dataset(folder)
    shards = [dataset.shard(i) for i in range(dataset.num_shards)]
    built = Built(dataset, sum(map(len, shards)), sum(shard.skipped for shard in shards))
    if not built.num_examples:
        raise InputError(f"{folder}: not one usable example ({built.num_skipped} skipped)")
    return built


def _claim(folder: Path, plan: Plan) -> None:
    """Write what the folder will hold, or check that it is what it was meant to hold."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: not a folder")
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "num_items": plan.num_items,
        "num_shards": plan.num_shards,
        "shard_size": plan.shard_size,
        "skip_bad": plan.skip_bad,
        **plan.description,
    }
    if (folder / MANIFEST).is_file():
        if read_manifest(folder) != json.loads(json.dumps(manifest)):
            raise InputError(f"{folder}: holds another dataset; choose another folder, or delete this one")
        return
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder}: not empty, and not a dataset; choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / MANIFEST, json.dumps(manifest, indent=2).encode())
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error})") from error


def _made(plan: Plan, folder: Path, shards: list[int], workers: int) -> Iterator[int]:
    """Make the shards; gives their numbers as they are done."""
    if workers <= 1 or len(shards) <= 1:
        for shard in shards:
            yield _make_shard(plan, folder, shard)
        return
    # A fresh interpreter for every worker: forking a process that runs threads may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(shards)), mp_context=context) as pool:
        try:
            yield from _in_any_order(pool, plan, folder, shards)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _in_any_order(pool: Executor, plan: Plan, folder: Path, shards: list[int]) -> Iterator[int]:
    waiting: set[Future[int]] = {pool.submit(_make_shard, plan, folder, shard) for shard in shards}
    while waiting:
        finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in finished:
            yield future.result()


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
