"""What it means that two pieces fit, in two regimes: sherds that meet at their breaks, and scans that overlap.

A regime says which points pull on which (`patches`), how much a piece can gain (`mass`), and what two pieces gain where
they meet (`touch`). Everything else, from refinement to ranking, is the same for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.spatial import cKDTree

from eda.assembly.fragment import Fragment
from eda.assembly.motion import act, turn
from eda.kernels.nearest import NearestTable

# How many points of a patch are looked for.
MOST_TARGETS = 1024
# How far apart two normals that differ by 60 degrees are, in the trees that see normals as well as places.
NORMAL_WEIGHT = 0.1
# How many of the nearest points are asked whether a point touches them or lies behind them.
NEIGHBORS = 4
# Lengths in units of the spacing of points: how wide the band beside a break is that pulls, how far apart points in
# contact may lie, how far apart the two surfaces there, how deep a point must lie to be inside; and how far apart
# points of a surface that goes on across a break may lie, and how far apart their tangent planes.
SEAM, REACH, GAP, DEPTH, STEP, LEVEL = 3.0, 1.5, 0.5, 0.25, 2.0, 0.3
# What a point in contact is worth where nothing is known of its being on a break: surfaces that fit are worth a little.
FIT = 0.4


@dataclass(frozen=True)
class Patch:
    """m points of a piece that correspond to points of the same kind of patch on another piece."""

    points: np.ndarray  # (m, 3)
    normals: np.ndarray  # (m, 3)
    weights: np.ndarray  # (m,) how likely they are of that kind
    side: int  # the normals of corresponding points are the same (1), opposed (-1), or known up to their sign (0)
    table: NearestTable  # of (place, weighted normal of the counterpart)

    @staticmethod
    def of(fragment: Fragment, weights: np.ndarray, rows: np.ndarray, *, side: int) -> Patch:
        """Of some rows of a fragment; weights (n,) are those of all its points."""
        points, normals = fragment.points[rows], fragment.normals[rows]
        seen = np.hstack([points, side * NORMAL_WEIGHT * normals])[:MOST_TARGETS]
        return Patch(points, normals, weights[rows], side, NearestTable(seen))

    def nearest(self, points: np.ndarray, normals: np.ndarray) -> np.ndarray:
        """Which of the first `MOST_TARGETS` points lies nearest in place and normal. (..., 3), (..., 3) -> (...)."""
        seen = np.concatenate([points.reshape(-1, 3), NORMAL_WEIGHT * normals.reshape(-1, 3)], axis=1)
        return self.table.nearest(seen).reshape(points.shape[:-1])


def counterpart(mine: Patch, points: np.ndarray, normals: np.ndarray, theirs: Patch) -> tuple[np.ndarray, np.ndarray]:
    """Of points (..., 3) with normals of one patch: the nearest of another (...), and its normals (..., 3), turned so
    that the two would be the same where the patches fit.
    """
    index = theirs.nearest(points, normals)
    found = theirs.normals[index]
    sign = np.copysign(1.0, (normals * found).sum(axis=-1, keepdims=True)) if mine.side == 0 else mine.side
    return index, sign * found


def closeness(
    mine: Sequence[Patch], theirs: Sequence[Patch], relative: np.ndarray, probes: int, radius: float
) -> np.ndarray:
    """(K,) how much of a piece's patches comes near another's with normals that agree, at relative poses (K, 4, 4).

    Of every patch its first points are asked, which cover it.
    """
    total = np.zeros(len(relative))
    for patch, other in zip(mine, theirs, strict=True):
        points, normals = act(relative, patch.points[:probes]), turn(relative, patch.normals[:probes])
        index, wanted = counterpart(patch, points, normals, other)
        squared = np.square(points - other.points[index]).sum(axis=2)
        squared += np.square(NORMAL_WEIGHT * (normals - wanted)).sum(axis=2)
        weights = patch.weights[:probes]
        near = np.clip(1 - np.sqrt(squared) / radius, 0, None) * other.weights[index] * weights
        total += near.sum(axis=1) / max(float(weights.sum()), 1e-12)
    return total


@dataclass(frozen=True)
class Touch:
    """What the points of one piece meet on another, in K assemblies; all (K,)."""

    good: np.ndarray  # contacts as they should be
    bad: np.ndarray  # contacts as they should not be
    seam: np.ndarray  # points beside a joint from which the surface goes on to the other piece
    inside: np.ndarray  # points behind the other's surface


class Regime(Protocol):
    """What it means that two pieces fit."""

    docks: bool  # whether geometry alone suggests where a piece may go

    def patches(self, fragment: Fragment) -> tuple[Patch, ...]:
        """The points of a piece that pull, by kind; the first kind alone suggests where another piece may go."""

    def mass(self, fragment: Fragment) -> float:
        """How much of `Touch.good` a piece can gain."""

    def touch(self, piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> Touch:
        """What the points of `piece` meet on `other` at relative poses (K, 4, 4) in the other's frame."""


