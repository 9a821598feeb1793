"""ScatteredPuzzle: an example as a system meets it, its pieces taken apart, and where they belong.

Every piece is moved to the origin and turned at random, by a seed, so that nothing in the input tells the answer, also
not to a system that is not equivariant. The same seed gives every system the same input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from eda.data import Example
from eda.errors import InputError
from eda.lie import SE3, so3
from eda.metrics import largest_piece
from eda.metrics.placement import move_clouds
from eda.pieces import Pieces


def generator_of(*words: int) -> torch.Generator:
    """A generator of its own for a few whole numbers, such as a seed and the number of a puzzle."""
    state = np.random.SeedSequence(words).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))


@dataclass(frozen=True)
class ScatteredPuzzle:
    """An example in assembled position and the motions that bring its pieces, as given, back there."""

    example: Example
    solution: SE3  # (N,) float64, given -> assembled; the origin of a given piece is the centroid of its points
    index: int  # the place in the source

    @staticmethod
    def of(example: Example, seed: int, index: int) -> ScatteredPuzzle:
        """The pieces turned by the draw that belongs to this seed and this place in the source."""
        if int(example.own.sum()) < 2:
            raise InputError(f"{example.name}: fewer than two pieces are of the object, so nothing can be scored")
        centers = np.stack([cloud.mean(axis=0, dtype=np.float64) for cloud in example.clouds()])
        turns = so3.random(example.num_pieces, generator=generator_of(seed, index, 0), dtype=torch.float64)
        return ScatteredPuzzle(example, SE3(turns, torch.from_numpy(centers)), index)

    @property
    def own(self) -> torch.Tensor:
        """(M,) the indices of the pieces whose place means something."""
        return torch.from_numpy(np.flatnonzero(self.example.own))

    @property
    def anchor(self) -> int:
        """The largest piece of the object."""
        clouds, own = self.example.clouds(), self.own.tolist()
        return own[largest_piece([clouds[i] for i in own])]

    def clouds(self, example: Example | None = None) -> list[np.ndarray]:
        """The pieces as given, in float64: all points, or those of the thinned example."""
        return move_clouds((example or self.example).clouds(), self.solution.inverse())

    def normals(self, example: Example | None = None) -> list[np.ndarray] | None:
        """Their normals, as given."""
        example = example or self.example
        if example.normals is None:
            return None
        turn = SE3(self.solution.rotation.mT, torch.zeros_like(self.solution.translation))
        return move_clouds(example.clouds(example.normals), turn)

    def pieces(self, budget: int, *, normals: bool = True) -> Pieces:
        """What a network is given: about `budget` points in all. `Pieces.to_user` makes its poses comparable."""
        thin = self.example.downsample(budget)
        return Pieces.from_clouds(self.clouds(thin), self.normals(thin) if normals else None)

    def dense_pieces(self, budget: int, *, normals: bool = True) -> Pieces:
        """All points, in the frames and the unit of `pieces(budget)`."""
        return self.pieces(budget, normals=normals).resample(self.clouds(), self.normals() if normals else None)


def scatter(examples: Iterable[Example], seed: int) -> Iterator[ScatteredPuzzle]:
    """Every example, numbered in the order in which they come."""
    for index, example in enumerate(examples):
        yield ScatteredPuzzle.of(example, seed, index)
