"""Which examples make up which batch: a pure function of seed and epoch, the same on every rank.

Only a few shards' tables of sizes are in memory at a time, so a million puzzles cost no more than a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from eda.data.storage.shards import Dataset
from eda.errors import InputError
from eda.point_budget import PointBudget
from eda.settings import check_whole

# Shards whose examples are shuffled together.
MIXED_SHARDS = 16


@dataclass(frozen=True)
class BatchItem:
    """The place of an example, and the seed of its augmentation."""

    shard: int
    row: int
    seed: tuple[int, int, int]


@dataclass(frozen=True)
class BatchPlan:
    """Batches of about `points_per_batch` points out of a dataset."""

    points_per_batch: int
    points_per_example: int  # what an example is thinned to
    max_pieces: tuple[int, ...] = (10**6,)  # a curriculum: the largest puzzles of epoch 0, 1, ...; the last one stays
    points_per_piece: int = 0  # of an example with many pieces, which is thinned less
    seed: int = 0
    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        check_whole("points_per_batch", self.points_per_batch, 1, 2**40)
        check_whole("points_per_example", self.points_per_example, 1, 2**40)
        check_whole("points_per_piece", self.points_per_piece, 0, 2**40)
        check_whole("world", self.world, 1, 2**31)
        check_whole("rank", self.rank, 0, self.world - 1)
        if not self.max_pieces or min(self.max_pieces) < 2:
            raise InputError(f"max_pieces must name numbers of at least 2, got {self.max_pieces}")

    @property
    def budget(self) -> PointBudget:
        """To how many points an example is thinned."""
        return PointBudget(self.points_per_example, self.points_per_piece)

    def epoch(self, dataset: Dataset, epoch: int, first: int = 0) -> Iterator[list[BatchItem]]:
        """The batches of an epoch for this rank, from batch number `first` on. Every rank gets the same number."""
        whole = self._for_all_ranks(dataset, epoch)
        for number, batches in enumerate(_in_groups(whole, self.world)):
            if number >= first:
                yield batches[self.rank]

    def _for_all_ranks(self, dataset: Dataset, epoch: int) -> Iterator[list[BatchItem]]:
        rng = np.random.default_rng([self.seed, epoch])
        most = self.max_pieces[min(epoch, len(self.max_pieces) - 1)]
        order = rng.permutation(dataset.num_shards)
        for start in range(0, len(order), MIXED_SHARDS):
            yield from self._mix_shards(dataset, order[start : start + MIXED_SHARDS], most, epoch, rng)

    def _mix_shards(
        self, dataset: Dataset, shards: np.ndarray, most: int, epoch: int, rng: np.random.Generator
    ) -> Iterator[list[BatchItem]]:
        table = np.concatenate([self._table(dataset, int(shard), most) for shard in shards])
        batch: list[BatchItem] = []
        points = 0
        for shard, row, cost in table[rng.permutation(len(table))]:
            if batch and points + cost > self.points_per_batch:
                yield batch
                batch, points = [], 0
            batch.append(BatchItem(int(shard), int(row), (self.seed, epoch, int(shard) * 2**24 + int(row))))
            points += cost
        if batch:
            yield batch

    def _table(self, dataset: Dataset, number: int, most: int) -> np.ndarray:
        """(S, 3): shard, row and points of every example that is not too large a puzzle."""
        shard = dataset.shard(number)
        thinned = np.maximum(self.points_per_example, self.points_per_piece * shard.num_pieces)
        cost = np.minimum(shard.num_points, thinned)
        rows = np.flatnonzero(shard.num_pieces <= most)
        return np.stack([np.full(len(rows), number), rows, cost[rows]], axis=1)


def _in_groups(batches: Iterator[list[BatchItem]], size: int) -> Iterator[list[list[BatchItem]]]:
    """Full groups only: an incomplete last one would leave some ranks waiting."""
    group: list[list[BatchItem]] = []
    for batch in batches:
        group.append(batch)
        if len(group) == size:
            yield group
            group = []
