"""The whole assembler as a source of answers: samples, refined, scored and pooled, of which it returns the best."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from eda.assembly import AssembleConfig, assemble
from eda.evaluate.answers import Answer, Confidence
from eda.evaluate.scatter import ScatteredPuzzle
from eda.lie import SE3
from eda.model import Eda


@dataclass(frozen=True)
class AssemblerAnswers:
    """The best assembly of `eda.assemble`. With `anchored`, the largest piece is pinned at its true place."""

    model: Eda | str | None = None  # or a name, a file or "none"; None: chosen by the pieces of each puzzle
    config: AssembleConfig = field(default_factory=AssembleConfig)
    device: str = "cpu"
    anchored: bool = False

    def settings(self) -> dict[str, Any]:
        """How hard the assembler tries, and the model that it is told to use."""
        settings = self.config.as_dict()
        seed = settings.pop("seed")
        model = "a model of your own" if isinstance(self.model, Eda) else self.model or "chosen by the pieces"
        return {"assembler": {"model": model, **settings}, "seed": seed}

    def answers(self, puzzles: Iterable[ScatteredPuzzle]) -> Iterator[Answer]:
        """One puzzle after the other."""
        for puzzle in puzzles:
            pins = {puzzle.anchor: puzzle.solution[puzzle.anchor].matrix().numpy()} if self.anchored else None
            began = time.perf_counter()
            found = assemble(
                puzzle.clouds(),
                puzzle.normals(),
                pins=pins,  # type: ignore[arg-type]
                model=self.model,
                device=self.device,
                config=self.config,
            )
            seconds, best = time.perf_counter() - began, found.best
            poses = fill_unplaced(SE3.from_matrix(torch.from_numpy(best.poses)), best.placed)
            yield Answer(
                puzzle,
                poses.reshape(1, 1, -1),
                np.array([seconds]),
                best.placed[None, None],
                Confidence(best.probability, best.confidence, best.joints),
                found.model,
            )


def fill_unplaced(poses: SE3, placed: np.ndarray) -> SE3:
    """Poses (N,) in which every unplaced piece is turned as it was given, in the middle of the placed ones.

    Given pieces are turned at random, so an unplaced piece counts like a random guess.
    """
    known = torch.from_numpy(placed)
    middle = poses.translation[known].mean(dim=0) if bool(known.any()) else torch.zeros_like(poses.translation[0])
    unmoved = SE3.identity(len(poses), dtype=poses.rotation.dtype)
    stand_in = SE3(unmoved.rotation, middle.expand(len(poses), 3))
    return poses.where(known, stand_in)
