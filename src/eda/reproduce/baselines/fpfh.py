"""Fast point feature histograms (Rusu et al. 2009), and the correspondences that they suggest.

For a point p with normal n and a neighbour with q and m, d = (q - p) / |q - p|; of the two, the one whose normal is
more along d is the source:

    v = d x n,   w = n x v        (with n the source's normal, d from it to the other, v of length one)
    alpha = v . m,   phi = n . d,   theta = atan2(w . m, n . m)

A histogram of eleven bins each makes the simple feature; the fast one adds the mean of the neighbours' simple features,
weighted by one over their distance.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

BINS = 11  # of each of the three angles
LOWEST = np.array([-1.0, -1.0, -np.pi])  # of alpha, phi, theta
HIGHEST = -LOWEST
MAX_NEIGHBORS = 60


def fpfh(points: np.ndarray, normals: np.ndarray, radius: float) -> np.ndarray:
    """The features (n, 33) of points (n, 3), from neighbours within a radius. Each of its histograms sums to 2 or 0."""
    distance, neighbor = cKDTree(points).query(
        points, min(MAX_NEIGHBORS, len(points) - 1) + 1, distance_upper_bound=radius
    )
    near = np.isfinite(distance) & (distance > 0)
    neighbor = np.where(near, neighbor, 0)
    simple = _histograms(pair_angles(points[:, None], normals[:, None], points[neighbor], normals[neighbor]), near)
    weight = np.where(near, 1 / np.where(near, distance, 1), 0)
    weight /= np.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
    return simple + np.einsum("nk,nkf->nf", weight, simple[neighbor])


def pair_angles(p: np.ndarray, n: np.ndarray, q: np.ndarray, m: np.ndarray) -> np.ndarray:
    """(..., 3): alpha, phi and theta of points p, q and normals n, m (..., 3)."""
    d = q - p
    d = d / np.maximum(np.linalg.norm(d, axis=-1, keepdims=True), 1e-12)
    n, m, d = np.broadcast_arrays(n, m, d)
    swap = (np.abs((n * d).sum(-1)) < np.abs((m * d).sum(-1)))[..., None]
    n, m, d = np.where(swap, m, n), np.where(swap, n, m), np.where(swap, -d, d)
    v = np.cross(d, n)
    v = v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-12)
    w = np.cross(n, v)
    theta = np.arctan2((w * m).sum(-1), (n * m).sum(-1))
    return np.stack([(v * m).sum(-1), (n * d).sum(-1), theta], axis=-1)


def _histograms(angles: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Shares of the neighbours in every bin. angles (n, k, 3), near (n, k) -> (n, 33)."""
    place = (angles - LOWEST) / (HIGHEST - LOWEST) * BINS
    bins = np.clip(place.astype(np.int64), 0, BINS - 1) + BINS * np.arange(3)
    row = np.arange(len(angles))[:, None, None]
    counts = np.bincount((row * 3 * BINS + bins)[near].ravel(), minlength=len(angles) * 3 * BINS)
    return counts.reshape(len(angles), -1) / np.maximum(near.sum(axis=1, keepdims=True), 1)


def mutual_matches(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(c, 2) the rows of features (n, f) and (m, f) that are each other's nearest."""
    square = np.square(source).sum(1)[:, None] + np.square(target).sum(1) - 2 * source @ target.T
    there, back = square.argmin(axis=1), square.argmin(axis=0)
    rows = np.flatnonzero(back[there] == np.arange(len(source)))
    return np.stack([rows, there[rows]], axis=1)
