"""Evidence: what the pieces of a puzzle themselves say about how they fit, whatever a network thinks of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eda.assembly.contact.fracture_contact import FractureContact
from eda.assembly.contact.fragment import MOST_POINTS, Fragment
from eda.assembly.contact.rules import ContactRules
from eda.errors import InputError
from eda.registration.patches import Patch


@dataclass(frozen=True)
class Evidence:
    """The pieces of one puzzle, and what it means that they fit. Make one with `of`."""

    fragments: tuple[Fragment, ...]  # N
    patches: tuple[tuple[Patch, ...], ...]  # N, those of each fragment
    rules: ContactRules

    @staticmethod
    def of(
        fragments: Sequence[Fragment], rules: ContactRules | None = None, *, most_points: int = MOST_POINTS
    ) -> Evidence:
        """The evidence of at least two fragments, each in at most `most_points`; by default, of a fracture."""
        if len(fragments) < 2:
            raise InputError(f"an assembly needs at least 2 pieces, got {len(fragments)}")
        rules = rules or FractureContact()
        ordered = tuple(fragment.order_points(most_points) for fragment in fragments)
        return Evidence(ordered, tuple(rules.patches(fragment) for fragment in ordered), rules)

    def __len__(self) -> int:
        return len(self.fragments)

    def of_pair(self, i: int, j: int) -> Evidence:
        """Of two of the pieces alone. They share their trees with this one."""
        return Evidence((self.fragments[i], self.fragments[j]), (self.patches[i], self.patches[j]), self.rules)

    @cached_property
    def spacing(self) -> float:
        """The usual distance between neighbouring points of a piece."""
        return float(np.median([fragment.spacing for fragment in self.fragments]))

    @cached_property
    def masses(self) -> np.ndarray:
        """(N,) how much every piece could gain."""
        return np.array([self.rules.mass(fragment) for fragment in self.fragments])

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Unordered pairs i < j."""
        return [(i, j) for j in range(len(self)) for i in range(j)]
