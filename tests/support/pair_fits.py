"""For tests of synchronisation: correspondences of pairs of pieces, and fits of puzzles whose solution is known."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields, replace

import torch
from support.oracles import haar_rotations
from support.rigid_motions import random_se3
from support.soft_matches import drawn
from torch import Tensor

from eda import SE3
from eda.registration.synchronize import PairFits

Poses = tuple[Tensor, Tensor]  # rotations (B, N, 3, 3) and places of centres (B, N, 3)

# -- correspondences ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edges:
    """Weighted correspondences of a batch of puzzles, in the form that `PairSums.of` takes."""

    weight: Tensor  # (E,)
    here: Tensor  # (E, 3)
    there: Tensor  # (E, 3)
    ends: list[tuple[int, int, int]]  # the puzzle of each, the piece that it begins at, and that it leads to
    shape: tuple[int, int]

    @property
    def slot(self) -> Tensor:
        return torch.tensor([(b * self.shape[1] + i) * self.shape[1] + j for b, i, j in self.ends])

    @property
    def sums(self) -> tuple[Tensor, Tensor, Tensor, Tensor, tuple[int, int]]:
        """The arguments of `PairSums.of`."""
        return self.weight, self.here, self.there, self.slot, self.shape

    def between(self, b: int, i: int, j: int) -> tuple[Tensor, Tensor, Tensor]:
        """Weights, places of i and places of j, whichever of them a correspondence begins at."""
        on = [e for e, ends in enumerate(self.ends) if ends == (b, i, j)]
        back = [e for e, ends in enumerate(self.ends) if ends == (b, j, i)]
        here = torch.cat([self.here[on], self.there[back]])
        return self.weight[on + back], here, torch.cat([self.there[on], self.here[back]])


def edges_of(batch: int, count: int, each: int, seed: int = 0) -> Edges:
    """`each` correspondences of every ordered pair, at places of no meaning, in any order."""
    ends = [(b, i, j) for b in range(batch) for i, j in itertools.permutations(range(count), 2) for _ in range(each)]
    ends = [ends[e] for e in torch.randperm(len(ends), generator=torch.Generator().manual_seed(seed)).tolist()]
    weight, here, there = drawn(len(ends), seed=seed).exp(), drawn(len(ends), 3, seed=seed + 1), None
    there = drawn(len(ends), 3, seed=seed + 2) + drawn(3, seed=seed + 3)
    return Edges(weight, here, there, ends, (batch, count))


def moved_by(edges: Edges, motion: SE3) -> Edges:
    """The same, but of every pair (i < j) the places of j are those of i, moved by one motion."""
    on = torch.tensor([i < j for _, i, j in edges.ends])[:, None]
    there = torch.where(on, motion.act(edges.here), motion.inverse().act(edges.here))
    return replace(edges, there=there)


# -- fits --------------------------------------------------------------------------------------------------


def poses_of(batch: int, count: int, seed: int = 0) -> Poses:
    poses = random_se3(batch * count, seed).reshape(batch, count)
    return poses.rotation, poses.translation


def near(poses: Poses, seed: int, size: float) -> Poses:
    """Every piece turned and shifted a little, by itself."""
    turn = SE3.exp(size * drawn(*poses[1].shape[:2], 6, seed=seed))
    return turn.rotation @ poses[0], poses[1] + turn.translation


def fits_to(truth: Poses, now: Poses, seed: int = 0) -> PairFits:
    """Where pieces now have places that coincide in the truth: one place of every pair, and the turn that is right."""
    batch, count = truth[1].shape[:2]
    meeting = drawn(batch, count, count, 3, seed=seed)
    meeting = meeting + meeting.transpose(1, 2)  # (i, j) and (j, i) meet at one place
    here = torch.einsum("bikl,biml,bijm->bijk", now[0], truth[0], meeting - truth[1][:, :, None])
    here = here + now[1][:, :, None]
    rotation = torch.einsum("bjkl,bjml,bimn,bion->bijko", now[0], truth[0], truth[0], now[0])
    size = torch.ones(batch, count, count, dtype=torch.float64)
    return PairFits(rotation, here, here.transpose(1, 2), 5 * size, size, 0 * size)


def any_fits(batch: int, count: int, seed: int = 0) -> PairFits:
    """Fits that contradict each other; (j, i) is the way back of (i, j)."""
    turn = haar_rotations(batch * count * count, seed).reshape(batch, count, count, 3, 3)
    upper = torch.ones(count, count).triu(1).bool()[..., None, None]
    here = drawn(batch, count, count, 3, seed=seed + 1)
    size = torch.ones(batch, count, count, dtype=torch.float64)
    rotation = torch.where(upper, turn, turn.transpose(1, 2).mT)
    return PairFits(rotation, here, here.transpose(1, 2), 5 * size, size, size)


def turned_fits(fits: PairFits, whole: SE3) -> PairFits:
    """The same, after one motion of all pieces."""
    turn = whole.rotation @ fits.rotation @ whole.rotation.mT
    return replace(fits, rotation=turn, here=whole.act(fits.here), there=whole.act(fits.there))


def reordered_fits(fits: PairFits, order: Tensor) -> PairFits:
    """Piece k is what was piece order[k]."""
    return PairFits(**{of.name: getattr(fits, of.name)[:, order][:, :, order] for of in fields(fits)})


def any_trust(batch: int, count: int, seed: int = 0) -> Tensor:
    trust = torch.sigmoid(drawn(batch, count, count, seed=seed))
    return (trust + trust.mT) * (1 - torch.eye(count, dtype=torch.float64))


def relative(poses: Poses) -> tuple[Tensor, Tensor]:
    """How pieces lie to each other, as each sees it: what no motion of the whole changes."""
    rotation, center = poses
    turn = torch.einsum("bikl,bjkm->bijlm", rotation, rotation)
    return turn, torch.einsum("bikl,bijk->bijl", rotation, center[:, None] - center[:, :, None])
