"""What is measured: answers to puzzles, whoever gives them.

A network, the whole assembler and a file of predictions are all an `AnswerSource`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from eda.evaluate.scatter import ScatteredPuzzle
from eda.lie import SE3


@dataclass(frozen=True)
class Confidence:
    """The probabilities that come with one assembly."""

    whole: float  # that all placed pieces are where they belong
    pieces: np.ndarray  # (N,) that a piece is in its place
    joints: np.ndarray  # (N, N) that two pieces lie rightly to each other; 0 where nothing is claimed


@dataclass(frozen=True)
class Answer:
    """The assemblies of one puzzle."""

    puzzle: ScatteredPuzzle
    poses: SE3  # (R, K, N) float64, given -> assembled; those of unplaced pieces as `fill_unplaced` has them
    seconds: np.ndarray | None = None  # (R,) wall time
    placed: np.ndarray | None = None  # (R, K, N) bool; None: the system places every piece
    confidence: Confidence | None = None  # of the only assembly, where R = K = 1
    model: str | None = None  # what was used, where it is chosen by the pieces


class AnswerSource(Protocol):
    """A system that assembles puzzles."""

    def settings(self) -> dict[str, Any]:
        """Everything that its answers depend on besides the puzzles, as JSON knows it."""

    def answers(self, puzzles: Iterable[ScatteredPuzzle]) -> Iterator[Answer]:
        """One answer for every puzzle, in their order."""
