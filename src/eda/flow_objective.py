"""The loss of the flow, eq. (2), and beside it that of a synchronising field.

In: a puzzle, noise for some draws of it, and its field. Out: the loss of the paper, on the path from the noise to the
solution, and how far a synchronising field misses the solution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from eda.field import EncodedEda, VelocityField
from eda.flow import TAU_SAMPLERS, Path
from eda.flow.loss import Loss, flow_loss
from eda.lie import SE3, so3
from eda.model_config import EdaConfig
from eda.nn import synchronisation_loss
from eda.pieces import Puzzle

MOST_OWN_STEPS = 3  # of Euler, by which training reaches states of the model's own samples

FieldOf = Callable[[int], VelocityField]  # the field of so many copies of the pieces


@dataclass(frozen=True)
class Draws:
    """Copies of a puzzle, each with noise and a time of its own, and the paths from the noise to the solution."""

    solution: SE3  # (N,)
    path: Path
    tau: Tensor  # (B,)
    puzzle: Tensor  # (N,) the copy of every piece
    own: Tensor  # (N,) bool, which pieces belong to their puzzle

    @staticmethod
    def of(
        puzzle: Puzzle, noise: SE3, config: EdaConfig, own: Tensor | None, generator: torch.Generator | None
    ) -> Draws:
        """From noise (draws, N)."""
        draws = noise.shape[0]
        pieces, count = puzzle.pieces, draws * puzzle.pieces.num_puzzles
        starts = torch.arange(draws, device=pieces.counts.device)[:, None] * pieces.num_puzzles
        copy = (starts + pieces.puzzle_of_piece).flatten()
        tau = TAU_SAMPLERS[config.tau_sampler](count, generator).to(pieces.points)
        solution = SE3.cat([puzzle.solution] * draws)
        turn = so3.random(count, generator=generator).to(noise.rotation) if config.no_correction else None
        belongs = None if own is None else own.repeat(draws)
        path = Path.generated_by(noise.reshape(-1), solution, copy, count, belongs, turn)
        every = torch.ones_like(copy, dtype=torch.bool)
        return Draws(solution, path, tau, copy, every if belongs is None else belongs)

    @property
    def poses(self) -> SE3:
        """(N,) the states of the path."""
        return self.path.at(self.tau[self.puzzle])

    def loss(self, field: VelocityField, velocity: Tensor, poses: SE3, first: int, weight: float) -> Loss:
        """Eq. (2) of velocities (N, 6) at poses (N,), of the `first` copies."""
        counted = self.own & (self.puzzle < first)
        wanted = field.center_velocity(self.path.twist, poses)
        return flow_loss(velocity[counted], wanted[counted], self.puzzle[counted], first, weight)


def path_loss(draws: Draws, field_of: FieldOf, copies: int, weight: float) -> Loss:
    """The paper's loss, with this `weight` of translations."""
    field, poses = field_of(copies), draws.poses
    return draws.loss(field, field.velocities(poses, draws.tau), poses, len(draws.tau), weight)


def losses_of_both_paths(
    draws: Draws, field_of: FieldOf, copies: int, weight: float, generator: torch.Generator | None
) -> tuple[Loss, Tensor]:
    """The paper's loss of the Croco path, and that of the synchronising field, of a network that has one.

    The second half of the copies begins, in place of a state of the path, at one that the model's own samples reach:
    what lies near is near there because the field put it there, not because it belongs there. Only the synchronising
    field learns from those.
    """
    field, poses, on_path = field_of(copies), draws.poses, (copies + 1) // 2
    first = len(draws.tau) // copies * on_path
    if on_path < copies:
        sampled = draws.puzzle >= first
        steps = int(torch.randint(1, MOST_OWN_STEPS + 1, (1,), generator=generator))
        reached = follow(field_of(copies - on_path), draws.path.noise[sampled], draws.tau[first:], steps)
        poses = SE3.cat([poses[~sampled], reached])
    velocities = field.velocities
    assert isinstance(velocities, EncodedEda)
    relation, graph = velocities.relation(poses, draws.tau)
    assert graph is not None
    losses = [synchronisation_loss(graph, each, draws.solution, draws.own) for each in relation.rounds]
    return draws.loss(field, relation.plain, poses, first, weight), torch.stack(losses).mean()


@torch.no_grad()
def follow(field: VelocityField, poses: SE3, tau: Tensor, steps: int) -> SE3:
    """Where the field brings poses (N,) from tau = 0 to tau (B,), in Euler steps."""
    each = tau / steps
    for number in range(steps):
        poses = SE3.exp(each[field.puzzle][:, None] * field(poses, number * each)) @ poses
    return poses.polish()
