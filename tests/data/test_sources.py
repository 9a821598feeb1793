"""Sources by their text, and kinds added from outside."""

from collections.abc import Iterator

import pytest
from support.small_datasets import dataset_of, lumpy_example

from eda.data import Example, Source, open_examples, register_source
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


@pytest.fixture
def lumps(registries):
    """The kind `lumps`, for one test."""
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
    with pytest.raises(InputError, match=r"needs a name|must not have a colon"):
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
