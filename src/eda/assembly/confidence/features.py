"""Features of joints, pieces and assemblies that say whether they are right; calibrations weigh their columns.

The names of the columns stand beside them. A further observation of `AssemblyStats` is a further column here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eda.assembly.confidence.joint_gap import WIDEST, joint_gap
from eda.assembly.confidence.stats import AssemblyStats
from eda.assembly.contact.evidence import Evidence
from eda.registration.rigid import relative_poses

# Of a piece: the worst one of an assembly counts.
BAD_IF_SMALL, BAD_IF_LARGE = ("gain", "contacts", "used"), ("gap",)
FEATURES = {
    "joint": ("quality", "contacts", "used", "worse piece", "score", "margin", "support", "gap"),
    "piece": ("gain", "quality", "contacts", "used", "score", "margin", "support", "placed", "gap"),
    "assembly": ("score", "support", "margin", *BAD_IF_SMALL, *BAD_IF_LARGE, "pieces"),
    "kind": ("broken", "doubtful"),
}

ON_BREAK = 0.5  # the probability from which a point counts as on a break
DOUBTFUL = (0.1, 0.9)  # and those between which a detector that knows such breaks seldom is
LEAST_SHARE = 1e-3  # of points on breaks that counts as none


@dataclass(frozen=True)
class Features:
    """The features of K assemblies of N pieces."""

    stats: AssemblyStats

    def joints(self) -> np.ndarray:
        """(K, N, N, F), symmetric in the pieces."""
        scores = self.stats.scores
        contacts = np.log1p(scores.good + scores.good.swapaxes(1, 2))
        worse = np.minimum(scores.pieces[:, :, None], scores.pieces[:, None])
        whole = (np.broadcast_to(v[:, None, None], worse.shape) for v in (scores.score, self.stats.margin))
        return np.stack([self._quality, contacts, self._used, worse, *whole, self.stats.support, self._gap], axis=-1)

    def pieces(self) -> np.ndarray:
        """(K, N, F); of a piece's joints the best counts, which is that of the highest quality."""
        scores, placed = self.stats.scores, self.stats.placed
        best = self._quality.argmax(axis=2)[:, :, None]
        of_joints = (self.stats.support, self._quality, self._gap)
        support, quality, gap = (np.take_along_axis(values, best, 2)[:, :, 0] for values in of_joints)
        good = scores.good.sum(axis=2)
        used = (good / self.stats.evidence.masses).clip(max=1)
        whole = (scores.score, self.stats.margin, placed.mean(axis=1))
        score, margin, share = (np.broadcast_to(values[:, None], placed.shape) for values in whole)
        return np.stack([scores.pieces, quality, np.log1p(good), used, score, margin, support, share, gap], axis=-1)

    def assemblies(self) -> np.ndarray:
        """(K, F); what is of pieces is that of the worst."""
        placed = self.stats.placed
        of = dict(zip(FEATURES["piece"], np.moveaxis(self.pieces(), -1, 0), strict=True))
        least = {name: np.where(placed, of[name], np.inf).min(axis=1) for name in BAD_IF_SMALL}
        most = {name: np.where(placed, of[name], -np.inf).max(axis=1) for name in BAD_IF_LARGE}
        support, count = mean_support(self.stats.support, placed), np.log(placed.sum(axis=1).clip(min=1))
        columns = [self.stats.scores.score, support, self.stats.margin, *least.values(), *most.values(), count]
        found = np.stack(columns, axis=1)
        return np.where(np.isfinite(found), found, 0)

    @cached_property
    def _quality(self) -> np.ndarray:
        """(K, N, N) what joints gain, as a share of what the piece with less break could gain."""
        masses = self.stats.evidence.masses
        return self.stats.scores.joints * masses.sum() / (2 * np.minimum(masses[:, None], masses))

    @cached_property
    def _used(self) -> np.ndarray:
        """(K, N, N) the share of its break that a joint uses up, of the piece of which it uses less."""
        used = self.stats.scores.good / self.stats.evidence.masses[:, None]
        return np.minimum(used, used.swapaxes(1, 2))

    @cached_property
    def _gap(self) -> np.ndarray:
        """(K, N, N) how far joints are open."""
        stats, evidence = self.stats, self.stats.evidence
        gap = np.full(stats.scores.good.shape, WIDEST)
        for i, j in evidence.pairs:
            both = evidence.fragments[i], evidence.fragments[j]
            for k in np.flatnonzero(stats.touching[:, i, j]):
                relative = relative_poses(stats.poses[[k]], (i, j))[0]
                gap[k, i, j] = gap[k, j, i] = joint_gap(*both, relative, evidence.spacing)
        return gap


def kind_features(evidence: Evidence) -> np.ndarray:
    """What tells pieces of a broken object from parts that were made to fit, however they lie. -> (2,)

    The log of the share of points on a break, and the share of which that is in doubt, as means over pieces.
    """
    likely = [fragment.break_probability for fragment in evidence.fragments]
    broken = [np.log((of > ON_BREAK).mean() + LEAST_SHARE) for of in likely]
    doubtful = [((of > DOUBTFUL[0]) & (of < DOUBTFUL[1])).mean() for of in likely]
    return np.array([np.mean(broken), np.mean(doubtful)])


def breaks_are_known(evidence: Evidence) -> bool:
    """Whether anything has looked for breaks: otherwise a break is as likely everywhere."""
    return any(np.ptp(fragment.break_probability) > 0 for fragment in evidence.fragments)


def mean_support(support: np.ndarray, placed: np.ndarray) -> np.ndarray:
    """(K,) of (K, N, N), over the pairs of pieces placed (K, N)."""
    count = placed.sum(axis=1)
    return support.sum(axis=(1, 2)) / np.maximum(count * (count - 1), 1)
