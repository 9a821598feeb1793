"""The loader: from shards to batches that a network can take, thinned, with their pyramids.

In: a `Dataset`. Out: `Batch`es in an order that depends only on the seed, from any point on, so that interrupted
training goes on with the very batch that it would have had. Examples that stay as they are keep their pyramids in a
cache on disk; those that chance changes get theirs in the workers.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from eda.data.augment import Augmentation
from eda.data.example import Example
from eda.data.focused_puzzles import focused_puzzle
from eda.data.storage.batches import BatchItem, BatchPlan
from eda.data.storage.ragged import RaggedFile, write_ragged
from eda.data.storage.shards import Dataset, arrays_of, example_of, open_cached
from eda.errors import InputError
from eda.graph import Level, Pyramid
from eda.lie import SE3
from eda.pieces import Pieces, Puzzle
from eda.point_budget import PointBudget


@dataclass(frozen=True)
class Batch:
    """B puzzles with all that training asks for; points are in the pyramid's order."""

    pyramid: Pyramid
    solution: SE3  # (N,)
    on_break: Tensor | None  # (P,) bool
    own: Tensor | None  # (N,) bool; None: every piece belongs

    @property
    def puzzle(self) -> Puzzle:
        """The pieces with their solution."""
        return Puzzle(self.pyramid.pieces, self.solution)

    @staticmethod
    def collate(batch: list[Batch]) -> Batch:
        """Several as one. Break labels are kept if all puzzles without a focus have them; the others need none."""
        breaks = [_breaks(one) for one in batch]
        own = [_all_own(one) if one.own is None else one.own for one in batch]
        return Batch(
            Pyramid.collate([one.pyramid for one in batch]),
            SE3.cat([one.solution for one in batch]),
            None if any(labels is None for labels in breaks) else torch.cat(breaks),  # type: ignore[arg-type]
            None if all(one.own is None for one in batch) else torch.cat(own),
        )

    def to(self, device: torch.device | str) -> Batch:
        """On another device."""
        return Batch(
            self.pyramid.to(device=device),
            self.solution.to(device=device),
            None if self.on_break is None else self.on_break.to(device),
            None if self.own is None else self.own.to(device),
        )


def _breaks(batch: Batch) -> Tensor | None:
    """(P,) the break labels, or the focus in their place."""
    return batch.pyramid.pieces.focus if batch.on_break is None else batch.on_break


def _all_own(batch: Batch) -> Tensor:
    return torch.ones(batch.pyramid.pieces.num_pieces, dtype=torch.bool)


@dataclass(frozen=True)
class Graphs:
    """How pyramids are built for a network: the arguments of `Pyramid.build`."""

    num_levels: int
    ratio: float
    num_neighbors: int
    num_nearest: int = 0

    def __call__(self, pieces: Pieces) -> Pyramid:
        """The pyramid of some pieces."""
        return Pyramid.build(
            pieces,
            num_levels=self.num_levels,
            ratio=self.ratio,
            num_neighbors=self.num_neighbors,
            num_nearest=self.num_nearest,
        )


def make_batch(example: Example, graphs: Graphs) -> Batch:
    """One example as a batch of one; its points are put in the pyramid's order."""
    return _from_cache(_to_cache(example, graphs), graphs)  # by the same way as the cached ones, so to the same bits


def focused_batch(example: Example, points: int, graphs: Graphs, rng: np.random.Generator) -> Batch:
    """One example with a focus as a batch of one. Where the breaks are is told, so there are no labels to learn."""
    puzzle = focused_puzzle(example, points, rng)
    pyramid = graphs(puzzle.pieces)
    own = None if example.own.all() else torch.from_numpy(example.own)
    return Batch(replace(pyramid, order=torch.arange(len(pyramid.order))), puzzle.solution, None, own)


