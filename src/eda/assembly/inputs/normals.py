"""Normals: which way the surface faces that a cloud was taken from, and whether it is closed.

In: points of one piece, without normals. Out: unit normals that point outward, as far as the points tell. No rule here
knows the axes, so a piece that is turned gets the same normals, turned.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree
from scipy.spatial import cKDTree

from eda.cloud import estimate_normals, farthest_points

# Neighbours to which a sign is propagated.
_NEIGHBORS = 10
# A point lies on a rim if its nearest points, seen along the normal, leave this much of the full turn empty.
_RIM_POINTS, _RIM_DENSER, _RIM_NEIGHBORS, _RIM_GAP = 1000, 3, 12, np.deg2rad(130)


def outward_normals(points: np.ndarray) -> np.ndarray:
    """Normals of a closed surface from its points alone. (n, 3) -> (n, 3), unit."""
    return orient_outward(points, estimate_normals(points))


def orient_outward(points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Normals (n, 3) with their signs chosen: alike between neighbours, and so that they enclose a volume.

    Signs are propagated along a spanning tree of the neighbours that agree best (Hoppe 1992), and two neighbours agree
    if one circle meets both normals (König and Gumhold 2009), which is right across sharp edges and thin walls too.
    """
    offset = points - points.mean(axis=0)
    tree = minimum_spanning_tree(_disagreement(offset, normals))
    count, part = connected_components(tree, directed=False)
    signs = np.ones(len(points))
    for index in range(count):
        members = np.flatnonzero(part == index)
        order, before = breadth_first_order(tree, members[0], directed=False)
        _propagate_signs(signs, order[1:], before, offset, normals)
        # The sum of x . n over a closed surface is three times its volume, whatever the origin.
        directed, middle = normals[members] * signs[members, None], offset[members].mean(axis=0)
        if (directed * (offset[members] - middle)).sum() < 0:
            signs[members] *= -1
    return normals * signs[:, None]


def _disagreement(points: np.ndarray, normals: np.ndarray) -> csr_matrix:
    """(n, n) between neighbours: 0 (almost) if one circle meets both normals, up to their signs, to 1."""
    k = min(_NEIGHBORS, len(points) - 1) + 1
    _, index = cKDTree(points).query(points, k)
    start, end = np.repeat(np.arange(len(points)), k - 1), index[:, 1:].ravel()
    start, end = start[start != end], end[start != end]  # points that coincide may not come first themselves
    weight = 1 - np.abs(_agreement(points, normals, start, end))
    return csr_matrix((weight.clip(0) + 1e-9, (start, end)), shape=(len(points), len(points)))  # 0 would mean no edge


def _agreement(points: np.ndarray, normals: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(m,) cosine between the normal of b and what a circle through both makes of that of a: it is mirrored."""
    along = points[b] - points[a]
    along /= np.maximum(np.linalg.norm(along, axis=-1, keepdims=True), np.finfo(float).tiny)
    mirrored = normals[a] - 2 * (normals[a] * along).sum(axis=-1, keepdims=True) * along
    return (mirrored * normals[b]).sum(axis=-1)


def _propagate_signs(
    signs: np.ndarray, order: np.ndarray, before: np.ndarray, points: np.ndarray, normals: np.ndarray
) -> None:
    """Set the sign of every point in `order` by that of the point `before` it."""
    flips = np.where(_agreement(points, normals, before[order], order) < 0, -1, 1)
    for point, flip in zip(order.tolist(), flips.tolist(), strict=True):
        signs[point] = flip * signs[before[point]]


def rim_share(points: np.ndarray, normals: np.ndarray) -> float:
    """The share of points beside which the surface ends: near 0 for a closed one, more for what a scanner saw."""
    rows = farthest_points(points, min(math.ceil(len(points) / _RIM_DENSER), _RIM_POINTS))
    points, normals = points[rows], normals[rows]
    _, index = cKDTree(points).query(points, min(_RIM_NEIGHBORS, len(points) - 1) + 1)
    offset = points[index[:, 1:]] - points[:, None]
    side = _any_tangent(normals)
    other = np.cross(normals, side)
    angle = np.sort(np.arctan2((offset * other[:, None]).sum(axis=2), (offset * side[:, None]).sum(axis=2)), axis=1)
    gap = np.diff(angle, axis=1, append=angle[:, :1] + 2 * np.pi).max(axis=1)
    return float((gap > _RIM_GAP).mean())


def _any_tangent(normals: np.ndarray) -> np.ndarray:
    """(n, 3) some unit vector across each normal; gaps between angles do not depend on which."""
    axis = np.eye(3)[np.abs(normals).argmin(axis=1)]
    across = np.cross(normals, axis)
    return across / np.linalg.norm(across, axis=1, keepdims=True)
