"""PairRegistration: the protocol of whatever finds the relative pose of two clouds, and how it is measured.

A new method is a class with one method, in a file of its own, and an entry in `eda.reproduce.baselines.METHODS`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from eda.cloud import estimate_normals
from eda.errors import InputError
from eda.evaluate import Answer, ScatteredPuzzle
from eda.lie import SE3
from eda.registration.icp import Surface, point_to_plane_icp
from eda.reproduce.baselines.spacing import thinned


class PairRegistration(Protocol):
    """Finds how a source lies to a target."""

    def register(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """T_target_source (4, 4) of clouds (n, 3) and (m, 3); the identity where nothing is found."""


@dataclass(frozen=True)
class WithIcp:
    """A method whose answer is refined by point-to-plane ICP on all points."""

    method: PairRegistration

    def register(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """T_target_source (4, 4)."""
        first = self.method.register(source, target)
        refined = point_to_plane_icp(_surface(source), _surface(target), first[None])
        return np.asarray(refined[0])


def _surface(cloud: np.ndarray) -> Surface:
    points, spacing = thinned(cloud)
    return Surface(points, estimate_normals(points), spacing)


@dataclass(frozen=True)
class PairAnswers:
    """A method as a source of answers to puzzles of two pieces."""

    method: PairRegistration

    def settings(self) -> dict[str, Any]:
        """The method, which has no others."""
        return {"method": repr(self.method), "seed": 0}

    def answers(self, puzzles: Iterable[ScatteredPuzzle]) -> Iterator[Answer]:
        """One puzzle after the other; the target stays where it is."""
        for puzzle in puzzles:
            clouds = puzzle.clouds()
            if len(clouds) != 2:
                raise InputError(f"{puzzle.example.name}: {len(clouds)} pieces, but these baselines register pairs")
            began = time.perf_counter()
            motion = self.method.register(*clouds)
            seconds = time.perf_counter() - began
            poses = SE3.from_matrix(torch.from_numpy(np.stack([motion, np.eye(4)])))
            yield Answer(puzzle, poses.reshape(1, 1, 2), np.array([seconds]))
