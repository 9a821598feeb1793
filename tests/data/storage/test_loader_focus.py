"""The loader with a share of puzzles that have a focus: which they are, what they keep, and from any batch on."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.closeness import assert_near
from support.small_datasets import dataset_of, lumpy_example

from eda import Pieces
from eda.data import Dataset, Example
from eda.data.augment import Augmentation
from eda.data.focused_puzzles import focused_puzzle
from eda.data.storage.batches import BatchPlan
from eda.data.storage.loader import Batch, Graphs, Loader, focused_batch, make_batch
from eda.graph import Pyramid

PLAN = BatchPlan(points_per_batch=130, points_per_example=60, seed=5)
ONE_EACH = replace(PLAN, points_per_batch=1)  # a puzzle a batch
GRAPHS = Graphs(num_levels=2, ratio=0.25, num_neighbors=4, num_nearest=2)
CHANGED = Augmentation(keep=0.6, drop=0.5, foreign=0.5)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    examples = [lumpy_example(i, 2 + i % 3, 60 + i) for i in range(9)]
    return dataset_of(tmp_path_factory.mktemp("loader") / "data", examples)


def taken(loader: Loader, count: int, first: int = 0) -> list[Batch]:
    return list(itertools.islice(loader.batches(first), count))


def pieces_of(batch: Batch) -> Pieces:
    return batch.pyramid.pieces


def tables_of(batch: Batch) -> dict[str, torch.Tensor | None]:
    """Everything in a batch, by name."""
    named = dict(vars(pieces_of(batch)))
    named |= {"on_break": batch.on_break, "own": batch.own, "order": batch.pyramid.order}
    named |= {"solution": batch.solution.matrix()}
    for depth, level in enumerate(batch.pyramid.levels):
        named |= {f"{depth} {name}": table for name, table in vars(level).items()}
    return named


def same(a: Batch, b: Batch) -> bool:
    """Bit for bit."""
    pairs = zip(tables_of(a).items(), tables_of(b).items(), strict=True)
    return all(
        one == other and (t is None) == (u is None) and (t is None or (t.dtype == u.dtype and torch.equal(t, u)))
        for (one, t), (other, u) in pairs
    )


def assert_all_same(one: list[Batch], other: list[Batch]) -> None:
    assert all(same(a, b) for a, b in zip(one, other, strict=True))


# -- one puzzle --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("foreign", [False, True])
def test_a_batch_with_a_focus_is_the_focused_puzzle_with_its_pyramid(foreign):
    example = replace(lumpy_example(0, 3, 80), foreign=np.array([False, foreign, False]))
    batch = focused_batch(example, 60, GRAPHS, np.random.default_rng(3))
    puzzle = focused_puzzle(example, 60, np.random.default_rng(3))
    pyramid = Pyramid.build(puzzle.pieces, num_levels=2, ratio=0.25, num_neighbors=4, num_nearest=2)
    assert torch.equal(pieces_of(batch).points, puzzle.pieces.points[pyramid.order])
    assert torch.equal(pieces_of(batch).focus, puzzle.pieces.focus[pyramid.order])
    for one, other in zip(batch.pyramid.levels, pyramid.levels, strict=True):
        assert all(torch.equal(table, getattr(other, name)) for name, table in vars(one).items())
    assert torch.equal(batch.pyramid.order, torch.arange(len(puzzle.pieces.points)))
    assert torch.equal(batch.solution.matrix(), puzzle.solution.matrix())
    assert torch.equal(batch.puzzle.pieces.points, pieces_of(batch).points)
    assert batch.on_break is None
    assert (batch.own.tolist() == [True, False, True]) if foreign else (batch.own is None)


# -- the share ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("augmentation", [Augmentation(), CHANGED], ids=["as they are", "changed"])
def test_a_share_of_nothing_changes_nothing(dataset, augmentation):
    plain = taken(Loader(dataset, PLAN, GRAPHS, augmentation, cache=False), 6)
    assert_all_same(taken(Loader(dataset, PLAN, GRAPHS, augmentation, focused=0.0, cache=False), 6), plain)
    assert all(pieces_of(batch).focus is None and batch.on_break is not None for batch in plain)


def test_puzzles_without_a_focus_are_the_even_ones_with_their_labels(dataset):
    items = list(PLAN.epoch(dataset, 0))
    batches = taken(Loader(dataset, PLAN, GRAPHS, focused=0.0, cache=False), len(items))
    for batch, rows in zip(batches, items, strict=True):
        examples = [dataset.shard(item.shard)[item.row].downsample(60) for item in rows]
        assert same(batch, Batch.collate([make_batch(example, GRAPHS) for example in examples]))


def test_a_whole_share_gives_every_puzzle_a_focus(dataset):
    """And no label of a break that differs from it: where breaks are is told, not asked."""
    for batch in taken(Loader(dataset, PLAN, GRAPHS, focused=1.0), 6):
        pieces = pieces_of(batch)
        puzzle = pieces.puzzle_of_piece[pieces.piece_of_point]
        for b in range(pieces.num_puzzles):
            assert pieces.focus[puzzle == b].any()
        assert batch.on_break is None or torch.equal(batch.on_break, pieces.focus)


@pytest.mark.parametrize("augmentation", [Augmentation(), CHANGED], ids=["as they are", "changed"])
def test_a_focus_changes_neither_the_puzzles_nor_their_frames(dataset, augmentation):
    """Chance changes the examples as it would without one. Only the order differs in which points are summed."""
    pairs = [taken(Loader(dataset, PLAN, GRAPHS, augmentation, focused=f, cache=False), 8) for f in (0.0, 1.0)]
    for even, focused in zip(*pairs, strict=True):
        assert torch.equal(pieces_of(even).counts, pieces_of(focused).counts)
        assert_near(pieces_of(even).centers, pieces_of(focused).centers, 1e-12)
        assert_near(pieces_of(even).scales, pieces_of(focused).scales, 1e-12)
        assert (even.own is None) == (focused.own is None)
        assert even.own is None or torch.equal(even.own, focused.own)
        assert torch.equal(even.solution.rotation, focused.solution.rotation)


def test_a_share_of_the_puzzles_has_a_focus(dataset):
    """The others are as they would be without any."""
    mixed, even = (taken(Loader(dataset, ONE_EACH, GRAPHS, focused=f, cache=False), 90) for f in (0.3, 0.0))
    focused = [pieces_of(batch).focus is not None for batch in mixed]
    assert 0.15 < np.mean(focused) < 0.45
    for batch, plain, told in zip(mixed, even, focused, strict=True):
        assert told != same(batch, plain)


def test_an_example_without_labels_gets_no_focus(tmp_path):
    plain = [replace(lumpy_example(i, 2, 60), contact=None) for i in range(2)]
    small = dataset_of(tmp_path / "data", plain)
    for batch in taken(Loader(small, PLAN, GRAPHS, focused=1.0), 4):
        assert pieces_of(batch).focus is None
        assert batch.on_break is None


# -- mixed batches -----------------------------------------------------------------------------------------


def focused_one(example: Example) -> Batch:
    return focused_batch(example, 60, GRAPHS, np.random.default_rng(0))


def test_puzzles_with_and_without_a_focus_are_one_batch():
    plain, told = make_batch(lumpy_example(0, 2).downsample(60), GRAPHS), focused_one(lumpy_example(1, 3, 80))
    for parts in ([plain, told], [told, plain], [told, plain, told, plain]):
        both = Batch.collate(parts)
        focus = [pieces_of(part).focus_mask for part in parts]
        assert torch.equal(pieces_of(both).focus, torch.cat(focus))
        assert torch.equal(both.solution.matrix(), torch.cat([part.solution.matrix() for part in parts]))
        labels = both.on_break.split([len(mask) for mask in focus])
        assert all(
            torch.equal(found, plain.on_break) for found, part in zip(labels, parts, strict=True) if part is plain
        )


def test_labels_are_kept_if_all_puzzles_that_need_some_have_them():
    unlabelled = make_batch(replace(lumpy_example(0, 2), contact=None), GRAPHS)
    labelled, told = make_batch(lumpy_example(1, 2), GRAPHS), focused_one(lumpy_example(2, 2, 60))
    assert Batch.collate([unlabelled, told]).on_break is None
    assert Batch.collate([unlabelled, labelled, told]).on_break is None
    assert Batch.collate([labelled, told]).on_break is not None


def test_foreign_pieces_are_marked_beside_puzzles_with_a_focus():
    mixed = replace(lumpy_example(1, 3, 80), foreign=np.array([False, True, False]))
    plain = make_batch(lumpy_example(0, 2), GRAPHS)
    assert Batch.collate([plain, focused_one(mixed)]).own.tolist() == [True, True, True, False, True]


# -- from any batch on -------------------------------------------------------------------------------------


@pytest.mark.parametrize("focused", [0.5, 1.0])
@pytest.mark.parametrize("augmentation", [Augmentation(), CHANGED], ids=["as they are", "changed"])
def test_the_same_batches_come_again(dataset, augmentation, focused):
    loaders = [Loader(dataset, PLAN, GRAPHS, augmentation, focused=focused) for _ in range(2)]
    assert_all_same(*(taken(loader, 6) for loader in loaders))


@pytest.mark.parametrize("first", [1, 3, 7, 12])
def test_going_on_at_a_batch_gives_the_batches_that_would_have_come(dataset, first):
    loader = Loader(dataset, PLAN, GRAPHS, CHANGED, focused=0.5)
    assert_all_same(taken(loader, 3, first), taken(loader, first + 3)[first:])


def test_the_next_epoch_draws_anew(dataset):
    """Which puzzles have a focus is not the same in every epoch."""
    epochs = [
        {
            tuple(pieces_of(batch).scales.tolist()): pieces_of(batch).focus is None
            for batch in taken(loader, 9, 9 * epoch)
        }
        for loader in [Loader(dataset, ONE_EACH, GRAPHS, focused=0.5)]
        for epoch in range(3)
    ]
    assert all(epoch.keys() == epochs[0].keys() for epoch in epochs)
    assert epochs[0] != epochs[1] or epochs[0] != epochs[2]


def test_a_worker_gives_the_batches_that_none_gives(dataset):
    loaders = [Loader(dataset, PLAN, GRAPHS, CHANGED, workers=workers, focused=0.5) for workers in (0, 1)]
    assert_all_same(*(taken(loader, 4, first=2) for loader in loaders))


def test_pyramids_with_a_focus_are_not_cached(tmp_path):
    small = dataset_of(tmp_path / "data", [lumpy_example(i, 2, 60) for i in range(2)])
    loader = Loader(small, PLAN, GRAPHS, focused=0.5)
    loader.prepare()
    taken(loader, 2)
    assert not list(small.folders[0].glob("pyramids-*"))
