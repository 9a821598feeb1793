"""How the surfaces of two scans come to lie on each other, point by point, and where they would rather lie (ours).

In: the `Surface` of two pieces and motions (K,) of the first to the second. Out: motions nearby by which the surfaces
agree (`settled`), and numbers that say how well they do (`agreement`).

Places that are matched are few and far between, so a motion that was fitted to them is off by some degrees, and one
that is right looks little better than one that is wrong. On all points the difference shows. Nothing here depends on
the sign of a normal, on which of the two pieces comes first, or on learned weights; no gradient passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from eda.lie import SE3

AGREEMENT = 12  # numbers that `agreement` gives
AGREES = 1  # which of these is the share of points that are near and parallel
# What these usually are, and how they vary, among motions that were proposed for pairs of rooms: a judge learns faster
# from numbers of about one.
USUAL = (-1.5, -2.8, -2.3, -3.5, 0.45, 0.7, 0.35, -3.0, -1.9, -7.6, -6.7, -6.0)
SPREAD = (0.4, 0.9, 0.5, 1.0, 0.12, 0.12, 0.2, 0.9, 0.9, 1.2, 1.1, 1.1)
# In units of the points' spacing:
REACHES = (1.7, 1.7, 1.0, 1.0, 1.0, 1.0)  # of what is near, step by step of settling
NEAR, CLOSE = 1.0, 0.5  # of what is judged
FARTHEST = 3.0  # where one looks for the nearest point
STIFFNESS = 1e-3  # per point: what keeps a motion where nothing pulls at it
LEAST_SHARE = 1e-3
LEAST_HOLD = 1e-5


@dataclass(frozen=True)
class Surface:
    """The points of a piece in its own frame, in float64."""

    points: Tensor  # (m, 3)
    normals: Tensor  # (m, 3) of any sign; zero where there are none, and then nothing settles
    spacing: float  # typical distance of the points

    @cached_property
    def tree(self) -> cKDTree:
        """To look for the nearest point."""
        return cKDTree(self.points.cpu().numpy())

    def nearest(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Distance (...) and row (...) of the nearest point; infinite, and any row, where none is within reach."""
        gap, row = self.tree.query(points.cpu().numpy(), distance_upper_bound=FARTHEST * self.spacing)
        found = np.where(np.isfinite(gap), row, 0)
        return torch.from_numpy(gap).to(points.device), torch.from_numpy(found).to(points.device)


@dataclass(frozen=True)
class _Met:
    """Every point of both pieces (K, n) and the nearest of the other, where a motion brings them."""

    gap: Tensor  # (K, n) how far that is; infinite where there is none
    middle: Tensor  # (K, n, 3) between the two
    plane: Tensor  # (K, n, 3) the normal at the nearest
    height: Tensor  # (K, n) by which the first piece is too low over that plane
    parallel: Tensor  # (K, n) how parallel the normals of the two are, from 0 to 1

    def near(self, reach: float) -> Tensor:
        """(K, n) from one at no distance to zero beyond reach."""
        return torch.exp(-self.gap.square() / (2 * reach**2))


def _met(here: Surface, there: Surface, motion: SE3) -> _Met:
    moved, turned = _act(motion, here.points), here.normals @ motion.rotation.mT
    gap, row = there.nearest(moved)
    back_gap, back_row = here.nearest(_act(motion.inverse(), there.points))
    back = back_row[..., None].expand(-1, -1, 3)
    first = torch.cat([moved, moved.gather(1, back)], dim=1)
    second = torch.cat([there.points[row], there.points.expand(len(back), -1, -1)], dim=1)
    plane = torch.cat([there.normals[row], turned.gather(1, back)], dim=1)
    other = torch.cat([turned, there.normals.expand(len(back), -1, -1)], dim=1)
    return _Met(
        gap=torch.cat([gap, back_gap], dim=1),
        middle=(first + second) / 2,
        plane=plane,
        height=((second - first) * plane).sum(-1),
        parallel=(plane * other).sum(-1).abs(),
    )


def _act(motion: SE3, points: Tensor) -> Tensor:
    """Motions (K,) of points (m, 3). -> (K, m, 3)."""
    return points @ motion.rotation.mT + motion.translation[:, None]


@torch.no_grad()
def settled(here: Surface, there: Surface, motion: SE3) -> SE3:
    """Motions (K,) after some steps by which the surfaces come to lie in each other's planes."""
    for reach in REACHES:
        met = _met(here, there, motion)
        weight = met.near(reach * here.spacing) * met.parallel**2
        center, pull = _pulling(met, weight)
        total = weight.sum(1)[:, None, None]
        stiff = STIFFNESS * (1 + total) * torch.eye(6, dtype=total.dtype, device=total.device)
        wanted = pull.mT @ (weight * met.height)[..., None]
        step = SE3.exp(torch.linalg.solve(pull.mT @ (weight[..., None] * pull) + stiff, wanted).squeeze(-1))
        about = SE3(torch.eye(3, dtype=total.dtype, device=total.device).expand(len(center), 3, 3), center)
        motion = about @ step @ about.inverse() @ motion
    return motion.polish()


def _pulling(met: _Met, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The middle (K, 3) of what meets, and by which twist about it points leave their planes (K, n, 6)."""
    center = (weight[..., None] * met.middle).sum(1) / weight.sum(1).clamp(min=1e-12)[:, None]
    arm = torch.linalg.cross(met.middle - center[:, None], met.plane)
    return center, torch.cat([arm, met.plane], dim=-1)


@torch.no_grad()
def agreement(here: Surface, there: Surface, motion: SE3) -> Tensor:
    """(K, 12): the logs of the shares of points that come near the other surface and close to it, and that are
    parallel to it there; of what is near, how far it is from the other's plane, how parallel, and which share is so;
    the logs of how normals of what agrees spread in the second and third of their directions, and how little the
    surfaces could slide: by the three twists that they would resist least.
    """
    met = _met(here, there, motion)
    near, close = (met.near(reach * here.spacing) for reach in (NEAR, CLOSE))
    alike = met.parallel**8
    shares = [torch.log(some.mean(1) + LEAST_SHARE) for some in (near, near * alike, close, close * alike)]
    total = near.sum(1).clamp(min=1)
    means = [(near * of).sum(1) / total for of in (met.height.abs() / here.spacing, met.parallel, alike)]
    weight = near * alike
    _, pull = _pulling(met, weight)
    resisted = pull.mT @ (weight[..., None] * pull)
    spread = torch.linalg.eigvalsh(resisted[:, 3:, 3:] / weight.sum(1).clamp(min=1)[:, None, None])[:, :2]
    sliding = torch.linalg.eigvalsh(resisted / near.shape[1])[:, :3]
    holds = [torch.log(spread.clamp(min=0) + LEAST_SHARE), torch.log(sliding.clamp(min=0) + LEAST_HOLD)]
    return torch.cat([torch.stack([*shares, *means], dim=-1), *holds], dim=-1)
