"""Which points of pieces in assembled position touch another piece, by geometry alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial import cKDTree

from eda.data.example import OUTER

_CANDIDATES = 8  # nearest points of another piece that are asked whether they face a point


def contact_labels(
    clouds: Sequence[np.ndarray],
    normals: Sequence[np.ndarray],
    reach: float,
    surfaces: Sequence[tuple[np.ndarray, np.ndarray]] | None = None,
) -> list[np.ndarray]:
    """The piece that every point touches, or `OUTER`: (n,) for every cloud (n, 3) with its outward normals.

    A point touches a piece that has a point within `reach` of it, facing it (opposed normals) and in its tangent
    plane: without that last condition a wall of a thin sherd would touch its neighbour's other wall. `surfaces` are
    the same pieces in more points, with their normals, so that even a small reach finds something to touch.
    """
    targets = list(zip(clouds, normals, strict=True)) if surfaces is None else surfaces
    trees = [cKDTree(points) for points, _ in targets]
    labels = []
    for i, (points, directions) in enumerate(zip(clouds, normals, strict=True)):
        label, nearest = np.full(len(points), OUTER, dtype=np.int16), np.full(len(points), np.inf)
        for j, tree in enumerate(trees):
            if j == i:
                continue
            distance = _distance_to_facing(points, directions, tree, targets[j][1], reach)
            label[distance < nearest] = j
            np.minimum(nearest, distance, out=nearest)
        labels.append(label)
    return labels


def _distance_to_facing(
    points: np.ndarray, normals: np.ndarray, tree: cKDTree, other_normals: np.ndarray, reach: float
) -> np.ndarray:
    """(n,) the distance to the nearest point of the tree that faces a point; infinite where there is none."""
    found = np.full(len(points), np.inf)
    near = np.flatnonzero(((points >= tree.mins - reach) & (points <= tree.maxes + reach)).all(axis=1))
    if not len(near):
        return found
    distance, index = tree.query(points[near], k=range(1, min(_CANDIDATES, tree.n) + 1), distance_upper_bound=reach)
    index = index.clip(max=tree.n - 1)  # where nothing is within reach, the distance is infinite
    normal = normals[near][:, None]
    opposed = (normal * other_normals[index]).sum(axis=-1) < -0.5
    height = np.abs((normal * (tree.data[index] - points[near][:, None])).sum(axis=-1))
    found[near] = np.where(opposed & (height <= reach / 4), distance, np.inf).min(axis=1)
    return found
