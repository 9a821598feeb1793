"""The velocity that arrangements of the pieces ask for, at any poses (ours).

In: `Arrangements` of every puzzle. Out: a velocity of every piece, with what the rest of the network says.

Had a puzzle the arrangements A_k with the probabilities p_k, the velocity to learn at poses g and time tau would be
sum_k p(k | g, tau) v_k. The v_k lead straight to A_k in the time that is left, and are known; the weights are learned,
and so is what to do where no arrangement is right. A sample thus follows one of several ways in which pieces may fit.

That no arrangement is right has a weight of its own, and samples that go with it go nowhere in particular. They may
instead be drawn boldly: from the density to the power b, which prefers sharp guesses to likely ones. A guess of mass m
that fills a volume V then has the mass m^b V^(1-b), up to a factor, and an arrangement fills much less than the rest.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from eda.lie import SE3, so3
from eda.lie.precision import full_precision
from eda.nn.arrangements import Arrangements, Judges
from eda.nn.evidence import evidence_width
from eda.nn.proposals import Motions
from eda.segment import ranges, segment_max, segment_sum

HIDDEN_WIDTH = 64
LEAST_TIME = 0.02  # that is held to be left
# The logarithm of how many times the volume of a motion all others fill: (12 turns by 10 degrees, 10 steps) cubed. An
# arrangement has one motion less than pieces.
ALL_OTHERS = 3 * math.log(12 * 10)
RIGHT_TURN = math.radians(20)  # by which a motion may be off and yet be right
RIGHT_PLACE = 0.25  # in units of the puzzle's size
# In units of the puzzle's size: two pieces are not to move against each other by more than twice this in a unit of
# time, nor to turn by more than half a turn.
FAR = 3.0


class MotionPath(nn.Module):
    """Weighs the arrangements of a puzzle at the poses that its pieces have, and what the rest of the network says."""

    def __init__(self, mates: bool) -> None:
        super().__init__()
        # What speaks for a motion, and how far it is in angle and distance. Not the time: one that a sample is late for
        # would seem impossible, and the sample would stop on the way.
        self.judge = _weighing(evidence_width(mates) + 2)
        # Of pieces that no motion joins: scans that lie on each other without a match are judged as if one did.
        self.beside = _weighing(evidence_width(mates)) if mates else None
        self.none = nn.Parameter(torch.zeros(1))

    @property
    def judges(self) -> Judges:
        """What speaks for how two pieces lie, wherever they are now."""
        return Judges(self._joined, self._beside)

    def _joined(self, evidence: Tensor) -> Tensor:
        return self.judge(nn.functional.pad(evidence, (0, 2))).squeeze(-1)

    def _beside(self, evidence: Tensor) -> Tensor:
        return self._joined(evidence) if self.beside is None else self.beside(evidence).squeeze(-1)

    def forward(
        self, arrangements: Arrangements, poses: SE3, tau: Tensor, velocity: Tensor, boldness: float = 1.0
    ) -> Tensor:
        """poses (N,) and velocity (N, 6) of every piece, the latter as the rest says; tau (B,) -> (N, 6)."""
        puzzle, count = ranges(arrangements.counts), len(arrangements.counts)
        way = ways(arrangements, poses)  # (N, H, 6)
        turned, moved = distances(arrangements, poses)  # (Q, H) each
        far = torch.maximum(turned, moved) * arrangements.both
        farthest = segment_max(far, puzzle[arrangements.first], count)
        time = torch.maximum(farthest, (1 - tau).clamp(min=LEAST_TIME)[:, None])
        way = torch.where(arrangements.placed[..., None], way / time[puzzle][..., None], velocity[:, None])
        logit = boldness * self._value(arrangements, turned, moved)
        others = (arrangements.counts - 1).to(logit.dtype)[:, None] * ALL_OTHERS
        logit = (logit + (boldness - 1) * others).masked_fill(~arrangements.holds, -torch.inf)
        none = (boldness * self.none).expand(count, 1)
        weight = torch.cat([logit, none], dim=1).softmax(1)[puzzle]  # (N, H + 1)
        return (weight[..., None] * torch.cat([way, velocity[:, None]], dim=1)).sum(1)

    def _value(self, arrangements: Arrangements, turned: Tensor, moved: Tensor) -> Tensor:
        """How likely arrangements are, (B, H): a sum over joints, of which there is one less than pieces, and over how
        all others come to lie.
        """
        known = torch.cat([arrangements.evidence, turned[..., None], moved[..., None]], dim=-1)
        value = torch.where(
            arrangements.joined, self.judge(known).squeeze(-1), self._beside(arrangements.evidence) * arrangements.both
        )
        return segment_sum(value, ranges(arrangements.counts)[arrangements.first], len(arrangements.counts))


def _weighing(width: int) -> nn.Sequential:
    """A small network that makes one number of `width`."""
    inner = [nn.Linear(width, HIDDEN_WIDTH), nn.SiLU(), nn.Linear(HIDDEN_WIDTH, HIDDEN_WIDTH), nn.SiLU()]
    return nn.Sequential(*inner, nn.Linear(HIDDEN_WIDTH, 1))


@full_precision
def judging_loss(
    judges: Judges, proposed: list[Motions], arrangements: Arrangements, solution: SE3, own: Tensor | None = None
) -> Tensor:
    """How badly motions are judged, which the solution (N,) says are right or wrong: cross-entropies in nats.

    Of all that were proposed, and of how pieces that were not joined came to lie in arrangements. Right and wrong ones
    count alike, however many there are. Pieces that are not the puzzle's `own` (N,) have no right place.
    """
    first, second = arrangements.first, arrangements.second
    true = solution[second].inverse() @ solution[first]
    center = arrangements.centers[first]
    known = torch.ones_like(first, dtype=torch.bool) if own is None else own[first] & own[second]
    right, begin = [], 0
    for motions in proposed:
        rows = slice(begin, begin + len(motions.holds))
        right.append((is_right(motions.motion, true[rows], center[rows]) & known[rows, None])[motions.holds])
        begin = rows.stop
    value = judges.joined(torch.cat([motions.evidence[motions.holds] for motions in proposed]))
    lying = arrangements.both & ~arrangements.joined
    lies_right = is_right(arrangements.motion, true, center) & known[:, None]
    return _balanced(value, torch.cat(right)) + _balanced(
        judges.beside(arrangements.evidence[lying]), lies_right[lying]
    )


def is_right(motion: SE3, true: SE3, center: Tensor) -> Tensor:
    """(Q, K) which motions are about the true ones (Q,), of pieces with centres (Q, 3)."""
    wanted = true.reshape(-1, 1)
    turned = so3.angle(motion.rotation @ wanted.rotation.mT)
    moved = torch.linalg.vector_norm(motion.act(center[:, None]) - wanted.act(center[:, None]), dim=-1)
    return (turned < RIGHT_TURN) & (moved < RIGHT_PLACE)


def _balanced(value: Tensor, right: Tensor) -> Tensor:
    """The cross-entropy of right and of wrong ones, in equal parts; nothing of a kind that there is not."""
    loss = binary_cross_entropy_with_logits(value, right.to(value.dtype), reduction="none")
    of_right, of_wrong = ((loss * kind).sum() / kind.sum().clamp(min=1) for kind in (right, ~right))
    return (of_right + of_wrong) / 2


@torch.no_grad()
def ways(arrangements: Arrangements, poses: SE3) -> Tensor:
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
    way = so3.log(turn @ wanted.rotation @ poses.rotation.mT[:, None])
    return torch.cat([way, (turn @ there[..., None]).squeeze(-1) - here], dim=-1)


@torch.no_grad()
def distances(arrangements: Arrangements, poses: SE3) -> tuple[Tensor, Tensor]:
    """How far the pieces of every pair, at poses (N,), are from how they lie to each other in an arrangement: in half
    turns (Q, H), and in units of `FAR` (Q, H). Each piece goes half of it.
    """
    first, second = arrangements.first, arrangements.second
    here, there = poses[first].reshape(-1, 1), poses[second].reshape(-1, 1)
    whole = there @ arrangements.motion @ here.inverse()
    turn = so3.log(whole.rotation)
    center = poses.act(arrangements.centers)
    apart = whole.act(center[first][:, None]) - center[second][:, None]
    apart = (so3.exp(-turn / 2) @ apart[..., None]).squeeze(-1)
    going = (apart - (center[first] - center[second])[:, None]) / 2
    return torch.linalg.vector_norm(turn / math.pi, dim=-1), torch.linalg.vector_norm(going / FAR, dim=-1)
