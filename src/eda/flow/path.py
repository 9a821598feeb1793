"""The training path h_X: short and equivariant (Sec. 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from eda.lie import SE3, so3
from eda.segment import segment_sum


def rotation_correction(noise: SE3, solution: SE3, puzzle: Tensor, num_puzzles: int) -> Tensor:
    """r* = argmin_r |r g~_1 - g_0|_F^2, eq. (6): one rotation per puzzle. Poses (N,), puzzle (N,) -> (B, 3, 3).

    |r g~_1 - g_0|^2 is a constant minus 2 <r, sum_i R_0 R_1^T + t_0 t_1^T>: a Procrustes problem.
    """
    products = (
        noise.rotation @ solution.rotation.mT + noise.translation[..., :, None] * solution.translation[..., None, :]
    )
    return so3.nearest(segment_sum(products, puzzle, num_puzzles))


@dataclass(frozen=True)
class Path:
    """h_X(tau) = exp(tau log(g_1 g_0^-1)) g_0, eq. (7), from `noise` g_0 to `target` g_1 = r* g~_1, each (N,)."""

    noise: SE3
    target: SE3

    @staticmethod
    def generated_by(
        noise: SE3,
        solution: SE3,
        puzzle: Tensor,
        num_puzzles: int,
        own: Tensor | None = None,
        turn: Tensor | None = None,
    ) -> Path:
        """The path from g_0 to r* g~_1, or to r g~_1 for a given `turn` r (B, 3, 3) of every puzzle.

        Pieces that do not belong to the puzzle (`own` (N,) is False) have no target: they stay where they are.
        """
        if turn is None:
            counted = slice(None) if own is None else own
            turn = rotation_correction(noise[counted], solution[counted], puzzle[counted], num_puzzles)
        target = SE3(turn[puzzle], torch.zeros_like(solution.translation)) @ solution
        return Path(noise, target if own is None else target.where(own, noise))

    @cached_property
    def twist(self) -> Tensor:
        """The spatial velocity log(g_1 g_0^-1), the same all along the path. (N, 6)."""
        return (self.target @ self.noise.inverse()).log()

    def at(self, tau: Tensor) -> SE3:
        """The poses at tau (N,)."""
        return SE3.exp(tau[:, None] * self.twist) @ self.noise
