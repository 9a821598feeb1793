"""Which puzzles are measured: evenly over the source, so many of a group, and none that is left out."""

import numpy as np
import pytest
from support.measured_puzzles import example

from eda import InputError
from eda.data.source import LeftOut
from eda.evaluate import PuzzleSet, even_indices
from eda.evaluate.scatter import ScatteredPuzzle


class Listed:
    """Examples by their number; those whose number is in `excluded` are left out."""

    def __init__(self, names, excluded=(), pieces=2):
        self.names, self.excluded, self.pieces = list(names), set(excluded), pieces
        self.read = []

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        self.read.append(index)
        if index in self.excluded:
            raise LeftOut(f"number {index}")
        return example(self.pieces, index, size=10, name=self.names[index])

    def __iter__(self):
        raise AssertionError("a subset reads only what it needs")


def indices(puzzles):
    return [puzzle.index for puzzle in puzzles]


@pytest.mark.parametrize(("total", "number"), [(531, 160), (10, 3), (7, 7), (5, 9), (1284, 1), (100, 99)])
def test_indices_are_even(total, number):
    chosen = even_indices(total, number)
    assert len(chosen) == min(total, number)
    assert chosen[0] == 0
    gaps = np.diff([*chosen, total])
    assert gaps.min() >= 1
    assert gaps.max() - gaps.min() <= 1


def test_indices_by_hand():
    assert even_indices(10, 4) == [0, 2, 5, 7]
    assert even_indices(3, 5) == [0, 1, 2]


def test_a_limit_takes_puzzles_from_the_whole_source_and_reads_no_others():
    source = Listed(map(str, range(20)))
    puzzles = PuzzleSet.choose(source, limit=4)
    assert len(puzzles) == 4
    assert indices(puzzles.scatter()) == [0, 5, 10, 15]
    assert source.read == [0, 5, 10, 15]


def test_a_puzzle_is_turned_alike_in_every_subset():
    source = Listed(map(str, range(6)))
    some, every = (list(PuzzleSet.choose(source, seed=3, limit=n).scatter()) for n in (2, None))
    expected = ScatteredPuzzle.of(source[3], 3, 3).solution.matrix()
    for puzzle in (some[1], every[3]):
        assert (puzzle.solution.matrix() == expected).all()


def test_the_next_sound_puzzle_stands_in_for_one_that_is_left_out():
    source = Listed(map(str, range(9)), excluded=(0, 3, 4, 5))
    assert indices(PuzzleSet.choose(source, limit=3).scatter()) == [1, 6]
    assert indices(PuzzleSet.choose(source).scatter()) == [1, 2, 6, 7, 8]


def test_finished_puzzles_are_not_read_again():
    source = Listed(map(str, range(9)), excluded=(3,))
    puzzles = PuzzleSet.choose(source, limit=3)
    assert indices(puzzles.scatter(finished=[0, 4])) == [6]
    assert source.read == [6]


def test_so_many_of_every_group_evenly_within_it():
    kinds = ["bowl"] * 8 + ["cup"] * 3 + ["bowl"] * 2
    source = Listed([f"{i:06d}-{kind}" for i, kind in enumerate(kinds)], excluded=(1,))
    chosen = indices(PuzzleSet.choose(source, per_group=3, by="category").scatter())
    bowls = [i for i, kind in enumerate(kinds) if kind == "bowl" and i != 1]
    assert chosen == sorted([bowls[0], bowls[3], bowls[6], 8, 9, 10])


def test_a_foreign_piece_is_of_another_puzzle_and_comes_by_its_chance():
    source = Listed(map(str, range(60)))
    plain = list(PuzzleSet.choose(source).scatter())
    mixed = list(PuzzleSet.choose(source, foreign=1.0).scatter())
    assert [puzzle.example.num_pieces for puzzle in plain] == [2] * 60
    for before, after in zip(plain, mixed, strict=True):
        assert after.example.own.tolist() == [True, True, False]
        np.testing.assert_array_equal(after.example.points[: len(before.example.points)], before.example.points)
        donor = source[(before.index + 1) % 60]
        assert any(np.array_equal(after.example.clouds()[2], cloud) for cloud in donor.clouds())
    half = [puzzle.example.num_pieces == 3 for puzzle in PuzzleSet.choose(source, foreign=0.5).scatter()]
    assert 15 <= sum(half) <= 45
    assert half == [puzzle.example.num_pieces == 3 for puzzle in PuzzleSet.choose(source, foreign=0.5).scatter()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 2, "per_group": 2}, "give one of them"),
        ({"limit": 0}, "limit"),
        ({"per_group": 0}, "per_group"),
        ({"foreign": 1.5}, "foreign"),
    ],
)
def test_what_cannot_be_chosen_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        PuzzleSet.choose(Listed("abc"), **options)


def test_a_lonely_puzzle_has_no_foreign_piece():
    with pytest.raises(InputError, match="only one puzzle"):
        PuzzleSet.choose(Listed("a"), foreign=0.5)