class Fracture:
    """Sherds: breaks face each other, and beside them the outer surface goes on from one piece to the next."""

    docks = True

    def patches(self, fragment: Fragment) -> tuple[Patch, ...]:
        """The break, and the band of outer surface beside it."""
        broken = fragment.brokenness
        rows = np.flatnonzero(broken > 0)
        rows = rows if len(rows) else np.argsort(-broken, kind="stable")[:1]  # no likely break: the likeliest point
        distance, _ = cKDTree(fragment.points[rows]).query(fragment.points)
        beside = np.flatnonzero((distance < SEAM * fragment.spacing) & (broken < 0))
        beside = beside if len(beside) else rows
        return (
            Patch.of(fragment, broken.clip(0, 1), rows, side=-1),
            Patch.of(fragment, (-broken).clip(0, 1), beside, side=1),
        )

    def mass(self, fragment: Fragment) -> float:
        """How many points lie on a break, as far as is known.

        No less than one in fifty: a piece that seems to have no break must not be held by a chance contact or two.
        """
        return max(float(fragment.brokenness.clip(0, 1).sum()), len(fragment.points) / 50, 1.0)

    def touch(self, piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> Touch:
        """Contact is good as far as both sides may lie on a break, and bad as far as they do not."""
        met = _meet(piece, other, relative, REACH * spacing)
        flush = met.flush(-1, spacing)
        theirs = np.where(flush, other.brokenness[met.index], -1).max(axis=1)
        broken = (piece.brokenness[met.row] + theirs) / 2
        worth = np.any(flush, axis=1) * (FIT + (1 - FIT) * broken)
        seam = np.any(met.level(spacing), axis=1)
        behind = np.all(met.height < -DEPTH * spacing, axis=1)
        return Touch(met.total(worth.clip(0, 1)), met.total((-worth).clip(0, 1)), met.total(seam), met.total(behind))


class Scan:
    """Scans: surfaces seen twice lie on each other. Their normals are lines: which side was seen does not matter."""

    docks = False

    def patches(self, fragment: Fragment) -> tuple[Patch, ...]:
        """All points."""
        rows = np.arange(len(fragment.points))
        return (Patch.of(fragment, np.ones(len(rows)), rows, side=0),)

    def mass(self, fragment: Fragment) -> float:
        """How many points there are: scans may overlap in all of them."""
        return float(len(fragment.points))

    def touch(self, piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> Touch:
        """Points on the other's surface are good; points near it but not on it are bad, nothing is inside a surface."""
        met = _meet(piece, other, relative, 2 * REACH * spacing)
        on = np.any(met.flush(0, spacing), axis=1)
        near = met.distance[:, 0] < 2 * REACH * spacing
        return Touch(met.total(on), met.total(near & ~on) / 2, *np.zeros((2, len(relative))))


@dataclass(frozen=True)
class _Meeting:
    """The M points of a piece that come near another in K assemblies, and their nearest points there."""

    assembly: np.ndarray  # (M,)
    row: np.ndarray  # (M,) of the piece's points
    index: np.ndarray  # (M, q) of the other's points
    distance: np.ndarray  # (M, q)
    height: np.ndarray  # (M, q) above the other's surface
    own_height: np.ndarray  # (M, q) of the other's points below this one's
    cosine: np.ndarray  # (M, q) between the normals
    count: int  # K

    def flush(self, sign: int, spacing: float) -> np.ndarray:
        """(M, q) which points lie on each other, with normals that are opposed (-1), the same (1) or either (0)."""
        apart = np.maximum(np.abs(self.height), np.abs(self.own_height))
        agreeing = sign * self.cosine if sign else np.abs(self.cosine)
        return (self.distance < REACH * spacing) & (agreeing > 0.5) & (apart < GAP * spacing)

    def level(self, spacing: float) -> np.ndarray:
        """(M, q) which points lie beside each other on one smooth surface."""
        apart = np.maximum(np.abs(self.height), np.abs(self.own_height))
        return (self.distance < STEP * spacing) & (self.cosine > 0.7) & (apart < LEVEL * spacing)

    def total(self, values: np.ndarray) -> np.ndarray:
        """The sum over the points of every assembly. (M,) -> (K,)."""
        return np.bincount(self.assembly, weights=values, minlength=self.count)


def _meet(piece: Fragment, other: Fragment, relative: np.ndarray, reach: float) -> _Meeting:
    middle = act(relative, piece.center[None])[:, 0]
    near = np.flatnonzero(np.linalg.norm(middle - other.center, axis=1) < piece.radius + other.radius + reach)
    points = act(relative[near], piece.points)
    low, high = other.points.min(axis=0) - reach, other.points.max(axis=0) + reach
    k, row = np.nonzero(((points > low) & (points < high)).all(axis=2))
    points = points[k, row]
    normals = np.einsum("kij,kj->ki", relative[near][k, :3, :3], piece.normals[row])
    distance, index = other.tree.query(points, k=range(1, min(NEIGHBORS, len(other.points)) + 1))
    offset = points[:, None] - other.points[index]
    theirs = other.normals[index]
    return _Meeting(
        assembly=near[k],
        row=row,
        index=index,
        distance=distance,
        height=(offset * theirs).sum(axis=2),
        own_height=(offset * normals[:, None]).sum(axis=2),
        cosine=(normals[:, None] * theirs).sum(axis=2),
        count=len(relative),
    )
