"""Arrangements: poses of all pieces of a puzzle, from the hypotheses of its pairs.

In: `PairHypotheses`, and scores of what speaks for them. Out: `Arrangements`, found once per puzzle.

Two pieces are arranged by every hypothesis for them. Of more, a beam search begins with the best pairs and adds piece
by piece: a piece joins another by one of their hypotheses, and then lies somehow beside all the rest, which is scored
otherwise, since most pieces of a puzzle do not touch. The search is discrete: no gradient passes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from eda.lie import SE3
from eda.registration.beam_search import beam_search
from eda.registration.hypotheses import SAME_ROTATION, PairHypotheses
from eda.registration.suppression import has_better_duplicate
from eda.segment import ranges, segment_sum

Search = Literal["beam", "greedy", "none"]  # greedy: one arrangement goes on, one joint is tried; none: no arrangements
BEAM = 12  # arrangements that go on
JOINTS = 6  # joints that are tried of each: the best by the joint alone
EXAMINED = 3  # in multiples of the beam: arrangements that are looked at for those that differ

Score = Callable[[Tensor], Tensor]  # features (..., F) -> (...), the more the better


@dataclass(frozen=True)
class PairScores:
    """How well the features of a pair speak for its pose."""

    joint: Score  # where a hypothesis joins the two
    neighbor: Score  # where they came to lie beside each other


@dataclass(frozen=True)
class Arrangements:
    """H arrangements of every puzzle of a batch; pieces and pairs of all puzzles one after the other."""

    poses: SE3  # (N, H) of every piece; frames mean nothing beyond one arrangement
    placed: Tensor  # (N, H) which pieces it places at all
    valid: Tensor  # (B, H) which are arrangements, and not padding
    first: Tensor  # (Q,) a piece
    second: Tensor  # (Q,) a later one of the same puzzle
    is_joint: Tensor  # (Q, H) whether the two were joined by a hypothesis of their own; else they came to lie so
    features: Tensor  # (Q, H, F) what speaks for how the two lie
    counts: Tensor  # (B,) pieces of each puzzle
    centers: Tensor  # (N, 3) of the pieces, in their own frames

    @property
    def T_second_first(self) -> SE3:  # noqa: N802
        """(Q, H) the pose of the first piece of a pair in the frame of the second."""
        return self.poses[self.second].inverse() @ self.poses[self.first]

    @property
    def both_placed(self) -> Tensor:
        """(Q, H) which pairs of pieces are placed."""
        return self.placed[self.first] & self.placed[self.second] & self.valid[ranges(self.counts)[self.first]]

    @staticmethod
    def cat(batch: list[Arrangements]) -> Arrangements:
        """Several batches as one; those with fewer arrangements are padded."""
        most = max(one.valid.shape[1] for one in batch)
        offsets = [0, *itertools.accumulate(len(one.centers) for one in batch)]
        wide = [one._padded(most) for one in batch]
        return Arrangements(
            poses=SE3.cat([one.poses for one in wide]),
            placed=torch.cat([one.placed for one in wide]),
            valid=torch.cat([one.valid for one in wide]),
            first=torch.cat([one.first + start for one, start in zip(wide, offsets, strict=False)]),
            second=torch.cat([one.second + start for one, start in zip(wide, offsets, strict=False)]),
            is_joint=torch.cat([one.is_joint for one in wide]),
            features=torch.cat([one.features for one in wide]),
            counts=torch.cat([one.counts for one in wide]),
            centers=torch.cat([one.centers for one in wide]),
        )

    def _padded(self, count: int) -> Arrangements:
        """With copies of the first, which are not valid; of none, with ones that place nothing."""
        missing = count - self.valid.shape[1]
        if not missing:
            return self
        column = torch.arange(count, device=self.valid.device)
        column = torch.where(column < self.valid.shape[1], column, 0)
        return replace(
            self,
            poses=self.poses[:, column],
            placed=self.placed[:, column],
            valid=self.valid[:, column] & (torch.arange(count, device=column.device) < self.valid.shape[1]),
            is_joint=self.is_joint[:, column],
            features=self.features[:, column],
        )


@torch.no_grad()
def arrange(hypotheses: PairHypotheses, centers: Tensor, scores: PairScores, search: Search = "beam") -> Arrangements:
    """The arrangements of one puzzle, whose pieces have their centres at (N, 3); the best first where it has many."""
    first, second = hypotheses.scorer.matches.first, hypotheses.scorer.matches.second
    if len(centers) == 2:
        hypotheses = hypotheses if search == "beam" else _best_hypothesis(hypotheses, scores)
        still = SE3.identity(hypotheses.valid.shape[1], dtype=centers.dtype, device=centers.device)
        poses, valid = SE3.stack([hypotheses.T_second_first[0], still]), hypotheses.valid
        features, placed, is_joint = hypotheses.features, torch.ones_like(valid).expand(2, -1), torch.ones_like(valid)
    else:
        found = _BeamSearch(hypotheses, centers, scores, greedy=search == "greedy").run()
        poses = SE3(found.poses.rotation.transpose(0, 1), found.poses.translation.transpose(0, 1))
        placed, is_joint = found.placed.T, found.is_joint.T
        valid = placed.any(0, keepdim=True)
        pairs = torch.arange(len(first), device=first.device)
        features = hypotheses.scorer.features(pairs, poses[second].inverse() @ poses[first])
    counts = torch.tensor([len(centers)], device=centers.device)
    return Arrangements(poses, placed, valid, first, second, is_joint, features, counts, centers)


def _best_hypothesis(hypotheses: PairHypotheses, scores: PairScores) -> PairHypotheses:
    """The best hypothesis of every pair, alone."""
    score = scores.joint(hypotheses.features).masked_fill(~hypotheses.valid, -torch.inf)
    row, best = torch.arange(len(score), device=score.device)[:, None], score.argmax(1, keepdim=True)
    return replace(
        hypotheses,
        T_second_first=hypotheses.T_second_first[row, best],
        valid=hypotheses.valid[row, best],
        features=hypotheses.features[row, best],
    )


@dataclass(frozen=True)
class _Beam:
    """S arrangements of some of a puzzle's pieces."""

    poses: SE3  # (S, N)
    placed: Tensor  # (S, N)
    is_joint: Tensor  # (S, Q) which pairs were joined by a hypothesis of their own
    score: Tensor  # (S,) the sum over pairs of placed pieces

    def __getitem__(self, rows: Tensor | slice) -> _Beam:
        return _Beam(self.poses[rows], self.placed[rows], self.is_joint[rows], self.score[rows])

    def with_piece(self, piece: Tensor, pose: SE3) -> _Beam:
        """With a piece (S,) more, at a pose (S,)."""
        row = torch.arange(len(piece), device=piece.device)
        rotation = self.poses.rotation.index_put((row, piece), pose.rotation)
        translation = self.poses.translation.index_put((row, piece), pose.translation)
        return replace(self, poses=SE3(rotation, translation), placed=self.placed.scatter(1, piece[:, None], True))

    def with_joint(self, pair: Tensor, score: Tensor) -> _Beam:
        """With a pair (S,) joined, and then of another score (S,)."""
        return replace(self, is_joint=self.is_joint.scatter(1, pair[:, None], True), score=score)


