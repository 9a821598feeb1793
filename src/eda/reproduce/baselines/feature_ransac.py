"""FPFH + RANSAC: motions fitted to random triples of correspondences, of which the one with most inliers is kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from eda.cloud import estimate_normals
from eda.registration.procrustes import weighted_procrustes
from eda.registration.rigid import act
from eda.reproduce.baselines.fpfh import fpfh, mutual_matches
from eda.reproduce.baselines.spacing import thinned

FEATURE_RADIUS = 5.0  # in units of the points' spacing
INLIER = 1.5  # the same
EDGE_RATIO = 0.9  # of the lengths of the edges of a triple in both clouds, at least


def feature_matches(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Corresponding points (c, 3) of both clouds by mutual nearest features, and the spacing of the sparser cloud."""
    clouds, spacings = zip(*(thinned(cloud) for cloud in (source, target)), strict=True)
    spacing = max(spacings)
    features = [fpfh(points, estimate_normals(points), FEATURE_RADIUS * spacing) for points in clouds]
    rows = mutual_matches(*features)
    return clouds[0][rows[:, 0]], clouds[1][rows[:, 1]], spacing


@dataclass(frozen=True)
class FeatureRansac:
    """FPFH + RANSAC."""

    draws: int = 50_000  # triples
    fits: int = 2_000  # of those that keep their shape, at most
    seed: int = 0

    def register(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """T_target_source (4, 4)."""
        x, y, spacing = feature_matches(source, target)
        return self.fit(x, y, INLIER * spacing)

    def fit(self, x: np.ndarray, y: np.ndarray, inlier: float) -> np.ndarray:
        """The motion (4, 4) that brings most of the points x (c, 3) to within `inlier` of y; the identity if none."""
        if len(x) < 3:
            return np.eye(4)
        rng = np.random.default_rng(self.seed)
        triples = rng.integers(len(x), size=(self.draws, 3))
        triples = triples[_keep_shape(x[triples], y[triples])][: self.fits]
        if not len(triples):
            return np.eye(4)
        motions = fit_motions(x[triples], y[triples])
        best = motions[[np.argmax((_distances(motions, x, y) < inlier).sum(axis=1))]]
        for _ in range(2):  # on all inliers
            near = _distances(best, x, y)[0] < inlier
            if near.sum() < 3:
                break
            best = fit_motions(x[near][None], y[near][None])
        return best[0]


def fit_motions(x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """(K, 4, 4) the motions that bring x (K, c, 3) nearest to y, by weights (K, c)."""
    given = np.ones(x.shape[:2]) if weights is None else weights
    motions, _ = weighted_procrustes(torch.from_numpy(given)[:, None], torch.from_numpy(x), torch.from_numpy(y))
    return motions.matrix()[:, 0].numpy()


def _keep_shape(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(K,) the triples (K, 3, 3) whose edges are about as long in both clouds."""
    mine, theirs = (np.linalg.norm(points - np.roll(points, 1, axis=1), axis=2) for points in (x, y))
    shorter, longer = np.minimum(mine, theirs), np.maximum(mine, theirs)
    return ((shorter > EDGE_RATIO * longer) & (shorter > 0)).all(axis=1)


def _distances(motions: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(K, c) how far motions (K, 4, 4) bring x from y."""
    return np.linalg.norm(act(motions, x) - y, axis=2)
