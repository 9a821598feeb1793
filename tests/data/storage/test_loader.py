"""The loader: the same batches from the cache, from workers, and from any point on."""

import itertools
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.small_datasets import dataset_of, lumpy_example

import eda.data.storage.loader
from eda import InputError
from eda.data import Dataset
from eda.data.augment import Augmentation
from eda.data.storage.batches import BatchPlan
from eda.data.storage.loader import Batch, Graphs, Loader, make_batch
from eda.graph import Pyramid

PLAN = BatchPlan(points_per_batch=130, points_per_example=60, seed=5)
GRAPHS = Graphs(num_levels=2, ratio=0.25, num_neighbors=4, num_nearest=2)
CHANGED = Augmentation(keep=0.6, drop=0.5, foreign=0.5)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    examples = [lumpy_example(i, 2 + i % 3, 25 + i) for i in range(9)]
    return dataset_of(tmp_path_factory.mktemp("loader") / "data", examples)


def taken(loader: Loader, count: int, first: int = 0) -> list[Batch]:
    return list(itertools.islice(loader.batches(first), count))


def tensors_of(batch: Batch) -> dict[str, torch.Tensor | None]:
    """All that a network is told of a batch, by name, apart from the solution."""
    pieces = batch.pyramid.pieces
    named = {name: getattr(pieces, name) for name in ("points", "normals", "sizes", "counts")}
    named |= {"on_break": batch.on_break, "own": batch.own, "order": batch.pyramid.order}
    for depth, level in enumerate(batch.pyramid.levels):
        named |= {f"{depth} {name}": table for name, table in vars(level).items()}
    return named


def assert_same(a: Batch, b: Batch, *, solution_to: float = 0.0) -> None:
    """Bit for bit; what only leads back to the user's frame, to its last digits."""
    first, second = tensors_of(a), tensors_of(b)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        other = second[name]
        assert (tensor is None) == (other is None), name
        assert tensor is None or (tensor.dtype == other.dtype and torch.equal(tensor, other)), name
    assert torch.equal(a.solution.rotation, b.solution.rotation)
    torch.testing.assert_close(a.solution.translation, b.solution.translation, rtol=0, atol=solution_to)
    torch.testing.assert_close(a.pyramid.pieces.centers, b.pyramid.pieces.centers, rtol=0, atol=1e-14)
    torch.testing.assert_close(a.pyramid.pieces.scales, b.pyramid.pieces.scales, rtol=1e-14, atol=0)


def assert_all_same(one: list[Batch], other: list[Batch], **options: float) -> None:
    for a, b in zip(one, other, strict=True):
        assert_same(a, b, **options)


def differ(a: Batch, b: Batch) -> bool:
    return not torch.equal(a.pyramid.pieces.points, b.pyramid.pieces.points)


def num_batches(dataset: Dataset) -> int:
    return len(list(PLAN.epoch(dataset, 0)))


# -- a batch -----------------------------------------------------------------------------------------------


def test_a_batch_is_what_the_plan_says(dataset):
    """Every puzzle thinned, with the pyramid of the network, labels in the order of its points."""
    items = next(PLAN.epoch(dataset, 0))
    examples = [dataset.shard(item.shard)[item.row].downsample(60) for item in items]
    assert len(items) > 1
    batch = taken(Loader(dataset, PLAN, GRAPHS, cache=False), 1)[0]
    assert batch.pyramid.pieces.counts.tolist() == [example.num_pieces for example in examples]
    assert batch.pyramid.pieces.sizes.tolist() == [n for example in examples for n in example.sizes.tolist()]
    start = 0
    for example in examples:
        puzzle = example.puzzle()
        pyramid = Pyramid.build(puzzle.pieces, num_levels=2, ratio=0.25, num_neighbors=4, num_nearest=2)
        rows = slice(start, start + len(example.points))
        torch.testing.assert_close(batch.pyramid.pieces.points[rows], pyramid.pieces.points)
        assert batch.on_break[rows].tolist() == example.on_break[pyramid.order.numpy()].tolist()
        start = rows.stop
    assert torch.equal(batch.pyramid.order, torch.arange(start))
    solution = examples[0].puzzle().solution.translation
    torch.testing.assert_close(batch.solution.translation[: len(solution)], solution)
    assert torch.equal(batch.puzzle.pieces.points, batch.pyramid.pieces.points)
    assert batch.own is None


