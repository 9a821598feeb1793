"""The finish: the best assemblies refined from coarse to fine, and judged at both scales.

What polishing leaves undone is of two kinds. Few points settle a pose only roughly: here, many are asked where the
pieces meet. And along some directions a joint hardly resists, such as a turn of a neck about its own axis: there the
score is asked a little further away on both sides, and a better place is taken.

No step leaves a better judged pose for a worse one. The judge is the mean of the scores at the scale of the evidence
and at that of the detail, so worn breaks, which never touch at the finer scale, are still told apart at the coarser.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eda.assembly.contact.detail import Detail
from eda.assembly.contact.evidence import Evidence
from eda.assembly.search.assemblies import Assemblies
from eda.assembly.search.refine import RefineConfig, linearize, refine
from eda.budget import Budget, Stage
from eda.registration.rigid import move_about

# From the coarse scale, on which the assemblies were found, to the fine one.
CLOSE = RefineConfig(first_radius=0.1, steps=8, first_slide=0.05, last_slide=0.01, most_points=500)
# Of the directions in which joints resist, the weakest that are tried, how far the farthest point moves, in units of
# the puzzle's size.
DIRECTIONS, SHIFTS = 2, (-0.2, -0.08, 0.08, 0.2)
# Directions that resist more than this share of the mean need no trial: refining finds the best place along them.
WEAK = 0.02
# The motions of the whole, which nothing resists.
FREE = 6


@dataclass(frozen=True)
class _Scales:
    """The same pieces at two scales."""

    coarse: Evidence
    fine: Evidence

    def judge(self, poses: np.ndarray, placed: np.ndarray) -> Assemblies:
        """Assemblies of the mean score at both."""
        every, close = Assemblies.of(self.coarse, poses, placed), Assemblies.of(self.fine, poses, placed)
        return replace(every, score=(every.score + close.score) / 2)

    def refine(self, before: Assemblies) -> Assemblies:
        """Refined to the fine scale; those that this makes worse are left as they are."""
        return before.or_better(self.judge(refine(self.fine, before.poses, before.placed, CLOSE), before.placed))


def finish(evidence: Evidence, found: Assemblies, detail: Detail, count: int, budget: Budget) -> Assemblies:
    """The best `count` of some assemblies, refined with all the detail there is, and the best of them slid into place.

    If the time is over, they are as they were.
    """
    budget.report(Stage.FINISH, 0.0)
    found = found.best(evidence, count)
    if budget.exhausted or not len(found):
        return found
    scales = _Scales(evidence, detail.near_joints(evidence, found.poses, found.placed))
    refined = scales.refine(scales.judge(found.poses, found.placed))
    order = np.argsort(-refined.score, kind="stable")
    best, others = refined[order[:1]], refined[order[1:]]
    budget.report(Stage.FINISH, 0.5)
    return Assemblies.cat([best if budget.exhausted else _slide(scales, best), others])


def _slide(scales: _Scales, best: Assemblies) -> Assemblies:
    """An assembly (K = 1), or a better one: moved along a direction in which it hardly resists, and refined."""
    moved = _slides(scales, best)
    if not len(moved):
        return best
    placed = np.broadcast_to(best.placed, moved.shape[:2])
    tried = scales.refine(scales.judge(moved, placed))
    return best.or_better(tried[[int(tried.score.argmax())]])


def _slides(scales: _Scales, best: Assemblies) -> np.ndarray:
    """(M, N, 4, 4) an assembly moved both ways along every weak direction of its joints."""
    (placed,), fragments = best.placed, scales.fine.fragments
    JTJ, _, centers = linearize(scales.fine, best.poses, best.placed, 2 * scales.coarse.spacing, CLOSE)
    rows = np.flatnonzero(np.repeat(placed, 6))
    strength, directions = np.linalg.eigh(JTJ[0][np.ix_(rows, rows)])
    weak = [k for k in range(FREE, len(rows)) if strength[k] < WEAK * strength.mean()][:DIRECTIONS]
    radius = np.array([fragment.radius for fragment in fragments])
    moved = [best.poses[:0]]
    for k in weak:
        twist = np.zeros(6 * len(placed))
        twist[rows] = directions[:, k]
        twists = twist.reshape(1, -1, 6)
        reach = np.linalg.norm(twists[0, :, :3], axis=1) * radius + np.linalg.norm(twists[0, :, 3:], axis=1)
        moved += [move_about(best.poses, centers, twists * (shift / reach.max())) for shift in SHIFTS]
    return np.concatenate(moved)
