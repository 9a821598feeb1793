"""Samples of the flow: assemblies drawn by the network, and the relative poses in them as proposals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from eda.assembly.contact.detail import Detail
from eda.assembly.proposals.proposer import Pair, PairProposer, Problem, Proposals
from eda.budget import Budget, Stage
from eda.flow import Trajectory
from eda.flow.solver import Progress as SolverProgress
from eda.lie import SE3
from eda.model import Eda
from eda.piece_encoding import Encoding
from eda.pieces import Pieces
from eda.registration.rigid import relative_poses

# More samples in one batch take no less time each, and the limits of memory and time are met less well.
SAMPLES_AT_ONCE = 8


@dataclass(frozen=True)
class FlowSamples:
    """Proposes what was sampled."""

    accuracy: Literal["rough", "close"]  # what samples of such pieces are

    def propose(self, problem: Problem, budget: Budget) -> PairProposer:
        """The relative poses in all samples."""

        def of_pair(pair: Pair) -> Proposals:
            poses = relative_poses(problem.samples, pair)
            return Proposals(rough=poses) if self.accuracy == "rough" else Proposals(close=poses)

        return of_pair


@dataclass(frozen=True)
class Sampler:
    """Draws assemblies of pieces that were encoded once, some at a time."""

    model: Eda
    encoding: Encoding
    steps: int
    rounds: int
    solver: str

    def sample(self, count: int, generator: torch.Generator, noise: SE3 | None, budget: Budget) -> Trajectory:
        """Poses (S+1, count, N), or fewer samples when the budget is exhausted; what was begun is finished."""
        parts: list[Trajectory] = []
        for first in range(0, count, SAMPLES_AT_ONCE):
            if parts and budget.exhausted:
                break
            rows = range(first, min(first + SAMPLES_AT_ONCE, count))
            some = None if noise is None else noise[rows.start : rows.stop]
            parts.append(self._batch(rows, count, generator, some, budget))
        return side_by_side(parts)

    def _batch(
        self, rows: range, count: int, generator: torch.Generator, noise: SE3 | None, budget: Budget
    ) -> Trajectory:
        def report(at: SolverProgress) -> None:
            done = rows.start + len(rows) * float(at.tau.mean()) / self.rounds
            budget.report(Stage.SAMPLE, done / count)

        budget.report(Stage.SAMPLE, rows.start / count)
        return self.model.trajectory(
            self.encoding,
            len(rows),
            steps=self.steps,
            rounds=self.rounds,
            solver=self.solver,
            noise=noise,
            generator=generator,
            callback=report,
        )


@dataclass(frozen=True)
class Resampler:
    """Draws assemblies of pieces that were merged from others."""

    model: Eda
    samples: int
    steps: int
    rounds: int
    solver: str
    seed: int

    def __call__(self, detail: Detail, budget: Budget) -> np.ndarray:
        """Poses (K, N, 4, 4) of the pieces in the frames of their points."""
        weight = next(self.model.parameters())
        dense = Pieces.from_clouds(detail.points, detail.normals, dtype=weight.dtype, device=weight.device)
        encoding = self.model.encode(self.model.focus(dense))
        sampler = Sampler(self.model, encoding, self.steps, self.rounds, self.solver)
        found = sampler.sample(self.samples, torch.Generator().manual_seed(self.seed), None, budget).final
        poses = found.to(device="cpu", dtype=torch.float64).polish()  # the network's rounding
        return dense.to(device="cpu").to_user(poses).matrix().numpy()


def side_by_side(parts: Sequence[Trajectory]) -> Trajectory:
    """Samples of the same pieces as one batch; those that took fewer steps stay at their end."""
    steps = max(len(part.taus) for part in parts)
    rows = [torch.arange(steps).clamp(max=len(part.taus) - 1) for part in parts]
    poses = [part.poses[index] for part, index in zip(parts, rows, strict=True)]
    return Trajectory(
        torch.cat([part.taus[index] for part, index in zip(parts, rows, strict=True)], dim=1),
        SE3(torch.cat([p.rotation for p in poses], dim=1), torch.cat([p.translation for p in poses], dim=1)),
    )
