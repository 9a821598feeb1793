"""Whole arrangements of a puzzle, from the motions by which its pieces may fit two by two (ours).

In: `Motions` of every pair of pieces, and judges of what speaks for them. Out: `Arrangements`, found once per puzzle.

Two pieces are arranged by every motion that was proposed for them. Of more, the best pairs are begun with, and grow
piece by piece: a piece joins another by one of their motions, and then lies somehow beside all the rest, which is
judged otherwise, since most pieces of a puzzle do not touch. Only the best of those that differ go on (a beam). The
search is discrete: no gradient passes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from eda.lie import SE3
from eda.nn.proposals import SAME_TURN, Motions
from eda.segment import ranges, segment_sum

Search = Literal["beam", "greedy", "none"]  # greedy: one arrangement goes on, one joint is tried
BEAM = 12  # arrangements that go on
JOINTS = 6  # ways to join that are tried of each: the best by the joint alone
EXAMINED = 3  # in multiples of the beam: arrangements that are looked at for those that differ

Judge = Callable[[Tensor], Tensor]  # evidence (..., E) -> (...), the more the better


@dataclass(frozen=True)
class Judges:
    """What speaks for a motion by which two pieces are to be joined, and for how two others come to lie."""

    joined: Judge
    beside: Judge


@dataclass(frozen=True)
class Arrangements:
    """H arrangements of every puzzle of a batch; pieces and pairs of all puzzles one after the other."""

    poses: SE3  # (N, H) of every piece; frames mean nothing beyond one arrangement
    placed: Tensor  # (N, H) which pieces it places at all
    holds: Tensor  # (B, H) which are arrangements, and not padding
    first: Tensor  # (Q,) a piece
    second: Tensor  # (Q,) a later one of the same puzzle
    joined: Tensor  # (Q, H) whether the two were joined by a motion of their own; else they came to lie as they do
    evidence: Tensor  # (Q, H, E) what speaks for how the two lie
    counts: Tensor  # (B,) pieces of each puzzle
    centers: Tensor  # (N, 3) of the pieces, in their own frames

    @property
    def motion(self) -> SE3:
        """(Q, H) from the own frame of the first piece of a pair to that of the second."""
        return self.poses[self.second].inverse() @ self.poses[self.first]

    @property
    def both(self) -> Tensor:
        """(Q, H) which pairs of pieces are placed."""
        return self.placed[self.first] & self.placed[self.second] & self.holds[ranges(self.counts)[self.first]]

    @staticmethod
    def cat(batch: list[Arrangements]) -> Arrangements:
        """Several batches as one; those with fewer arrangements are padded."""
        most = max(one.holds.shape[1] for one in batch)
        offsets = [0, *itertools.accumulate(len(one.centers) for one in batch)]
        wide = [one._padded(most) for one in batch]
        return Arrangements(
            poses=SE3.cat([one.poses for one in wide]),
            placed=torch.cat([one.placed for one in wide]),
            holds=torch.cat([one.holds for one in wide]),
            first=torch.cat([one.first + start for one, start in zip(wide, offsets, strict=False)]),
            second=torch.cat([one.second + start for one, start in zip(wide, offsets, strict=False)]),
            joined=torch.cat([one.joined for one in wide]),
            evidence=torch.cat([one.evidence for one in wide]),
            counts=torch.cat([one.counts for one in wide]),
            centers=torch.cat([one.centers for one in wide]),
        )

    def _padded(self, count: int) -> Arrangements:
        """With copies of the first, which do not hold; of none, with ones that place nothing."""
        missing = count - self.holds.shape[1]
        if not missing:
            return self
        column = torch.arange(count, device=self.holds.device)
        column = torch.where(column < self.holds.shape[1], column, 0)
        return replace(
            self,
            poses=self.poses[:, column],
            placed=self.placed[:, column],
            holds=self.holds[:, column] & (torch.arange(count, device=column.device) < self.holds.shape[1]),
            joined=self.joined[:, column],
            evidence=self.evidence[:, column],
        )


@torch.no_grad()
def arrange(motions: Motions, centers: Tensor, judges: Judges, search: Search = "beam") -> Arrangements:
    """The arrangements of one puzzle, whose pieces have their centres at (N, 3); the best first where it has many."""
    first, second = motions.known.matches.first, motions.known.matches.second
    if len(centers) == 2:
        motions = motions if search == "beam" else _best_motion(motions, judges)
        still = SE3.identity(motions.motion.shape[1], dtype=centers.dtype, device=centers.device)
        poses, holds, evidence = SE3.stack([motions.motion[0], still]), motions.holds, motions.evidence
        placed, joined = torch.ones_like(holds).expand(2, -1), torch.ones_like(holds)
    else:
        found = _Search(motions, centers, judges, search == "greedy").grown()
        poses = SE3(found.poses.rotation.transpose(0, 1), found.poses.translation.transpose(0, 1))
        placed, joined = found.placed.T, found.joined.T
        holds = placed.any(0, keepdim=True)
        every = torch.arange(len(first), device=first.device)
        evidence = motions.known.evidence(every, poses[second].inverse() @ poses[first])
    counts = torch.tensor([len(centers)], device=centers.device)
    return Arrangements(poses, placed, holds, first, second, joined, evidence, counts, centers)


def _best_motion(motions: Motions, judges: Judges) -> Motions:
    """The best motion of every pair, alone."""
    value = judges.joined(motions.evidence).masked_fill(~motions.holds, -torch.inf)
    row, best = torch.arange(len(value), device=value.device)[:, None], value.argmax(1, keepdim=True)
    return replace(
        motions, motion=motions.motion[row, best], holds=motions.holds[row, best], evidence=motions.evidence[row, best]
    )


@dataclass(frozen=True)
class _Grown:
    """S arrangements of some of a puzzle's pieces."""

    poses: SE3  # (S, N)
    placed: Tensor  # (S, N)
    joined: Tensor  # (S, Q) which pairs by a motion of their own
    value: Tensor  # (S,) the sum over pairs of placed pieces

    def __getitem__(self, rows: Tensor | slice) -> _Grown:
        return _Grown(self.poses[rows], self.placed[rows], self.joined[rows], self.value[rows])

    def with_piece(self, piece: Tensor, pose: SE3) -> _Grown:
        """With a piece (S,) more, at a pose (S,)."""
        row = torch.arange(len(piece), device=piece.device)
        rotation = self.poses.rotation.index_put((row, piece), pose.rotation)
        translation = self.poses.translation.index_put((row, piece), pose.translation)
        return replace(self, poses=SE3(rotation, translation), placed=self.placed.scatter(1, piece[:, None], True))

    def with_joint(self, pair: Tensor, value: Tensor) -> _Grown:
        """With a pair (S,) joined, and then of another value (S,)."""
        return replace(self, joined=self.joined.scatter(1, pair[:, None], True), value=value)