class _BeamSearch:
    """Grows arrangements of one puzzle."""

    def __init__(self, hypotheses: PairHypotheses, centers: Tensor, scores: PairScores, *, greedy: bool) -> None:
        self.beam, self.joints = (1, 1) if greedy else (BEAM, JOINTS)
        self.T_second_first, self.scorer = hypotheses.T_second_first, hypotheses.scorer
        self.centers, self.scores = centers, scores
        self.first, self.second = self.scorer.matches.first, self.scorer.matches.second
        self.joint_score = scores.joint(hypotheses.features).masked_fill(~hypotheses.valid, -torch.inf)  # (Q, K)
        pairs = torch.arange(len(self.first), device=centers.device)
        self.pair = pairs.new_zeros(len(centers), len(centers))  # the pair of two pieces
        self.pair[self.first, self.second] = self.pair[self.second, self.first] = pairs

    def run(self) -> _Beam:
        """From the best pairs until all pieces are placed, or no hypothesis places another."""
        return beam_search(self._seed_beam(), self._expand_beam)[-1]

    def _seed_beam(self) -> _Beam:
        """The best pairs; if there is none, one arrangement that places nothing."""
        best, column = self.joint_score.flatten().topk(min(self.beam, self.joint_score.numel()))
        column, count = column[best.isfinite()], len(self.centers)
        empty = SE3.identity(1, count, dtype=self.centers.dtype, device=self.centers.device)
        nothing = torch.zeros(1, count + len(self.first), dtype=torch.bool, device=column.device)
        seeds = _Beam(empty, nothing[:, :count], nothing[:, count:], best.new_zeros(1))
        if not len(column):
            return seeds
        pair, which = column // self.joint_score.shape[1], column % self.joint_score.shape[1]
        seeds = seeds[torch.zeros_like(pair)].with_joint(pair, best[: len(pair)])
        seeds = seeds.with_piece(self.second[pair], empty[torch.zeros_like(pair), 0])
        return seeds.with_piece(self.first[pair], self.T_second_first[pair, which])

    def _expand_beam(self, beam: _Beam) -> _Beam | None:
        """With one piece more, in the best ways that differ. None: no piece can join."""
        has_first, has_second = beam.placed[:, self.first], beam.placed[:, self.second]
        joins = self.joint_score.masked_fill(~(has_first ^ has_second)[..., None], -torch.inf).flatten(1)  # (S, Q * K)
        best, column = joins.topk(min(self.joints, joins.shape[1]))
        state, rank = best.isfinite().nonzero(as_tuple=True)
        if not len(state):
            return None
        width = self.joint_score.shape[1]
        pair, which = column[state, rank] // width, column[state, rank] % width
        adds_first = has_second[state, pair]  # the first of the pair joins the second
        new = torch.where(adds_first, self.first[pair], self.second[pair])
        old = torch.where(adds_first, self.second[pair], self.first[pair])
        pose = beam.poses[state, old] @ _invert_unless(adds_first, self.T_second_first[pair, which])
        score = beam.score[state] + best[state, rank] + self._neighbor_score(beam, state, new, old, pose)
        score, order = score.topk(min(EXAMINED * self.beam, len(score)))
        grown = beam[state[order]].with_joint(pair[order], score).with_piece(new[order], pose[order])
        return grown[~self._duplicates(grown)][: self.beam]

    def _neighbor_score(self, beam: _Beam, state: Tensor, new: Tensor, old: Tensor, pose: SE3) -> Tensor:
        """(R,) the score of how new pieces (R,), at their poses, lie to all placed ones but those that they join."""
        others = beam.placed[state].scatter(1, old[:, None], False)
        row, piece = others.nonzero(as_tuple=True)
        relative = _invert_unless(new[row] < piece, beam.poses[state[row], piece].inverse() @ pose[row])
        features = self.scorer.features(self.pair[new[row], piece], relative.reshape(-1, 1))
        return segment_sum(self.scores.neighbor(features).squeeze(1), row, len(state))

    def _duplicates(self, beam: _Beam) -> Tensor:
        """(S,) which arrangements place the same pieces in the same way as a better one."""
        rotation, centers = beam.poses.rotation, beam.poses.act(self.centers)
        turns = (rotation.mT[:, :, None] @ rotation[:, None]).flatten(-2)  # (S, N, N, 9)
        offsets = ((centers[:, None] - centers[:, :, None])[..., None, :] @ rotation[:, :, None]).squeeze(-2)
        both_placed = beam.placed[:, :, None] & beam.placed[:, None]  # (S, N, N)
        same_pieces = (beam.placed[:, None] == beam.placed[None]).all(-1)
        cosine = ((turns[:, None] * turns[None]).sum(-1) - 1) / 2
        apart = torch.linalg.vector_norm(offsets[:, None] - offsets[None], dim=-1)
        near = (cosine > SAME_ROTATION) & (apart < self.scorer.matches.reach)
        alike = same_pieces & (near | ~both_placed[:, None]).flatten(2).all(-1)
        return has_better_duplicate(alike, beam.score)


def _invert_unless(condition: Tensor, motion: SE3) -> SE3:
    """Motions (R,) where the condition holds, elsewhere their inverses."""
    return motion.where(condition, motion.inverse())
