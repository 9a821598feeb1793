"""How far an assembly is from the truth. Every function names its convention."""

from __future__ import annotations

import torch
from torch import Tensor

from eda.lie import SE3, so3
from eda.pieces import Pieces
from eda.segment import segment_mean


def pairwise_geodesic(predicted: SE3, solution: SE3, pieces: Pieces) -> tuple[Tensor, Tensor]:
    """The paper's error (Sec. 6.1), per puzzle: degrees and distance, means over ordered pairs i != j. -> (B,), (B,).

    For a pair, (dr, dt) compares the true pose of i with the one that the prediction implies when j is put in its
    true place, g^_j g_j^-1 g_i. A motion of the whole does not change it. Angles are by atan2: arccos of a trace
    cannot tell 0 from 0.02 degrees in float32.
    """
    puzzle = pieces.puzzle_of_piece
    first, second = (
        (puzzle[:, None] == puzzle) & ~torch.eye(len(puzzle), dtype=torch.bool, device=puzzle.device)
    ).nonzero(as_tuple=True)
    implied = solution[second] @ predicted[second].inverse() @ predicted[first]
    true = solution[first]
    degrees = torch.rad2deg(so3.angle(implied.rotation @ true.rotation.mT))
    distance = torch.linalg.vector_norm(implied.translation - true.translation, dim=-1)
    group = puzzle[first]
    return segment_mean(degrees, group, pieces.num_puzzles), segment_mean(distance, group, pieces.num_puzzles)
