"""Which puzzles of a source are measured: all, evenly chosen ones, or so many of every group.

In: a source with random access. Out: a `PuzzleSet`, which reads a puzzle only when it is asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from eda.data import Example, Source
from eda.data.augment import with_foreign_piece
from eda.data.source import LeftOut
from eda.errors import InputError
from eda.evaluate.groups import PROPERTIES
from eda.evaluate.scatter import ScatteredPuzzle
from eda.settings import check_share, check_whole

_FOREIGN = 1  # the stream of random numbers that foreign pieces are drawn from


def even_indices(total: int, number: int) -> list[int]:
    """`number` of the indices below `total`, evenly over all of them: i * total // number. All, if there are fewer."""
    return [i * total // number for i in range(number)] if number < total else list(range(total))


@dataclass(frozen=True)
class PuzzleSet:
    """Some puzzles of a source, in its order. Every slot gives one puzzle: the first in it that is not left out."""

    source: Source
    seed: int
    slots: Sequence[range]  # of indices in the source
    foreign: float = 0.0  # the chance that a piece of another puzzle of the source is put beside the own ones

    @staticmethod
    def choose(
        source: Source,
        *,
        seed: int = 0,
        limit: int | None = None,
        per_group: int | None = None,
        by: str = "category",
        foreign: float = 0.0,
    ) -> PuzzleSet:
        """All puzzles; evenly chosen ones, at most `limit`; or at most `per_group` of each group, evenly within it."""
        check_share("foreign", foreign)
        if limit is not None and per_group is not None:
            raise InputError("--limit and --per-group each choose the puzzles: give one of them")
        if foreign and len(source) < 2:
            raise InputError("a foreign piece comes from another puzzle of the source, and there is only one puzzle")
        if per_group is not None:
            check_whole("per_group", per_group, 1, 2**31)
            slots = [range(i, i + 1) for i in _evenly_by_group(source, by, per_group)]
        else:
            check_whole("limit", 1 if limit is None else limit, 1, 2**31)
            starts = even_indices(len(source), len(source) if limit is None else limit)
            slots = [range(*ends) for ends in zip(starts, [*starts[1:], len(source)], strict=True)]
        return PuzzleSet(source, seed, slots, foreign)

    def __len__(self) -> int:
        return len(self.slots)

    def scatter(self, finished: Collection[int] = ()) -> Iterator[ScatteredPuzzle]:
        """The puzzles, but for those in whose slot one is finished already."""
        done = set(finished)
        for slot in self.slots:
            if done.isdisjoint(slot):
                found = _first(self.source, slot)
                if found is not None:
                    index, example = found
                    yield ScatteredPuzzle.of(self._with_foreign(example, index), self.seed, index)

    def _with_foreign(self, example: Example, index: int) -> Example:
        """By chance with a piece of the next puzzle of the source that can be read."""
        rng = np.random.default_rng([self.seed, index, _FOREIGN])
        if rng.random() >= self.foreign:
            return example
        total = len(self.source)
        donor = _first(self.source, [(index + 1 + i) % total for i in range(total - 1)])
        if donor is None:
            raise InputError(f"{example.name}: there is no other puzzle from which a foreign piece could come")
        return with_foreign_piece(example, donor[1], rng)


def _first(source: Source, indices: Sequence[int]) -> tuple[int, Example] | None:
    """The first of some puzzles that the options of the source do not exclude, with its index."""
    for index in indices:
        try:
            return index, source[index]
        except LeftOut:
            continue
    return None


def _evenly_by_group(source: Source, by: str, number: int) -> list[int]:
    """Reads all puzzles once: only then their groups are known."""
    groups: dict[str, list[int]] = defaultdict(list)
    for index in range(len(source)):
        found = _first(source, [index])
        if found is not None:
            groups[PROPERTIES[by](found[1])].append(index)
    return sorted(members[i] for members in groups.values() for i in even_indices(len(members), number))