class _Search:
    """Grows arrangements of one puzzle."""

    def __init__(self, motions: Motions, centers: Tensor, judges: Judges, greedy: bool = False) -> None:
        self.beam, self.joints = (1, 1) if greedy else (BEAM, JOINTS)
        self.motion, self.known, self.centers, self.judges = motions.motion, motions.known, centers, judges
        self.first, self.second = self.known.matches.first, self.known.matches.second
        self.value = judges.joined(motions.evidence).masked_fill(~motions.holds, -torch.inf)  # (Q, K)
        every = torch.arange(len(self.first), device=centers.device)
        self.pair = every.new_zeros(len(centers), len(centers))  # the pair of two pieces
        self.pair[self.first, self.second] = self.pair[self.second, self.first] = every

    def grown(self) -> _Grown:
        """From the best pairs until all pieces are placed, or no motion places another."""
        found = self._begun()
        for _ in range(len(self.centers) - 2):
            more = self._joined(found)
            if more is None:
                break
            found = more
        return found

    def _begun(self) -> _Grown:
        """The best pairs; if there is none, one arrangement that places nothing."""
        best, column = self.value.flatten().topk(min(self.beam, self.value.numel()))
        column, count = column[best.isfinite()], len(self.centers)
        empty = SE3.identity(1, count, dtype=self.centers.dtype, device=self.centers.device)
        nothing = torch.zeros(1, count + len(self.first), dtype=torch.bool, device=column.device)
        begun = _Grown(empty, nothing[:, :count], nothing[:, count:], best.new_zeros(1))
        if not len(column):
            return begun
        pair, way = column // self.value.shape[1], column % self.value.shape[1]
        begun = begun[torch.zeros_like(pair)].with_joint(pair, best[: len(pair)])
        begun = begun.with_piece(self.second[pair], empty[torch.zeros_like(pair), 0])
        return begun.with_piece(self.first[pair], self.motion[pair, way])

    def _joined(self, found: _Grown) -> _Grown | None:
        """With one piece more, in the best ways that differ. None: no piece can join."""
        here, there = found.placed[:, self.first], found.placed[:, self.second]
        by_joint = self.value.masked_fill(~(here ^ there)[..., None], -torch.inf).flatten(1)  # (S, Q * K)
        best, column = by_joint.topk(min(self.joints, by_joint.shape[1]))
        state, rank = best.isfinite().nonzero(as_tuple=True)
        if not len(state):
            return None
        pair, way = column[state, rank] // self.value.shape[1], column[state, rank] % self.value.shape[1]
        joins = there[state, pair]  # the first of the pair, to the second
        new = torch.where(joins, self.first[pair], self.second[pair])
        old = torch.where(joins, self.second[pair], self.first[pair])
        pose = found.poses[state, old] @ _forward(self.motion[pair, way], joins)
        value = found.value[state] + best[state, rank] + self._beside(found, state, new, old, pose)
        value, order = value.topk(min(EXAMINED * self.beam, len(value)))
        more = found[state[order]].with_joint(pair[order], value).with_piece(new[order], pose[order])
        return more[~self._repeats(more)][: self.beam]

    def _beside(self, found: _Grown, state: Tensor, new: Tensor, old: Tensor, pose: SE3) -> Tensor:
        """What speaks for how new pieces (R,), at their poses, lie to all placed ones but those that they join."""
        others = found.placed[state].scatter(1, old[:, None], False)
        row, piece = others.nonzero(as_tuple=True)
        relative = _forward(found.poses[state[row], piece].inverse() @ pose[row], new[row] < piece)
        worth = self.judges.beside(self.known.evidence(self.pair[new[row], piece], relative.reshape(-1, 1))).squeeze(1)
        return segment_sum(worth, row, len(state))

    def _repeats(self, found: _Grown) -> Tensor:
        """(S,) which arrangements place the same pieces in the same way as one before them."""
        rotation, centers = found.poses.rotation, found.poses.act(self.centers)
        turns = (rotation.mT[:, :, None] @ rotation[:, None]).flatten(-2)  # (S, N, N, 9)
        ways = ((centers[:, None] - centers[:, :, None])[..., None, :] @ rotation[:, :, None]).squeeze(-2)
        together = found.placed[:, :, None] & found.placed[:, None]  # (S, N, N)
        alike = (found.placed[:, None] == found.placed[None]).all(-1)
        cosine = ((turns[:, None] * turns[None]).sum(-1) - 1) / 2
        apart = torch.linalg.vector_norm(ways[:, None] - ways[None], dim=-1)
        near = (cosine > SAME_TURN) & (apart < self.known.matches.reach)
        same = alike & (near | ~together[:, None]).flatten(2).all(-1)
        return same.tril(-1).any(-1)


def _forward(motion: SE3, forward: Tensor) -> SE3:
    """Motions (R,), or their inverses where they do not go forward."""
    return motion.where(forward, motion.inverse())
