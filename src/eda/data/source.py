"""Source: puzzles in a fixed order, read one at a time. Datasets, readers and generators are sources.

`ItemSource` makes one from a list of items and a way to read an item. A subclass is a frozen dataclass of its options,
so it can be handed to other processes, compared and written down.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from eda.data.example import Example
from eda.errors import InputError

Item = TypeVar("Item")


class LeftOut(InputError):  # noqa: N818 -- nothing is wrong with the file: the reader's own filter does not want it
    """A sound puzzle that the options of a source exclude, which only shows once it is read."""


class Source(Protocol):
    """Puzzles 0 .. len - 1.

    `source[i]` raises `InputError` for a puzzle that cannot be used and `LeftOut` for one that the options exclude.
    `for example in source` passes over the latter, so `len` is an upper bound on what it gives.
    """

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Example: ...
    def __iter__(self) -> Iterator[Example]: ...


class ItemSource(ABC, Generic[Item]):
    """A `Source` of items; nothing but their list is read before one is asked for."""

    @property
    def num_missing(self) -> int:
        """How many puzzles a list of the dataset names that are not there."""
        return 0

    @property
    @abstractmethod
    def items(self) -> Sequence[Item]:
        """What there is to read, in a fixed order."""

    @abstractmethod
    def read(self, item: Item) -> Example:
        """The puzzle of an item."""

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Example:
        if not 0 <= index < len(self):
            raise IndexError(f"{len(self)} puzzles, not one number {index}")
        example = self.read(self.items[index])
        example.check()
        return example

    def __iter__(self) -> Iterator[Example]:
        for index in range(len(self)):
            try:
                yield self[index]
            except LeftOut:
                continue


class Listing(NamedTuple):
    """What a dataset's own lists say."""

    items: tuple[str, ...]  # what there is to read
    num_missing: int  # what they name that is not there


class ListedSource(ItemSource[str]):
    """A source whose items come from lists that may name what is not there."""

    @property
    @abstractmethod
    def listing(self) -> Listing:
        """What the lists say."""

    @property
    def items(self) -> tuple[str, ...]:
        """The names of what there is to read."""
        return self.listing.items

    @property
    def num_missing(self) -> int:
        """How many names of the lists are not there."""
        return self.listing.num_missing


def generator_for(seed: int, name: str) -> np.random.Generator:
    """The random numbers of one puzzle: they do not depend on which others are read, or in which order."""
    return np.random.default_rng((seed, zlib.crc32(name.encode())))


def check_number_of_pieces(name: str, count: int, least: int, most: int) -> None:
    """Raises `LeftOut` for a puzzle of too few or too many pieces."""
    if not least <= count <= most:
        raise LeftOut(f"{name}: {count} pieces, and only puzzles of {least} to {most} are wanted")
