"""The velocity that motions by which pieces may fit ask for, at any poses (ours).

In: `Motions` of every pair of pieces. Out: a velocity of every piece, with what the rest of the network says.

Had a pair the motions M_k with the probabilities p_k, the velocity to learn at poses g and time tau would be
sum_k p(k | g, tau) v_k. The v_k lead straight to M_k in the time that is left, and are known; the weights are learned,
and so is what to do where no motion is right. A sample thus follows one of several ways in which pieces may fit.

That no motion is right has a weight of its own, and samples that go with it go nowhere in particular. They may instead
be drawn boldly: from the density to the power b, which prefers sharp guesses to likely ones. A guess of mass m that
fills a volume V then has the mass m^b V^(1-b), up to a factor, and a motion fills much less than all the rest.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from eda.lie import SE3, so3
from eda.nn.evidence import EVIDENCE
from eda.nn.proposals import Motions
from eda.segment import segment_softmax, segment_sum

HIDDEN_WIDTH = 64
LEAST_TIME = 0.02  # that is held to be left
# The logarithm of how many times the volume of a motion all others fill: (12 turns by 10 degrees, 10 steps) cubed.
ALL_OTHERS = 3 * math.log(12 * 10)
FAR = 3.0  # in units of the puzzle's size: no piece is to move faster, nor to turn by more than half a turn


class MotionPath(nn.Module):
    """Weighs the motions of all pairs at the poses that pieces have, and what the rest of the network says."""

    def __init__(self) -> None:
        super().__init__()
        # What speaks for a motion, and how far it is in angle and distance. Not the time: one that a sample is late for
        # would seem impossible, and the sample would stop on the way.
        self.judge = nn.Sequential(
            nn.Linear(EVIDENCE + 2, HIDDEN_WIDTH),
            nn.SiLU(),
            nn.Linear(HIDDEN_WIDTH, HIDDEN_WIDTH),
            nn.SiLU(),
            nn.Linear(HIDDEN_WIDTH, 1),
        )
        self.none = nn.Parameter(torch.zeros(1))

    def forward(self, motions: Motions, poses: SE3, tau: Tensor, velocity: Tensor, boldness: float = 1.0) -> Tensor:
        """poses (N,) and tau (N,) of every piece, velocity (N, 6) of the rest -> (N, 6)."""
        first, second = motions.first, motions.second
        way, turned, moved = toward(motions, poses)  # (Q, K, 6), (Q, K) in half turns, (Q, K) in units of FAR
        left = (1 - tau[first]).clamp(min=LEAST_TIME)[:, None]
        known = torch.cat([motions.evidence, turned[..., None], moved[..., None]], dim=-1)
        logit = boldness * self.judge(known).squeeze(-1) + (boldness - 1) * ALL_OTHERS
        logit = logit.masked_fill(~motions.holds, -torch.inf)
        fastest = way / torch.maximum(torch.maximum(turned, moved), left)[..., None]
        return _mixed(first, second, logit, fastest, boldness * self.none.expand(len(velocity)), velocity)


def toward(motions: Motions, poses: SE3) -> tuple[Tensor, Tensor, Tensor]:
    """How the first piece of a pair gets to where each motion wants it, (w, u) of shape (Q, K, 6); the second goes the
    opposite way. Also how far that is: in half turns (Q, K), and in units of `FAR`.

    Both pieces go half of it, and their middle stays, as on the path of training: r* does the same to two pieces whose
    translations vanish.
    """
    here, there = poses[motions.first], poses[motions.second]
    whole = there.reshape(-1, 1) @ motions.motion @ here.inverse().reshape(-1, 1)
    turn = so3.log(whole.rotation)
    center = poses.act(motions.centers)
    apart = whole.act(center[motions.first][:, None]) - center[motions.second][:, None]
    apart = (so3.exp(-turn / 2) @ apart[..., None]).squeeze(-1)
    going = (apart - (center[motions.first] - center[motions.second])[:, None]) / 2
    turned, moved = (torch.linalg.vector_norm(v, dim=-1) for v in (turn / math.pi, going / FAR))
    return torch.cat([turn / 2, going], dim=-1), turned, moved


def _mixed(first: Tensor, second: Tensor, logit: Tensor, way: Tensor, none: Tensor, velocity: Tensor) -> Tensor:
    """A mean, for every piece, over the motions of all its pairs (Q, K) and the rest's velocity (N, 6)."""
    count, num_motions = len(velocity), logit.shape[1]
    pieces = torch.cat([first, second]).repeat_interleave(num_motions)
    group = torch.cat([pieces, torch.arange(count, device=pieces.device)])
    weight = segment_softmax(torch.cat([logit.flatten(), logit.flatten(), none]), group, count)
    ways = torch.cat([way.flatten(0, 1), -way.flatten(0, 1), velocity])
    return segment_sum(ways * weight[:, None], group, count)
