"""P_0 of Sec. 4.2: where the flow begins. `NOISES` has the paper's, and those that users register."""

from collections.abc import Iterable
from typing import Protocol

import torch

from eda.errors import InputError
from eda.lie import SE3, so3
from eda.pieces import Pieces, Puzzle, center_poses
from eda.registry import register


class Noise(Protocol):
    """A distribution P_0 of poses. Training and sampling draw from the same one, which the model's config names.

    Assumption 4.3 asks that P_0 does not change when single pieces or the whole are turned. Only then are the samples
    of an equivariant network equivariant. Nothing enforces it.
    """

    def __call__(
        self, pieces: Pieces, noise_std: float, *, samples: int = 1, generator: torch.Generator | None = None
    ) -> SE3:
        """`samples` draws for the N pieces, in units of `pieces.points` and on their device. -> (samples, N).

        noise_std: the spread in the model's config. generator: the only source of chance; None is torch's own.
        """
        ...


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


NOISES: dict[str, Noise] = {"haar_gaussian": sample_noise}


def register_noise(name: str, noise: Noise) -> None:
    """Give a noise a name, by which configs and model files find it. Raises `InputError` where it is taken."""
    register(NOISES, "noise", name, noise)


def fit_noise_std(puzzles: Iterable[Puzzle]) -> float:
    """sqrt(omega) at which noise, once centred, spreads the pieces as far as the solutions of these puzzles do.

    Centring removes the degrees of freedom of one piece, so the squares of a puzzle of N are divided by 3 (N - 1).
    """
    squares, count = 0.0, 0
    for puzzle in puzzles:
        translation = center_poses(puzzle.solution, puzzle.pieces).act(puzzle.pieces.centroids())
        squares += float(translation.to(torch.float64).square().sum())
        count += 3 * (puzzle.pieces.num_pieces - puzzle.pieces.num_puzzles)
    if not count:
        raise InputError("no puzzles to fit the noise to")
    return (squares / count) ** 0.5