@dataclass
class Loader:
    """Batches without end: `loader.batches(first)` begins at any of them."""

    dataset: Dataset
    plan: BatchPlan
    graphs: Graphs
    augmentation: Augmentation = field(default_factory=Augmentation)
    workers: int = 0
    focused: float = 0.0  # share of the examples with break labels that get a focus
    cache: bool = True  # keep pyramids beside the shards; not possible where chance changes the examples
    waited: float = field(default=0.0, init=False)  # seconds that the consumer has waited for batches

    def batches(self, first: int = 0) -> Iterator[Batch]:
        """Yields batches from the one with this number on, epoch after epoch."""
        loading: DataLoader[Batch] = DataLoader(
            _BatchReader(
                self.dataset,
                self.plan.budget,
                self.graphs,
                self.augmentation,
                self._cache_name(),
                self.focused,
            ),
            sampler=_EndlessSampler(self.plan, self.dataset, first),
            batch_size=None,
            num_workers=self.workers,
            prefetch_factor=4 if self.workers else None,
        )
        source = iter(loading)
        while True:
            start = time.perf_counter()
            batch = next(source)
            self.waited += time.perf_counter() - start
            yield batch

    def prepare(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Fill the cache now rather than during the first epoch."""
        name = self._cache_name()
        for number in range(self.dataset.num_shards if name else 0):
            assert name is not None
            _cached_shard(self.dataset, number, name, self.plan.budget, self.graphs)
            if progress:
                progress(number + 1, self.dataset.num_shards)

    def _cache_name(self) -> str | None:
        """The name of the cache folders beside the shards, one for each setting of the pyramids; makes the folders."""
        if not self.cache or self.focused or not self.augmentation.changes_nothing:
            return None
        settings = {"points": self.plan.points_per_example, **vars(self.graphs)}
        if self.plan.points_per_piece:
            settings["points_per_piece"] = self.plan.points_per_piece
        key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
        name = f"pyramids-{key}"
        try:
            for folder in self.dataset.folders:
                (folder / name).mkdir(exist_ok=True)
        except OSError:  # a dataset that cannot be written to: the pyramids are built every time
            return None
        return name


@dataclass(frozen=True)
class _EndlessSampler:
    """The plan's batches, epoch after epoch; whole epochs are skipped without looking into them twice."""

    plan: BatchPlan
    dataset: Dataset
    first: int

    def __iter__(self) -> Iterator[list[BatchItem]]:
        epoch, skip = 0, self.first
        while True:
            count = 0
            for batch in self.plan.epoch(self.dataset, epoch):
                count += 1
                if skip:
                    skip -= 1
                    continue
                yield batch
            if not count:
                raise InputError(f"{self.dataset.name}: epoch {epoch} has no batches: no puzzle is small enough")
            epoch += 1


@dataclass(frozen=True)
class _BatchReader(TorchDataset[Batch]):
    """Makes the batch that a list of items stands for; workers get a copy."""

    dataset: Dataset
    budget: PointBudget
    graphs: Graphs
    augmentation: Augmentation
    cache_name: str | None
    focused: float

    def __getitem__(self, items: list[BatchItem]) -> Batch:
        return Batch.collate([self._one(item) for item in items])

    def _one(self, item: BatchItem) -> Batch:
        if self.cache_name is not None:
            file = _cached_shard(self.dataset, item.shard, self.cache_name, self.budget, self.graphs)
            return _from_cache(file[item.row], self.graphs)
        shard, rng = self.dataset.shard(item.shard), np.random.default_rng(item.seed)
        another = (item.row + 1 + int(rng.integers(max(1, len(shard) - 1)))) % len(shard)
        changed = self.augmentation(shard[item.row], rng, None if another == item.row else shard[another])
        points = self.budget.of(changed.num_pieces)
        if rng.random() < self.focused and changed.contact is not None:
            return focused_batch(changed, points, self.graphs, rng)
        return make_batch(changed.downsample(points), self.graphs)


def _cached_shard(dataset: Dataset, number: int, cache: str, budget: PointBudget, graphs: Graphs) -> RaggedFile:
    """The thinned examples of a shard with their pyramids, made when first asked for."""
    shard = dataset.shard_paths[number]
    path = shard.parent / cache / shard.name
    if not path.is_file():
        every = dataset.shard(number)
        items = [_to_cache(example.downsample(budget.of(example.num_pieces)), graphs) for example in every]
        write_ragged(path, items, {})
    return open_cached(RaggedFile, path)


_INDEX_TABLES = ("sizes", "parent", "down", "within", "nearest")


def _to_cache(example: Example, graphs: Graphs) -> dict[str, np.ndarray]:
    pyramid = graphs(example.puzzle().pieces)
    arrays = arrays_of(example.rows(pyramid.order.numpy(), example.sizes))
    for depth, level in enumerate(pyramid.levels):
        for name in _INDEX_TABLES:
            table = getattr(level, name)
            if table is not None:
                arrays[f"{depth} {name}"] = table.numpy().astype(np.int32)
    return arrays


def _from_cache(arrays: dict[str, np.ndarray], graphs: Graphs) -> Batch:
    example = example_of("", arrays)
    puzzle = example.puzzle()
    levels, below = [], puzzle.pieces.points
    for depth in range(graphs.num_levels):
        tables = {
            name: torch.from_numpy(arrays[f"{depth} {name}"].astype(np.int64))
            for name in _INDEX_TABLES
            if f"{depth} {name}" in arrays
        }
        level = Level(points=below[tables["parent"]], **tables)
        levels.append(level)
        below = level.points
    pyramid = Pyramid(puzzle.pieces, torch.arange(len(example.points)), tuple(levels))
    on_break = None if example.on_break is None else torch.from_numpy(example.on_break)
    return Batch(pyramid, puzzle.solution, on_break, None if example.own.all() else torch.from_numpy(example.own))
