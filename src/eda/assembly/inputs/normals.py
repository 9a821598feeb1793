"""Normals: which way the surface faces that a cloud was taken from.

In: points of one piece, without normals. Out: unit normals that point outward, as far as the points tell. No rule here
knows the axes, so a piece that is turned gets the same normals, turned.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from eda.assembly.inputs.visibility import open_shares
from eda.cloud import estimate_normals, farthest_points

# Points whose signs are found; the others follow their neighbours.
_ORIENTED_POINTS = 4000
_NEIGHBORS, _SWEEPS = 10, 200
_SHARP_NEIGHBORS, _SHARP_ROUNDS = 24, 2
# What is seen from a side counts little where hardly anything is, and as much as three neighbours where much is.
_SEEN, _SEEN_WEIGHT = 0.05, 3.0


def outward_normals(points: np.ndarray) -> np.ndarray:
    """Normals of a closed surface from its points alone. (n, 3) -> (n, 3), unit."""
    return _sharpen(points, orient_outward(points, estimate_normals(points)))


def orient_outward(points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Normals (n, 3) with their signs chosen: toward where a point can be seen from, and alike between neighbours.

    The inside of a closed surface is never seen, however thin its walls are (Mullen et al. 2010 let rays vote too).
    """
    rows = farthest_points(points, min(len(points), _ORIENTED_POINTS))
    chosen = normals[rows] * _outward_signs(points[rows], normals[rows])[:, None]
    return normals * _signs_of_nearest(points, normals, points[rows], chosen)[:, None]


def _sharpen(points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Normals (n, 3) anew, from neighbours that face the same way: not from beyond an edge or a thin wall."""
    near = _nearest(points, points, _SHARP_NEIGHBORS)
    for _ in range(_SHARP_ROUNDS):
        weight = np.einsum("ni,nki->nk", normals, normals[near]).clip(0) ** 4
        weight /= weight.sum(axis=1, keepdims=True)
        offset = points[near] - np.einsum("nk,nki->ni", weight, points[near])[:, None]
        axis = np.linalg.eigh(np.einsum("nk,nki,nkj->nij", weight, offset, offset))[1][:, :, 0]
        normals = axis * np.where(np.einsum("ni,ni->n", axis, normals) < 0, -1, 1)[:, None]
    return normals


def _outward_signs(points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """(n,) 1 or -1 by the balance between what is seen of each point and the signs of its neighbours.

    That balance solves a linear system, the Laplacian of the neighbours' signed agreement, held where points are seen.
    Jacobi's sweeps reach far enough, because few points are far from those that are seen.
    """
    ahead, behind = open_shares(points, normals)
    pull = _SEEN_WEIGHT * (ahead - behind) / (ahead + behind + _SEEN)
    index = _nearest(points, points, _NEIGHBORS + 1)[:, 1:]
    agreement = _agreement(points, normals, points[index], normals[index])
    columns, ends = index.ravel(), np.arange(len(points) + 1) * index.shape[1]
    bonds = csr_array((agreement.ravel(), columns, ends), shape=(len(points), len(points)))
    bonds = (bonds + bonds.T) / 2
    weight = np.abs(bonds).sum(axis=1) + np.abs(pull) + np.finfo(np.float32).eps
    balance = pull / weight
    for _ in range(_SWEEPS):
        balance = (bonds @ balance + pull) / weight
    return np.where(balance < 0, -1.0, 1.0)


def _signs_of_nearest(
    points: np.ndarray, normals: np.ndarray, oriented: np.ndarray, directions: np.ndarray
) -> np.ndarray:
    """(n,) 1 or -1 by which normals (n, 3) agree with the directions of the nearest oriented points (m, 3)."""
    index = _nearest(oriented, points, _NEIGHBORS // 2)
    distance = np.linalg.norm(oriented[index] - points[:, None], axis=2)
    near = 1 / (distance + 0.1 * distance.mean() + np.finfo(float).tiny)
    votes = near * _agreement(points, normals, oriented[index], directions[index])
    return np.where(votes.sum(axis=1) < 0, -1.0, 1.0)


def _nearest(points: np.ndarray, queries: np.ndarray, count: int) -> np.ndarray:
    """(m, count) the points nearest to each query, fewer if there are not so many."""
    return cKDTree(points).query(queries, np.arange(1, min(count, len(points)) + 1))[1]


def _agreement(points: np.ndarray, normals: np.ndarray, neighbors: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """(n, k) from -1 to 1, how well the directions (n, k, 3) of k neighbours agree with normals (n, 3).

    They agree fully if one circle meets both (König and Gumhold 2009), which holds across sharp edges and thin walls
    too: a normal is mirrored on its way. The cube of the cosine makes light of what is undecided.
    """
    along = neighbors - points[:, None]
    along /= np.maximum(np.linalg.norm(along, axis=2, keepdims=True), np.finfo(float).tiny)
    mirrored = normals[:, None] - 2 * np.einsum("ni,nki->nk", normals, along)[..., None] * along
    return np.einsum("nki,nki->nk", mirrored, directions) ** 3
