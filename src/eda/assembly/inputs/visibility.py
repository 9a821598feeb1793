"""Visibility: which points of a piece can be seen past the rest of it, and from which side.

Rays leave every point along a few lines, and every point is a small disc that stops them. On a closed surface all rays
into the body are stopped, and on an open one many points can be seen from both sides. The lines are fixed in the
piece's own frame, so a piece that is turned gives the same shares.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from eda.cloud import farthest_points

_LINES = 24  # spread evenly over all directions
_NEAREST = 20  # discs that may stop a ray: those nearest to it, which bounds time and memory
_RING = 6  # nearest points whose distance says how dense the piece is
_REACH = 1.5  # radius of a disc, in spacings: wide enough to leave no gaps between points that lie at random
_SKIN = 0.3  # spacings within which a disc belongs to the surface that the ray leaves
_MOST_POINTS, _SEEN = 1500, 0.1  # by how many points a piece is judged, and what share of a side counts as seen


class OpenShares(NamedTuple):
    """The shares of the directions in which nothing of the piece lies, each direction by its cosine to the normal."""

    ahead: np.ndarray  # (n,) on the side to which the normal points
    behind: np.ndarray  # (n,) on the other


class _Discs(NamedTuple):
    """The points of a piece as a surface without gaps."""

    points: np.ndarray  # (n, 3)
    normals: np.ndarray  # (n, 3) unit, of any sign
    spacing: np.ndarray  # (n,) between neighbours


def open_shares(points: np.ndarray, normals: np.ndarray) -> OpenShares:
    """How far each of the points (n, 3), with normals (n, 3) of any sign, can be seen from either side."""
    discs, lines = _Discs(points, normals, _spacing(points)), _lines(points)
    forward, backward = np.stack([_free(discs, line) for line in lines], axis=2)  # (n, L) each
    cosine = normals @ lines.T
    weight = np.abs(cosine) / np.abs(cosine).sum(axis=1, keepdims=True)
    ahead, behind = np.where(cosine > 0, forward, backward), np.where(cosine > 0, backward, forward)
    return OpenShares((weight * ahead).sum(axis=1), (weight * behind).sum(axis=1))


def two_sided_share(points: np.ndarray, normals: np.ndarray) -> float:
    """The share of points that are seen from both sides: near 0 for a closed surface, more for what a scanner saw."""
    rows = farthest_points(points, min(len(points), _MOST_POINTS))
    return float((np.minimum(*open_shares(points[rows], normals[rows])) > _SEEN).mean())


def _spacing(points: np.ndarray) -> np.ndarray:
    """(n,) the edge of the square that each point has to itself."""
    count = min(_RING, len(points) - 1)
    distance = cKDTree(points).query(points, count + 1)[0][:, -1]
    spacing = distance * np.sqrt(np.pi / count)
    return np.minimum(spacing, np.quantile(spacing, 0.95))  # points apart from all others stop nothing


def _lines(points: np.ndarray) -> np.ndarray:
    """(L, 3) unit, spread over a half sphere in the frame of the piece's own principal axes."""
    offset = points - points.mean(axis=0)
    axes = np.linalg.eigh(offset.T @ offset)[1]
    axes = axes * np.where(((offset @ axes) ** 3).sum(axis=0) < 0, -1, 1)
    height = 1 - (np.arange(_LINES) + 0.5) / _LINES
    turn = np.pi * (1 + np.sqrt(5)) * (np.arange(_LINES) + 0.5)  # a Fibonacci lattice
    across = np.sqrt(1 - height**2)
    return np.stack([across * np.cos(turn), across * np.sin(turn), height], axis=1) @ axes.T


def _free(discs: _Discs, line: np.ndarray) -> np.ndarray:
    """(2, n) bool: whether nothing stops the ray from each point along a line, and the ray against it."""
    flat = discs.points @ np.linalg.svd(line[None])[2][1:].T  # as seen along the line
    index = cKDTree(flat).query(flat, min(_NEAREST, len(flat)))[1]
    offset, normal, spacing = discs.points[index] - discs.points[:, None], discs.normals[index], discs.spacing[index]
    height = np.einsum("nki,nki->nk", offset, normal)
    slope = normal @ line
    way = height / np.where(np.abs(slope) < 1e-3, 1e-3, slope)  # along the line, to the plane of the disc
    miss = np.square(offset - way[..., None] * line).sum(axis=2)
    hit = (np.abs(height) > _SKIN * spacing) & (miss < np.square(_REACH * spacing))
    return ~np.stack([(hit & (way > 0)).any(axis=1), (hit & (way < 0)).any(axis=1)])
