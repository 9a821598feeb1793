"""P_0 of Sec. 4.2: where the flow begins."""

from collections.abc import Iterable

import torch

from eda.errors import InputError
from eda.lie import SE3, so3
from eda.pieces import Pieces, Puzzle, center_poses


def sample_noise(
    pieces: Pieces, noise_std: float, *, samples: int = 1, generator: torch.Generator | None = None
) -> SE3:
    """`samples` draws from P_0 = (U_SO(3) x N(0, noise_std^2))^N, centred per puzzle. -> (samples, N).

    The rotations are Haar, so P_0 is invariant under rotations of single pieces and of the whole (Assumption 4.3).
    """
    shape, points = (samples, pieces.num_pieces), pieces.points
    device = generator.device if generator is not None else points.device
    rotation = so3.random(*shape, generator=generator, dtype=points.dtype, device=device)
    translation = torch.randn(*shape, 3, generator=generator, dtype=points.dtype, device=device) * noise_std
    draws = SE3(rotation, translation).to(points.device)
    return SE3.stack([center_poses(draws[k], pieces) for k in range(samples)])


def fit_noise_std(puzzles: Iterable[Puzzle]) -> float:
    """sqrt(omega), such that the pieces of noise, once centred, lie as far apart as those of the solved puzzles.

    Centring takes one piece's worth of freedom from a puzzle of N, so squares are divided by 3 (N - 1).
    """
    squares, count = 0.0, 0
    for puzzle in puzzles:
        translation = center_poses(puzzle.solution, puzzle.pieces).act(puzzle.pieces.centroids())
        squares += float(translation.to(torch.float64).square().sum())
        count += 3 * (puzzle.pieces.num_pieces - puzzle.pieces.num_puzzles)
    if not count:
        raise InputError("no puzzles to fit the noise to")
    return (squares / count) ** 0.5
