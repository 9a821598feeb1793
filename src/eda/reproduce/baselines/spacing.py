"""Clouds thinned evenly, with the typical distance of their points, which is the unit of length of the baselines."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from eda.cloud import farthest_points

MAX_POINTS = 2500


def thinned(cloud: np.ndarray, most: int = MAX_POINTS) -> tuple[np.ndarray, float]:
    """At most so many points (n, 3) that cover a cloud, and the median distance to the nearest other one."""
    points = np.asarray(cloud, dtype=np.float64)
    if len(points) > most:
        points = points[farthest_points(points, most)]
    distance, _ = cKDTree(points).query(points, [2])
    return points, float(np.median(distance))
