"""Which examples make up which batch: all of them, once an epoch, in an order that only the seed decides."""

from collections import Counter
from dataclasses import replace
from itertools import chain, pairwise

import pytest
from support.small_datasets import dataset_of, lumpy_example

from eda import InputError
from eda.data import Dataset
from eda.data.storage.batches import MIXED_SHARDS, BatchItem, BatchPlan

# Pieces and points of 23 examples: 2 to 5 pieces of 8 to 14 points and more.
SHAPES = [(2 + i % 4, 8 + i % 7) for i in range(23)]
PLAN = BatchPlan(points_per_batch=150, points_per_example=40)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    examples = [lumpy_example(i, pieces, size) for i, (pieces, size) in enumerate(SHAPES)]
    return dataset_of(tmp_path_factory.mktemp("batches") / "data", examples, shard_size=4)


def number(item: BatchItem) -> int:
    """The number of an example in the dataset."""
    return 4 * item.shard + item.row


def examples_of(batches: list[list[BatchItem]]) -> list[int]:
    return [number(item) for item in chain.from_iterable(batches)]


def points_of(item: BatchItem, dataset: Dataset) -> int:
    return min(len(dataset[number(item)].points), PLAN.points_per_example)


# -- an epoch ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [0, 1, 7])
def test_every_example_comes_once_an_epoch(dataset, epoch):
    assert sorted(examples_of(list(PLAN.epoch(dataset, epoch)))) == list(range(23))


def test_epochs_and_seeds_have_orders_of_their_own(dataset):
    orders = [
        tuple(examples_of(list(plan.epoch(dataset, epoch))))
        for plan in (PLAN, replace(PLAN, seed=1))
        for epoch in range(3)
    ]
    assert len({*orders, tuple(range(23))}) == 7


def test_the_same_seed_gives_the_same_batches_with_the_same_chances(dataset):
    assert list(PLAN.epoch(dataset, 2)) == list(replace(PLAN).epoch(Dataset(dataset.folders[0]), 2))


def test_every_example_has_chances_of_its_own_in_every_epoch(dataset):
    plans = [PLAN, replace(PLAN, seed=1)]
    items = [item for plan in plans for epoch in range(3) for batch in plan.epoch(dataset, epoch) for item in batch]
    assert len({item.seed for item in items}) == len(items) == 6 * 23


def test_examples_of_different_shards_are_mixed(dataset):
    assert MIXED_SHARDS > 2
    batches = list(PLAN.epoch(dataset, 0))
    assert any(len({item.shard for item in batch}) > 1 for batch in batches)
    shards = [item.shard for batch in batches for item in batch]
    assert sum(a != b for a, b in pairwise(shards)) > dataset.num_shards


def test_more_shards_than_are_mixed_at_once_all_come(tmp_path):
    examples = [lumpy_example(i, 2, 4) for i in range(2 * MIXED_SHARDS + 3)]
    many = dataset_of(tmp_path / "data", examples, shard_size=1)
    batches = list(BatchPlan(60, 20).epoch(many, 0))
    shards = [item.shard for batch in batches for item in batch]
    assert sorted(shards) == list(range(2 * MIXED_SHARDS + 3))
    assert max(shards[:MIXED_SHARDS]) > MIXED_SHARDS, "shards are shuffled too, not only what is in them"


# -- sizes -------------------------------------------------------------------------------------------------


def test_batches_have_at_most_the_points_allowed_and_not_much_less(dataset):
    batches = list(PLAN.epoch(dataset, 0))
    for batch, after in zip(batches, [*batches[1:], []], strict=True):
        points = sum(points_of(item, dataset) for item in batch)
        assert points <= 150
        assert not after or points + points_of(after[0], dataset) > 150, "the next example would have had room"


def test_an_example_larger_than_a_batch_is_a_batch_of_its_own(dataset):
    batches = list(replace(PLAN, points_per_batch=1).epoch(dataset, 0))
    assert [len(batch) for batch in batches] == [1] * 23


def test_examples_cost_what_they_are_thinned_to(dataset):
    batches = list(BatchPlan(points_per_batch=40, points_per_example=4).epoch(dataset, 0))
    assert [len(batch) for batch in batches] == [10, 10, 3]


def test_examples_of_many_pieces_cost_more(dataset):
    """Each is a batch of its own where no two fit: of 5 pieces, 55 points are kept, as far as there are so many."""
    plan = replace(PLAN, points_per_piece=11, points_per_batch=60)
    kept = [min(len(dataset[i].points), max(40, 11 * pieces)) for i, (pieces, _) in enumerate(SHAPES)]
    assert max(kept) > 40
    for batch in plan.epoch(dataset, 0):
        assert len(batch) == 1 or sum(kept[number(item)] for item in batch) <= 60


# -- curriculum --------------------------------------------------------------------------------------------


def test_a_curriculum_begins_with_small_puzzles(dataset):
    plan = replace(PLAN, max_pieces=(2, 3, 5))
    for epoch, most in enumerate([2, 3, 5, 5, 5]):
        expected = [i for i, (pieces, _) in enumerate(SHAPES) if pieces <= most]
        assert sorted(examples_of(list(plan.epoch(dataset, epoch)))) == expected


# -- ranks and going on ------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", [1, 2, 3])
def test_ranks_share_the_batches_of_one(dataset, world):
    alone = list(PLAN.epoch(dataset, 1))
    shared = [list(replace(PLAN, rank=rank, world=world).epoch(dataset, 1)) for rank in range(world)]
    assert {len(batches) for batches in shared} == {len(alone) // world}
    assert [batch for group in zip(*shared, strict=True) for batch in group] == alone[: len(alone) // world * world]
    counts = Counter(number for batches in shared for number in examples_of(batches))
    assert set(counts.values()) == {1}


@pytest.mark.parametrize("first", [0, 1, 3, 100])
def test_beginning_at_a_batch_is_skipping_those_before(dataset, first):
    plan = replace(PLAN, rank=1, world=2)
    assert list(plan.epoch(dataset, 0, first)) == list(plan.epoch(dataset, 0))[first:]


BAD = {
    "points_per_batch": dict(points_per_batch=0),
    "points_per_example": dict(points_per_example=0),
    "world": dict(world=0),
    "rank": dict(rank=2, world=2),
    "max_pieces": dict(max_pieces=()),
    "max_pieces must name numbers of at least 2": dict(max_pieces=(1, 4)),
}


@pytest.mark.parametrize("what", BAD)
def test_a_plan_that_cannot_be_is_an_input_error(what):
    with pytest.raises(InputError, match=what):
        replace(PLAN, **BAD[what])
