"""Sources by their text, kinds added from outside, and even subsets."""

from collections.abc import Iterator

import pytest
from support.datasets import dataset_of, lumpy_example

from eda.data import Example, Source, every_kth, open_examples, register_source, sources
from eda.data.source import ItemSource, LeftOut
from eda.errors import InputError


class Lumps:
    """A source as somebody else would write it: nothing of ours is inherited."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Example:
        return lumpy_example(index)

    def __iter__(self) -> Iterator[Example]:
        return (self[index] for index in range(self.count))


class WithGaps(ItemSource[int]):
    """Numbers of which only the odd ones are wanted; `read_so_far` is what was read."""

    def __init__(self, count: int) -> None:
        self.count, self.read_so_far = count, list[int]()

    @property
    def items(self) -> range:
        return range(self.count)

    def read(self, item: int) -> Example:
        self.read_so_far.append(item)
        if item % 2 == 0:
            raise LeftOut(f"{item} is even")
        return lumpy_example(item)


@pytest.fixture
def lumps(monkeypatch):
    """The kind `lumps`, for one test."""
    monkeypatch.setattr(sources, "_SOURCES", dict(sources._SOURCES))
    register_source("lumps", lambda text: Lumps(int(text)))


def names(source: Source) -> list[str]:
    return [example.name for example in source]


@pytest.mark.usefixtures("lumps")
def test_a_kind_from_outside_is_opened_by_its_name():
    assert names(open_examples("lumps:3")) == ["lumps 0", "lumps 1", "lumps 2"]


@pytest.mark.usefixtures("lumps")
def test_what_follows_the_colon_is_handed_over_as_it_is():
    texts = []

    def keep(text: str) -> Source:
        texts.append(text)
        return Lumps(1)

    register_source("kept", keep)
    for text in ("", "/a/path,with=settings", "https://host:80/x"):
        open_examples(f"kept:{text}")
    assert texts == ["", "/a/path,with=settings", "https://host:80/x"]


@pytest.mark.usefixtures("lumps")
@pytest.mark.parametrize("name", ["lumps", "fracture", "rooms", "kitti", "folders"])
def test_a_name_that_is_taken_is_refused(name):
    with pytest.raises(InputError, match=f"'{name}' exists already"):
        register_source(name, lambda _: Lumps(1))


@pytest.mark.parametrize("name", ["", "a:b", "a/b", "a\\b"])
def test_a_name_that_cannot_stand_before_a_colon_is_refused(name):
    with pytest.raises(InputError, match="must not be empty, nor have a colon"):
        register_source(name, lambda _: Lumps(1))


@pytest.mark.usefixtures("lumps")
def test_an_unknown_kind_names_those_there_are():
    with pytest.raises(InputError, match=r"nothing:3: neither a folder.*kitti-pack, lumps$"):
        open_examples("nothing:3")
    with pytest.raises(InputError, match="neither a folder"):
        open_examples("lumps")


def test_a_folder_wins_over_a_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dataset_of(tmp_path / "rooms:rooms=1", [lumpy_example(7)])
    assert names(open_examples("rooms:rooms=1")) == ["lumps 7"]


# -- subsets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(1, [0]), (2, [0, 5]), (3, [0, 3, 7]), (5, [0, 2, 4, 6, 8]), (10, range(10)), (99, range(10))],
)
def test_every_kth_is_spread_over_the_whole(limit, expected):
    assert [example.name for example in every_kth(Lumps(10), limit)] == [f"lumps {i}" for i in expected]


@pytest.mark.parametrize("count", [1, 7, 100, 531])
@pytest.mark.parametrize("limit", [1, 2, 6, 99])
def test_the_gaps_of_an_even_subset_differ_by_one(count, limit):
    class Numbers(Lumps):
        def __getitem__(self, index):
            return index

    chosen = list(every_kth(Numbers(count), limit))
    gaps = {b - a for a, b in zip(chosen, [*chosen[1:], count], strict=True)}
    assert len(chosen) == min(count, limit)
    assert max(gaps) - min(gaps) <= 1


def test_the_next_stands_in_for_what_is_left_out():
    source = WithGaps(12)
    assert [example.name for example in every_kth(source, 3)] == ["lumps 1", "lumps 5", "lumps 9"]
    assert source.read_so_far == [0, 1, 4, 5, 8, 9]
    assert [example.name for example in every_kth(WithGaps(4), 3)] == ["lumps 1", "lumps 3"]


def test_a_dataset_is_a_source(tmp_path):
    dataset = dataset_of(tmp_path / "set", [lumpy_example(i) for i in range(9)])
    assert [example.name for example in every_kth(dataset, 3)] == ["lumps 0", "lumps 3", "lumps 6"]
