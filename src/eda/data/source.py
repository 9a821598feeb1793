"""Source: puzzles of a dataset as it lies on disk, read one at a time. Every reader is one.

In: the path where somebody else's files lie, and which of them to take. Out: an `Example` by its number. A reader is a
frozen dataclass of its options, so it can be handed to other processes, compared and written down.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np

from eda.data.example import Example
from eda.errors import InputError

Item = TypeVar("Item")


class LeftOut(InputError):  # noqa: N818 -- nothing is wrong with the file: the reader's own filter does not want it
    """A sound puzzle that the options of the reader exclude, which only shows once it is read."""


class Source(ABC, Generic[Item]):
    """Puzzles 0 .. len - 1; nothing but their list is read before one is asked for.

    `source[i]` raises `InputError` for a puzzle that cannot be used, `LeftOut` for one that its options exclude;
    `for example in source` passes over the latter.
    """

    @property
    def num_missing(self) -> int:
        """Puzzles that a list of the dataset names but that are not there."""
        return 0

    @property
    @abstractmethod
    def items(self) -> Sequence[Item]:
        """What there is to read, in a fixed order."""

    @abstractmethod
    def read(self, item: Item) -> Example:
        """One of them."""

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


def generator_for(seed: int, name: str) -> np.random.Generator:
    """The random numbers of one puzzle: they do not depend on which others are read, or in which order."""
    return np.random.default_rng((seed, zlib.crc32(name.encode())))


def check_number_of_pieces(name: str, count: int, least: int, most: int) -> None:
    """Raises `LeftOut` for a puzzle of too few or too many pieces."""
    if not least <= count <= most:
        raise LeftOut(f"{name}: {count} pieces, and only puzzles of {least} to {most} are wanted")