def test_an_example_without_labels_gives_a_batch_without():
    plain, labelled = replace(lumpy_example(0, 2), contact=None), lumpy_example(1, 2)
    assert make_batch(plain, GRAPHS).on_break is None
    assert Batch.collate([make_batch(e, GRAPHS) for e in (plain, labelled)]).on_break is None
    assert Batch.collate([make_batch(e, GRAPHS) for e in (labelled, labelled)]).on_break is not None


def test_foreign_pieces_are_marked_where_there_are_any():
    plain, mixed = lumpy_example(0, 2), replace(lumpy_example(1, 3), foreign=np.array([False, True, False]))
    assert make_batch(mixed, GRAPHS).own.tolist() == [True, False, True]
    both = Batch.collate([make_batch(e, GRAPHS) for e in (plain, mixed)])
    assert both.own.tolist() == [True, True, True, False, True]
    assert Batch.collate([make_batch(plain, GRAPHS)] * 2).own is None


# -- epoch after epoch -------------------------------------------------------------------------------------


def test_the_second_epoch_is_in_another_order(dataset):
    count = num_batches(dataset)
    batches = taken(Loader(dataset, PLAN, GRAPHS), 2 * count)
    first, second = batches[:count], batches[count:]
    for epoch in (first, second):
        assert sum(batch.pyramid.pieces.num_puzzles for batch in epoch) == 9
    assert any(differ(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("first", [1, 3, 7, 12])
def test_going_on_at_a_batch_gives_the_batches_that_would_have_come(dataset, first):
    """Within an epoch, at its end, and in a later one, whose puzzles are others."""
    loader = Loader(dataset, replace(PLAN, max_pieces=(2, 4)), GRAPHS)
    assert_all_same(taken(loader, 3, first), taken(loader, first + 3)[first:])


def test_going_on_after_changes_by_chance(dataset):
    loader = Loader(dataset, PLAN, GRAPHS, CHANGED)
    assert_all_same(taken(loader, 2, 5), taken(loader, 7)[5:])


def test_ranks_get_the_batches_of_one_in_turn(dataset):
    ranks = [taken(Loader(dataset, replace(PLAN, rank=rank, world=2), GRAPHS), 2) for rank in (0, 1)]
    alone = taken(Loader(dataset, PLAN, GRAPHS), 4)
    assert_all_same([ranks[0][0], ranks[1][0], ranks[0][1], ranks[1][1]], alone)


def test_a_worker_gives_the_batches_that_none_gives(dataset):
    for augmentation in (Augmentation(), CHANGED):
        loaders = [Loader(dataset, PLAN, GRAPHS, augmentation, workers=workers) for workers in (0, 1)]
        assert_all_same(*(taken(loader, 4, first=2) for loader in loaders))


def test_no_puzzle_small_enough_is_an_input_error(tmp_path):
    large = dataset_of(tmp_path / "data", [lumpy_example(0, 4, 8)])
    with pytest.raises(InputError, match="epoch 0 has no batches"):
        taken(Loader(large, replace(PLAN, max_pieces=(2, 4)), GRAPHS), 1)


# -- the cache ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_nearest", [0, 1, 2])
def test_what_comes_from_the_cache_is_what_would_have_been_made(dataset, num_nearest):
    graphs = replace(GRAPHS, num_nearest=num_nearest)
    made, kept, again = (taken(Loader(dataset, PLAN, graphs, cache=cache), 9) for cache in (False, True, True))
    assert_all_same(kept, made, solution_to=1e-6)
    assert_all_same(again, kept)


def test_what_comes_from_the_cache_has_the_same_bits(dataset):
    assert_all_same(*(taken(Loader(dataset, PLAN, GRAPHS, cache=cache), 9) for cache in (False, True)))


def test_the_cache_keeps_labels_and_absent_normals(tmp_path):
    mixed = replace(lumpy_example(0, 3, normals=False), foreign=np.array([False, True, False]))
    small = dataset_of(tmp_path / "data", [mixed])
    made, kept = (taken(Loader(small, PLAN, GRAPHS, cache=cache), 1)[0] for cache in (False, True))
    assert_same(made, kept, solution_to=1e-6)
    assert kept.own.tolist() == [True, False, True]
    assert kept.pyramid.pieces.normals is None


def caches(dataset: Dataset) -> set[Path]:
    return set(dataset.folders[0].glob("pyramids-*"))


def test_other_pyramids_have_a_cache_of_their_own(tmp_path):
    small = dataset_of(tmp_path / "data", [lumpy_example(i, 2, 30) for i in range(2)])
    loaders = [
        Loader(small, PLAN, GRAPHS),
        Loader(small, replace(PLAN, points_per_example=30), GRAPHS),
        *[Loader(small, PLAN, replace(GRAPHS, **{name: value})) for name, value in OTHER_GRAPHS.items()],
    ]
    for count, loader in enumerate(loaders, start=1):
        taken(loader, 1)
        assert len(caches(small)) == count
    taken(Loader(small, replace(PLAN, seed=9, points_per_batch=60), replace(GRAPHS)), 3)
    assert len(caches(small)) == len(loaders), "the order of batches does not change what is in them"


def test_each_of_several_datasets_keeps_its_own_pyramids(tmp_path):
    parts = [dataset_of(tmp_path / name, [lumpy_example(seed, 2, 30)]) for seed, name in enumerate("ab")]
    several = Dataset(*(part.folders[0] for part in parts))
    made, kept = (taken(Loader(several, PLAN, GRAPHS, cache=cache), 4) for cache in (False, True))
    for one, other in zip(made, kept, strict=True):
        assert_same(one, other, solution_to=1e-6)
    assert [len(caches(part)) for part in parts] == [1, 1]


OTHER_GRAPHS = {"num_levels": 1, "ratio": 0.5, "num_neighbors": 5, "num_nearest": 0}


def test_what_chance_changes_is_not_cached(tmp_path):
    small = dataset_of(tmp_path / "data", [lumpy_example(i, 3, 30) for i in range(2)])
    taken(Loader(small, PLAN, GRAPHS, CHANGED), 2)
    taken(Loader(small, PLAN, GRAPHS, cache=False), 2)
    Loader(small, PLAN, GRAPHS, CHANGED).prepare()
    assert not caches(small)


def test_preparing_fills_the_cache(tmp_path, monkeypatch):
    small = dataset_of(tmp_path / "data", [lumpy_example(i, 2, 30) for i in range(5)], shard_size=2)
    loader, calls = Loader(small, PLAN, GRAPHS), []
    loader.prepare(lambda *call: calls.append(call))
    assert calls == [(1, 3), (2, 3), (3, 3)]
    files = {path.name: path.read_bytes() for folder in caches(small) for path in folder.iterdir()}
    assert sorted(files) == [path.name for path in small.shard_paths]
    monkeypatch.setattr(eda.data.storage.loader, "write_ragged", None)  # nothing is left to be written
    assert len(taken(loader, 3)) == 3


def test_a_dataset_that_cannot_be_written_to_can_be_learned_from(tmp_path, monkeypatch):
    small = dataset_of(tmp_path / "data", [lumpy_example(0, 2, 30)])

    def refused(*arguments: object, **options: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refused)
    monkeypatch.setattr(Path, "write_bytes", refused)
    assert len(taken(Loader(small, PLAN, GRAPHS), 1)) == 1


# -- chance ------------------------------------------------------------------------------------------------


def test_the_same_seed_has_the_same_chances(dataset):
    one, same, another = (
        taken(Loader(Dataset(dataset.folders[0]), replace(PLAN, seed=seed), GRAPHS, CHANGED), 4) for seed in (5, 5, 6)
    )
    assert_all_same(one, same)
    assert any(differ(a, b) for a, b in zip(one, another, strict=True))


def test_chances_change_from_epoch_to_epoch(tmp_path):
    small = dataset_of(tmp_path / "data", [lumpy_example(0, 2, 40)])
    batches = taken(Loader(small, replace(PLAN, points_per_example=200), GRAPHS, Augmentation(keep=0.5)), 4)
    sizes = [batch.pyramid.pieces.sizes.tolist() for batch in batches]
    assert len({tuple(s) for s in sizes}) == 4
    assert all(20 <= s[0] <= 40 and 22 <= s[1] <= 45 for s in sizes), sizes


def test_every_example_has_chances_of_its_own(tmp_path):
    """Twins of one epoch are cut differently."""
    twins = dataset_of(tmp_path / "data", [lumpy_example(0, 2, 40)] * 2)
    first, second = taken(Loader(twins, replace(PLAN, points_per_batch=1), GRAPHS, Augmentation(keep=0.5)), 2)
    assert differ(first, second)


def test_crops_are_thinned_after_the_cut(dataset):
    """So that what is left has as many points as the network is used to."""
    whole = taken(Loader(dataset, replace(PLAN, points_per_batch=1), GRAPHS, Augmentation(keep=0.9)), 9)
    for batch in whole:
        assert len(batch.pyramid.pieces.points) >= min(60, 0.85 * 55)
        assert len(batch.pyramid.pieces.points) <= 60 + 2


def test_lost_and_foreign_pieces_come_by_chance(dataset):
    lost, gained = (
        taken(Loader(dataset, replace(PLAN, points_per_batch=1), GRAPHS, augmentation), 9)
        for augmentation in (Augmentation(drop=1.0), Augmentation(foreign=1.0))
    )
    assert sorted(int(b.pyramid.pieces.num_pieces) for b in lost) == [2] * 6 + [3] * 3, "of 2, 3 and 4 pieces"
    assert all(b.own is None for b in lost)
    # An example that is alone in its shard has none to take a piece from.
    alone = sum(len(dataset.shard(i)) == 1 for i in range(dataset.num_shards))
    assert sum(b.own is None for b in gained) == alone
    joined = [b for b in gained if b.own is not None]
    assert sorted({len(b.own) for b in joined}) == [3, 4, 5]
    assert all(b.own.tolist() == [True] * (len(b.own) - 1) + [False] for b in joined)


def test_a_foreign_piece_is_never_one_of_the_puzzle_itself(tmp_path):
    small = dataset_of(tmp_path / "data", [lumpy_example(i, 2, 12) for i in range(2)])
    plan = replace(PLAN, points_per_batch=1, points_per_example=100)
    for batch in taken(Loader(small, plan, GRAPHS, Augmentation(foreign=1.0)), 20):
        *own, foreign = batch.pyramid.pieces.points.split(batch.pyramid.pieces.sizes.tolist())
        assert not any(len(piece) == len(foreign) and torch.allclose(piece, foreign, atol=1e-5) for piece in own)


# -- waiting -----------------------------------------------------------------------------------------------


def test_the_time_spent_waiting_is_counted(dataset, monkeypatch):
    """By a clock of the test: making a batch takes two seconds of it, using one takes five."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def slow(example, graphs):
        now[0] += 2.0
        return make_batch(example, graphs)

    monkeypatch.setattr(eda.data.storage.loader, "make_batch", slow)
    loader = Loader(dataset, replace(PLAN, points_per_batch=1), GRAPHS, cache=False)
    for count, _ in enumerate(itertools.islice(loader.batches(), 3), start=1):
        assert loader.waited == 2.0 * count
        now[0] += 5.0
