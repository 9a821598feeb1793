"""The paper's error: how every piece lies with respect to every other, blind to motions of the whole."""

from __future__ import annotations

import torch
from torch import Tensor

from eda.lie import SE3, so3
from eda.pieces import Pieces
from eda.segment import segment_mean

# A puzzle is solved when a person would call it so: what is left is a matter of the last polish.
SOLVED_DEGREES, SOLVED_DISTANCE = 10.0, 0.05


def pairwise_geodesic(predicted: SE3, solution: SE3, pieces: Pieces) -> tuple[Tensor, Tensor]:
    """The paper's error (Sec. 6.1), per puzzle: degrees and distance, means over ordered pairs i != j. -> (B,), (B,).

    For a pair, (dr, dt) compares the true pose of i with the one that the prediction implies when j is put in its
    true place, g^_j g_j^-1 g_i. A motion of the whole does not change it. Angles are by atan2: arccos of a trace
    cannot tell 0 from 0.02 degrees in float32.
    """
    return _errors(predicted, solution, pieces.puzzle_of_piece, pieces.num_puzzles)


def pairwise_errors(predicted: SE3, solution: SE3) -> tuple[float, float]:
    """`pairwise_geodesic` of the poses (N,) of one puzzle, in the units of their translations."""
    degrees, distance = _errors(predicted, solution, torch.zeros(len(solution), dtype=torch.int64), 1)
    return float(degrees), float(distance)


def relative_errors(predicted: SE3, solution: SE3) -> tuple[Tensor, Tensor]:
    """Degrees and distance (N, N): how far piece j is off when piece i is put in its true place. -> [i, j]."""
    implied = (solution @ predicted.inverse()).reshape(-1, 1) @ predicted.reshape(1, -1)
    degrees = torch.rad2deg(so3.angle(implied.rotation @ solution.rotation.mT))
    return degrees, torch.linalg.vector_norm(implied.translation - solution.translation, dim=-1)


def is_solved(degrees: float, distance: float, size: float) -> bool:
    """Pairwise errors below 10 degrees and 5 % of the puzzle's size (`Pieces.scales`)."""
    return degrees < SOLVED_DEGREES and distance < SOLVED_DISTANCE * size


def _errors(predicted: SE3, solution: SE3, puzzle: Tensor, num_puzzles: int) -> tuple[Tensor, Tensor]:
    """Means over the ordered pairs of pieces of the same puzzle; puzzle (N,)."""
    first, second = (
        (puzzle[:, None] == puzzle) & ~torch.eye(len(puzzle), dtype=torch.bool, device=puzzle.device)
    ).nonzero(as_tuple=True)
    implied = solution[second] @ predicted[second].inverse() @ predicted[first]
    true = solution[first]
    degrees = torch.rad2deg(so3.angle(implied.rotation @ true.rotation.mT))
    distance = torch.linalg.vector_norm(implied.translation - true.translation, dim=-1)
    group = puzzle[first]
    return segment_mean(degrees, group, num_puzzles), segment_mean(distance, group, num_puzzles)
