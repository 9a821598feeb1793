"""The velocity that arrangements of the pieces ask for, at any poses (ours).

In: `Arrangements` of every puzzle. Out: a velocity of every piece, together with what the rest of the network says.

Had a puzzle the arrangements A_k with the probabilities p_k, the velocity to learn at poses g and time tau would be
sum_k p(k | g, tau) v_k. The v_k lead straight to A_k in the time that is left, and are known; the weights are learned,
and so is what to do where no arrangement is right. A sample thus follows one of several ways in which pieces may fit.

That no arrangement is right has a weight of its own, and samples that go with it go nowhere in particular. `boldness`
is an inverse temperature: at b, samples are drawn from the density to the power b, which prefers sharp guesses to
likely ones. A guess of mass m that fills a volume V then has the mass m^b V^(1-b), up to a factor, and an arrangement
fills much less than the rest.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from eda.lie import SE3, so3
from eda.lie.precision import full_precision
from eda.registration.arrangements import Arrangements, PairScores
from eda.registration.hypotheses import PairHypotheses
from eda.registration.pair_scorer import num_features
from eda.segment import ranges, segment_max, segment_sum

HIDDEN_WIDTH = 64
MIN_TIME_LEFT = 0.02  # floor on 1 - tau
# The logarithm of how many times the volume of a relative pose all others fill: (12 turns by 10 degrees, 10 steps)
# cubed. An arrangement has one relative pose less than pieces.
LOG_VOLUME = 3 * math.log(12 * 10)
CORRECT_ANGLE = math.radians(20)  # by which a relative pose may be off and yet be right
CORRECT_DISTANCE = 0.25  # in units of the puzzle's size
# In units of the puzzle's size: two pieces are not to move against each other by more than twice this in a unit of
# time, nor to turn by more than half a turn.
MAX_SPEED = 3.0


class PoseField(nn.Module):
    """Weighs the arrangements of a puzzle at the poses that its pieces have, and what the rest of the network says."""

    def __init__(self, complementary: bool) -> None:
        super().__init__()
        # The features of a pair, and how far it is from its pose in angle and distance. Not the time: an arrangement
        # that a sample is late for would seem impossible, and the sample would stop on the way.
        self.judge = _score_head(num_features(complementary) + 2)
        # Of pieces that no hypothesis joins: scans that lie on each other without one are scored as if one did.
        self.beside = _score_head(num_features(complementary)) if complementary else None
        self.none = nn.Parameter(torch.zeros(1))

    @property
    def pair_scores(self) -> PairScores:
        """What speaks for how two pieces lie, wherever they are now."""
        return PairScores(self._joint_score, self._neighbor_score)

    def _joint_score(self, features: Tensor) -> Tensor:
        return self.judge(nn.functional.pad(features, (0, 2))).squeeze(-1)

    def _neighbor_score(self, features: Tensor) -> Tensor:
        return self._joint_score(features) if self.beside is None else self.beside(features).squeeze(-1)

    def forward(
        self, arrangements: Arrangements, poses: SE3, tau: Tensor, velocity: Tensor, boldness: float = 1.0
    ) -> Tensor:
        """poses (N,) and velocity (N, 6) of every piece, the latter as the rest says; tau (B,) -> (N, 6)."""
        puzzle, count = ranges(arrangements.counts), len(arrangements.counts)
        displacement = displacements(arrangements, poses)  # (N, H, 6)
        angle, distance = relative_distances(arrangements, poses)  # (Q, H) each
        far = torch.maximum(angle, distance) * arrangements.both_placed
        farthest = segment_max(far, puzzle[arrangements.first], count)
        time = torch.maximum(farthest, (1 - tau).clamp(min=MIN_TIME_LEFT)[:, None])
        toward = torch.where(arrangements.placed[..., None], displacement / time[puzzle][..., None], velocity[:, None])
        logit = boldness * self._log_weight(arrangements, angle, distance)
        volume = (arrangements.counts - 1).to(logit.dtype)[:, None] * LOG_VOLUME
        logit = (logit + (boldness - 1) * volume).masked_fill(~arrangements.valid, -torch.inf)
        none = (boldness * self.none).expand(count, 1)
        weight = torch.cat([logit, none], dim=1).softmax(1)[puzzle]  # (N, H + 1)
        return (weight[..., None] * torch.cat([toward, velocity[:, None]], dim=1)).sum(1)

    def _log_weight(self, arrangements: Arrangements, angle: Tensor, distance: Tensor) -> Tensor:
        """How likely arrangements are, (B, H): a sum over joints, of which there is one less than pieces, and over how
        all others come to lie.
        """
        seen = torch.cat([arrangements.features, angle[..., None], distance[..., None]], dim=-1)
        neighbors = self._neighbor_score(arrangements.features) * arrangements.both_placed
        score = torch.where(arrangements.is_joint, self.judge(seen).squeeze(-1), neighbors)
        return segment_sum(score, ranges(arrangements.counts)[arrangements.first], len(arrangements.counts))


def _score_head(width: int) -> nn.Sequential:
    """A small network that makes one number of `width`."""
    inner = [nn.Linear(width, HIDDEN_WIDTH), nn.SiLU(), nn.Linear(HIDDEN_WIDTH, HIDDEN_WIDTH), nn.SiLU()]
    return nn.Sequential(*inner, nn.Linear(HIDDEN_WIDTH, 1))


@full_precision
def hypothesis_loss(
    scores: PairScores,
    hypotheses: list[PairHypotheses],
    arrangements: Arrangements,
    solution: SE3,
    own: Tensor | None = None,
) -> Tensor:
    """How badly relative poses are scored, which the solution (N,) says are right or wrong: cross-entropies in nats.

    Of all hypotheses, and of how pieces that were not joined came to lie in arrangements. Right and wrong ones count
    alike, however many there are. Pieces that are not the puzzle's `own` (N,) have no right place.
    """
    first, second = arrangements.first, arrangements.second
    true = solution[second].inverse() @ solution[first]
    center = arrangements.centers[first]
    belong = torch.ones_like(first, dtype=torch.bool) if own is None else own[first] & own[second]
    correct, begin = [], 0
    for some in hypotheses:
        rows = slice(begin, begin + len(some.valid))
        right = is_correct(some.T_second_first, true[rows], center[rows]) & belong[rows, None]
        correct.append(right[some.valid])
        begin = rows.stop
    score = scores.joint(torch.cat([some.features[some.valid] for some in hypotheses]))
    neighbors = arrangements.both_placed & ~arrangements.is_joint
    right = is_correct(arrangements.T_second_first, true, center) & belong[:, None]
    return _balanced_cross_entropy(score, torch.cat(correct)) + _balanced_cross_entropy(
        scores.neighbor(arrangements.features[neighbors]), right[neighbors]
    )


def is_correct(T_second_first: SE3, true: SE3, center: Tensor) -> Tensor:
    """(Q, K) which relative poses are about the true ones (Q,), of pieces with centres (Q, 3)."""
    wanted = true.reshape(-1, 1)
    angle = so3.angle(T_second_first.rotation @ wanted.rotation.mT)
    moved = T_second_first.act(center[:, None]) - wanted.act(center[:, None])
    return (angle < CORRECT_ANGLE) & (torch.linalg.vector_norm(moved, dim=-1) < CORRECT_DISTANCE)


def _balanced_cross_entropy(score: Tensor, correct: Tensor) -> Tensor:
    """The cross-entropy of right and of wrong ones, in equal parts; nothing of a kind that there is not."""
    loss = binary_cross_entropy_with_logits(score, correct.to(score.dtype), reduction="none")
    of_right, of_wrong = ((loss * kind).sum() / kind.sum().clamp(min=1) for kind in (correct, ~correct))
    return (of_right + of_wrong) / 2


@torch.no_grad()
def displacements(arrangements: Arrangements, poses: SE3) -> Tensor:
    """How every piece gets from its pose (N,) to where an arrangement wants it: (w, u) of shape (N, H, 6), u of its
    centre. Arrangements are turned and shifted as a whole so that pieces turn little, and their middle stays.
    """
    puzzle, count = ranges(arrangements.counts), len(arrangements.counts)
    wanted, placed = arrangements.poses, arrangements.placed[..., None]
    apart = poses.rotation[:, None] @ wanted.rotation.mT * placed[..., None]
    turn = so3.nearest(segment_sum(apart.double(), puzzle, count)).to(apart.dtype)[puzzle]  # (N, H, 3, 3)
    here, there = poses.act(arrangements.centers)[:, None], wanted.act(arrangements.centers[:, None])
    total = segment_sum(placed.to(here.dtype), puzzle, count).clamp(min=1)
    here, there = (of - (segment_sum(of * placed, puzzle, count) / total)[puzzle] for of in (here, there))
    rotation = so3.log(turn @ wanted.rotation @ poses.rotation.mT[:, None])
    return torch.cat([rotation, (turn @ there[..., None]).squeeze(-1) - here], dim=-1)


@torch.no_grad()
def relative_distances(arrangements: Arrangements, poses: SE3) -> tuple[Tensor, Tensor]:
    """How far the pieces of every pair, at poses (N,), are from how they lie to each other in an arrangement: in half
    turns (Q, H), and in units of `MAX_SPEED` (Q, H). Each piece goes half of it.
    """
    first, second = arrangements.first, arrangements.second
    here, there = poses[first].reshape(-1, 1), poses[second].reshape(-1, 1)
    whole = there @ arrangements.T_second_first @ here.inverse()
    turn = so3.log(whole.rotation)
    center = poses.act(arrangements.centers)
    apart = whole.act(center[first][:, None]) - center[second][:, None]
    apart = (so3.exp(-turn / 2) @ apart[..., None]).squeeze(-1)
    shift = (apart - (center[first] - center[second])[:, None]) / 2
    return torch.linalg.vector_norm(turn / math.pi, dim=-1), torch.linalg.vector_norm(shift / MAX_SPEED, dim=-1)
