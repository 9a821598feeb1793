"""Contact of fragments: breaks face each other, and beside them the outer surface continues on the next piece."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from eda.assembly.contact.fragment import Fragment
from eda.assembly.contact.rules import Touch
from eda.regime import Regime
from eda.registration.patches import Patch
from eda.registration.rigid import act, inverse

# How many of the nearest points are asked whether a point touches them, and whether it lies behind them. Of a wall that
# is no thicker than its points are apart, the few nearest may all lie on the far side, and behind these is what is
# beside the wall as well.
TOUCHED, BEHIND = 4, 10
# Lengths in units of the spacing of points: how wide the band beside a break is that pulls, how far apart points in
# contact may lie, how far apart the two surfaces there, how deep a point must lie to be inside; and how far apart
# points of a surface that goes on across a break may lie, and how far apart their tangent planes.
SEAM, REACH, GAP, DEPTH, STEP, LEVEL = 3.0, 1.5, 0.5, 0.25, 2.0, 0.3
# The cosine from which normals are opposed.
OPPOSED = -0.5
# What a point in contact is worth where nothing is known of its being on a break: surfaces that fit are worth a little.
FIT = 0.4


class FractureContact:
    """When two fragments fit: their breaks touch, and neither lies inside the other."""

    name: Regime = "fracture"

    def patches(self, fragment: Fragment) -> tuple[Patch, ...]:
        """The break, and the band of outer surface beside it."""
        broken = fragment.break_evidence
        rows = np.flatnonzero(broken > 0)
        rows = rows if len(rows) else np.argsort(-broken, kind="stable")[:1]  # no likely break: the likeliest point
        distance, _ = cKDTree(fragment.points[rows]).query(fragment.points)
        beside = np.flatnonzero((distance < SEAM * fragment.spacing) & (broken < 0))
        beside = beside if len(beside) else rows
        return (
            fragment.patch(rows, broken.clip(0, 1), side=-1),
            fragment.patch(beside, (-broken).clip(0, 1), side=1),
        )

    def mass(self, fragment: Fragment) -> float:
        """How many points lie on a break, as far as is known.

        No less than one in fifty: a piece that seems to have no break must not be held by a chance contact or two.
        """
        return max(float(fragment.break_evidence.clip(0, 1).sum()), len(fragment.points) / 50, 1.0)

    def meet(self, piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> tuple[Touch, Touch]:
        """Contact is good as far as both sides may lie on a break, and bad as far as they do not."""
        return _touch(piece, other, relative, spacing), _touch(other, piece, inverse(relative), spacing)


def _touch(piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> Touch:
    near = _find_neighbors(piece, other, relative, REACH * spacing)
    flush = near.flush(spacing)
    theirs = np.where(flush, other.break_evidence[near.index], -1).max(axis=1)
    broken = (piece.break_evidence[near.row] + theirs) / 2
    worth = np.any(flush, axis=1) * (FIT + (1 - FIT) * broken)
    seam = np.any(near.level(spacing), axis=1)
    behind = _is_behind(near, other, -DEPTH * spacing)
    return Touch(near.total(worth.clip(0, 1)), near.total((-worth).clip(0, 1)), near.total(seam), near.total(behind))


@dataclass(frozen=True)
class _Neighbors:
    """The M points of a piece that come near another in K assemblies, and their nearest points there."""

    assembly: np.ndarray  # (M,)
    points: np.ndarray  # (M, 3) in the frame of the other
    row: np.ndarray  # (M,) of the piece's points
    index: np.ndarray  # (M, q) of the other's points
    distance: np.ndarray  # (M, q)
    height: np.ndarray  # (M, q) above the other's surface
    own_height: np.ndarray  # (M, q) of the other's points below this one's
    cosine: np.ndarray  # (M, q) between the normals
    count: int  # K

    def flush(self, spacing: float) -> np.ndarray:
        """(M, q) which points lie on each other, with opposed normals."""
        apart = np.maximum(np.abs(self.height), np.abs(self.own_height))
        return (self.distance < REACH * spacing) & (self.cosine < OPPOSED) & (apart < GAP * spacing)

    def level(self, spacing: float) -> np.ndarray:
        """(M, q) which points lie beside each other on one smooth surface."""
        apart = np.maximum(np.abs(self.height), np.abs(self.own_height))
        return (self.distance < STEP * spacing) & (self.cosine > 0.7) & (apart < LEVEL * spacing)

    def total(self, values: np.ndarray) -> np.ndarray:
        """The sum over the points of every assembly. (M,) -> (K,)."""
        return np.bincount(self.assembly, weights=values, minlength=self.count)


def _find_neighbors(piece: Fragment, other: Fragment, relative: np.ndarray, reach: float) -> _Neighbors:
    middle = act(relative, piece.center[None])[:, 0]
    near = np.flatnonzero(np.linalg.norm(middle - other.center, axis=1) < piece.radius + other.radius + reach)
    points = act(relative[near], piece.points)
    low, high = other.points.min(axis=0) - reach, other.points.max(axis=0) + reach
    k, row = np.nonzero(((points > low) & (points < high)).all(axis=2))
    points = points[k, row]
    normals = np.einsum("kij,kj->ki", relative[near][k, :3, :3], piece.normals[row])
    distance, index = other.tree.query(points, k=_first(TOUCHED, other))
    offset = points[:, None] - other.points[index]
    theirs = other.normals[index]
    return _Neighbors(
        assembly=near[k],
        points=points,
        row=row,
        index=index,
        distance=distance,
        height=(offset * theirs).sum(axis=2),
        own_height=(offset * normals[:, None]).sum(axis=2),
        cosine=(normals[:, None] * theirs).sum(axis=2),
        count=len(relative),
    )


def _is_behind(near: _Neighbors, other: Fragment, depth: float) -> np.ndarray:
    """(M,) which points lie behind the other's surface: lower than `depth` over all of the nearest points there."""
    behind = np.all(near.height < depth, axis=1)
    rows = np.flatnonzero(behind)  # few: only these are asked further
    _, index = other.tree.query(near.points[rows], k=_first(BEHIND, other))
    height = ((near.points[rows, None] - other.points[index]) * other.normals[index]).sum(axis=2)
    behind[rows] = np.all(height < depth, axis=1)
    return behind


def _first(count: int, other: Fragment) -> range:
    """Of the nearest points, the first so many, as a tree is asked for them."""
    return range(1, min(count, len(other.points)) + 1)
