"""How two surfaces lie on each other at some relative poses, as numbers: which share, how closely, how parallel.

Places that correspond are few and far between, so a pose that was fitted to them is off by some degrees, and one that
is right looks little better than one that is wrong. On all points the difference shows. Nothing here depends on the
sign of a normal, on which of the two surfaces comes first, or on learned weights.
"""

from __future__ import annotations

import numpy as np

from eda.registration.icp import Surface, SurfaceCorrespondences, normal_equations

NUM_FEATURES = 12  # that `overlap_features` gives
PARALLEL_SHARE = 1  # which of these is the share of points that are near and parallel
# Their usual values and how they vary, among hypotheses for pairs of rooms: a network learns faster from numbers of
# about one.
MEANS = (-1.5, -2.8, -2.3, -3.5, 0.45, 0.7, 0.35, -3.0, -1.9, -7.6, -6.7, -6.0)
SCALES = (0.4, 0.9, 0.5, 1.0, 0.12, 0.12, 0.2, 0.9, 0.9, 1.2, 1.1, 1.1)
NEAR, CLOSE = 1.0, 0.5  # in units of the points' spacing
MIN_SHARE, MIN_CURVATURE = 1e-3, 1e-5  # floors under logarithms


def overlap_features(source: Surface, target: Surface, T_target_source: np.ndarray) -> np.ndarray:
    """(K, 12) at relative poses (K, 4, 4).

    The logs of the shares of points that are near the other surface, near and parallel, close, close and parallel; of
    what is near, the mean distance from the other's plane, the mean of |cosine|, and of its 8th power; the logs of the
    two smaller variances of the normals of what is near and parallel, and of the three smallest eigenvalues of J^T W J
    there: how little the surfaces could slide.
    """
    pairs = SurfaceCorrespondences.between(source, target, T_target_source)
    near, close = (pairs.nearness(radius * source.spacing) for radius in (NEAR, CLOSE))
    aligned = pairs.parallel**8
    shares = [np.log(some.mean(axis=1) + MIN_SHARE) for some in (near, near * aligned, close, close * aligned)]
    total = np.maximum(near.sum(axis=1), 1)
    heights = np.abs(pairs.residuals) / source.spacing
    means = [(near * values).sum(axis=1) / total for values in (heights, pairs.parallel, aligned)]
    weights = near * aligned
    _, jacobian = pairs.jacobian(weights)
    JTJ, _ = normal_equations(jacobian, pairs.residuals, weights)
    counted = np.maximum(weights.sum(axis=1), 1)[:, None, None]
    spread = np.linalg.eigvalsh(JTJ[:, 3:, 3:] / counted)[:, :2].clip(min=0)
    sliding = np.linalg.eigvalsh(JTJ / near.shape[1])[:, :3].clip(min=0)
    return np.concatenate(
        [np.stack([*shares, *means], axis=1), np.log(spread + MIN_SHARE), np.log(sliding + MIN_CURVATURE)], axis=1
    )
