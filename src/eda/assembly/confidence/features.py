"""Features of joints, pieces and assemblies that say whether they are right; calibrations weigh their columns.

The names of the columns stand beside them. A further observation of `AssemblyStats` is a further column here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eda.assembly.confidence.joint_contact import LOOSEST, WIDEST_GAP, measure_contact
from eda.assembly.confidence.stats import AssemblyStats
from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.fragment import Fragment
from eda.registration.rigid import relative_poses

FEATURES = {
    "joint": ("quality", "contacts", "used", "worse piece", "score", "margin", "support", "gap", "likeness",
              "stiffness", "coincidence", "broken", "flat"),
    "piece": ("gain", "quality", "used", "score", "margin", "support", "placed", "gap", "likeness", "stiffness",
              "coincidence", "broken", "flat"),
    "assembly": ("score", "worst piece", "support", "margin", "used", "gap", "likeness", "stiffness", "coincidence",
                 "broken", "flat", "pieces"),
    "kind": ("broken", "flat", "doubtful", "spacing", "pieces"),
}  # fmt: skip

ON_BREAK = 0.5  # the probability from which a point counts as on a break
DOUBTFUL = (0.1, 0.9)  # and those between which a detector that knows such breaks seldom is
NEIGHBORS, LEVEL = 9, 2e-3  # points of a neighbourhood, and how far its normals may vary if it is flat
LEAST_SHARE = 1e-3  # of points on breaks that counts as none


@dataclass(frozen=True)
class Features:
    """The features of K assemblies of N pieces."""

    stats: AssemblyStats

    def joints(self) -> np.ndarray:
        """(K, N, N, F), symmetric in the pieces."""
        scores, whole = self.stats.scores, self._of_whole[:, None, None]
        contacts = np.log1p(scores.good + scores.good.swapaxes(1, 2))
        worse = np.minimum(scores.pieces[:, :, None], scores.pieces[:, None])
        own = np.stack([self._quality, contacts, self._used, worse], axis=-1)
        score, margin, *pieces = np.moveaxis(np.broadcast_to(whole, (*worse.shape, whole.shape[-1])), -1, 0)
        columns = [score, margin, self.stats.support, *np.moveaxis(self._contact, -1, 0), *pieces]
        return np.concatenate([own, np.stack(columns, axis=-1)], axis=-1)

    def pieces(self) -> np.ndarray:
        """(K, N, F); of a piece's joints the best counts, which is that of the highest quality."""
        scores, placed = self.stats.scores, self.stats.placed
        best = self._quality.argmax(axis=2)[:, :, None]
        support, quality = (np.take_along_axis(values, best, 2)[:, :, 0] for values in (self.stats.support, self._quality))
        contact = np.take_along_axis(self._contact, best[..., None], 2)[:, :, 0]
        used = (scores.good.sum(axis=2) / self.stats.evidence.masses).clip(max=1)
        score, margin, broken, flat = (np.broadcast_to(v[:, None], placed.shape) for v in self._of_whole.T)
        share = np.broadcast_to(placed.mean(axis=1)[:, None], placed.shape)
        columns = [scores.pieces, quality, used, score, margin, support, share, *np.moveaxis(contact, -1, 0)]
        return np.stack([*columns, broken, flat], axis=-1)

    def assemblies(self) -> np.ndarray:
        """(K, F); what is of pieces is that of the worst."""
        placed = self.stats.placed
        of = dict(zip(FEATURES["piece"], np.moveaxis(self.pieces(), -1, 0), strict=True))
        score, margin, broken, flat = self._of_whole.T
        least = {name: np.where(placed, of[name], np.inf).min(axis=1) for name in ("gain", "used", "likeness", "stiffness")}
        most = {name: np.where(placed, of[name], -np.inf).max(axis=1) for name in ("gap", "coincidence")}
        columns = [score, least["gain"], mean_support(self.stats.support, placed), margin, least["used"], most["gap"]]
        columns += [least["likeness"], least["stiffness"], most["coincidence"], broken, flat]
        found = np.stack([*columns, np.log(placed.sum(axis=1).clip(min=1))], axis=1)
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
    def _contact(self) -> np.ndarray:
        """(K, N, N, 4) what is measured where two pieces touch."""
        stats, evidence = self.stats, self.stats.evidence
        found = np.zeros((*stats.scores.good.shape, 4)) + [WIDEST_GAP, -1, np.log(LOOSEST), 0]
        touching = stats.scores.good + stats.scores.good.swapaxes(1, 2) > 0
        for i, j in evidence.pairs:
            both = evidence.fragments[i], evidence.fragments[j]
            for k in np.flatnonzero(touching[:, i, j]):
                relative = relative_poses(stats.poses[[k]], (i, j))[0]
                found[k, i, j] = found[k, j, i] = measure_contact(*both, relative, evidence.spacing)
        return found

    @cached_property
    def _of_whole(self) -> np.ndarray:
        """(K, 4) score, margin, and of all pieces how much is break and how much is flat."""
        broken, flat, *_ = kind_features(self.stats.evidence)
        columns = np.broadcast_arrays(self.stats.scores.score, self.stats.margin, broken, flat)
        return np.stack(columns, axis=1)


def kind_features(evidence: Evidence) -> np.ndarray:
    """What tells pieces of a broken object from parts that were made to fit, however they lie. -> (5,)"""
    broken, flat, doubtful = np.mean([_surface(fragment) for fragment in evidence.fragments], axis=0)
    return np.array([broken, flat, doubtful, np.log(evidence.spacing), np.log(len(evidence))])


def mean_support(support: np.ndarray, placed: np.ndarray) -> np.ndarray:
    """(K,) of (K, N, N), over the pairs of pieces placed (K, N)."""
    count = placed.sum(axis=1)
    return support.sum(axis=(1, 2)) / np.maximum(count * (count - 1), 1)


def _surface(fragment: Fragment) -> tuple[float, float, float]:
    """Of a piece: the log of the share of its points on a break, and the shares that are flat and in doubt."""
    _, near = fragment.tree.query(fragment.points, k=min(NEIGHBORS, len(fragment.points)))
    vary = 1 - np.linalg.norm(fragment.normals[near].mean(axis=1), axis=1)
    likely = fragment.break_probability
    doubtful = (likely > DOUBTFUL[0]) & (likely < DOUBTFUL[1])
    share = float((likely > ON_BREAK).mean())
    return float(np.log(share + LEAST_SHARE)), float((vary < LEVEL).mean()), float(doubtful.mean())
