"""The seams of an assembly: how far touching pieces are apart, measured on their files, for numbers and for colours.

In: an `Assembly` and its pieces as they were given. Out: a gap and a contact for every joint, and the gap at points of
every piece, in the user's unit.

The search sees some thousands of points of a piece. This looks again, at all triangles and points of the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from eda.assembly.result import Alternative, Assembly
from eda.data.reading import move_points
from eda.output.piece_surface import PieceSurface
from eda.render.input_piece import InputPiece

# Points from which is measured: of a piece, and of all together, by the squares of their lengths.
_MIN_SAMPLES, _MAX_SAMPLES, _ALL_SAMPLES = 500, 20_000, 60_000
_PLACES, _MAX_PLACES = 300_000, 2_000_000  # triangles or points to which is measured: of a piece, and of all
_REACH = 0.04  # what is farther apart does not touch, relative to the size of the puzzle: some 2 % of the diameter
_TOP = 0.5  # the largest gap with a colour of its own, relative to the reach
_FINEST = 2.0  # the reach is at least so many times the distance between points
_PARALLEL = 0.5  # cosine: surfaces that touch are about parallel
_BAND = 0.75  # how far a seam's colour goes beyond the contact, relative to the reach: breaks are hidden, outsides not
_MAX_PAINTED = 40_000  # points with a colour, of all pieces
_COVER = 1.8  # radius of a disc over the square root of its area: random points leave gaps


@dataclass(frozen=True)
class Joint:
    """Two pieces that touch."""

    first: int
    second: int
    confidence: float
    gap: float | None  # the median distance between the surfaces where they touch; None if they do nowhere
    points: int  # of both pieces, at which they touch
    area: float  # about, of the contact


@dataclass(frozen=True)
class Paint:
    """The gap at m points of a piece, in A alternatives."""

    points: np.ndarray  # (m, 3) in the frame of the piece
    normals: np.ndarray | None  # (m, 3) outward; None if it is not known where that is
    radius: float  # of a disc around each, so that they cover the seam
    gaps: np.ndarray  # (A, m) NaN away from seams


@dataclass(frozen=True)
class Seams:
    """All joints and seams of an assembly of N pieces with A alternatives."""

    joints: tuple[tuple[Joint, ...], ...]  # of every alternative, the surest first
    paint: tuple[Paint, ...]  # (N,)
    top: float  # a round number: the gap from which on all have the same colour

    @staticmethod
    def of(assembly: Assembly, pieces: Sequence[InputPiece]) -> Seams:
        """The seams of all alternatives."""
        num_places = min(_PLACES, _MAX_PLACES // len(pieces))
        counts = _sample_counts(pieces)
        surfaces = [PieceSurface.of(piece, n, num_places) for piece, n in zip(pieces, counts, strict=True)]
        reach = max(_REACH * assembly.size, _FINEST * max(surface.spacing for surface in surfaces))
        measured = [_measure(alternative, surfaces, reach) for alternative in assembly.alternatives]
        gaps = [np.stack([each[i] for _, each in measured]) for i in range(len(pieces))]
        num_painted = sum(int(np.isfinite(each).any(axis=0).sum()) for each in gaps)
        share = min(1.0, _MAX_PAINTED / max(num_painted, 1))
        paint = tuple(_paint(surface, each, share) for surface, each in zip(surfaces, gaps, strict=True))
        return Seams(tuple(joints for joints, _ in measured), paint, _round_up(_TOP * reach))


def _sample_counts(pieces: Sequence[InputPiece]) -> list[int]:
    """How many points to measure from on each piece: chips get few."""
    square = np.array([np.square(np.ptp(piece.points, axis=0)).sum() for piece in pieces])
    counts = np.clip(_ALL_SAMPLES * square / square.sum(), _MIN_SAMPLES, _MAX_SAMPLES)
    return [int(count) for count in counts]


def _measure(
    alternative: Alternative, surfaces: Sequence[PieceSurface], reach: float
) -> tuple[tuple[Joint, ...], list[np.ndarray]]:
    """The joints of an alternative, and the gap at every point of every surface, NaN away from seams."""
    gaps = [np.full(len(surface.points), np.nan) for surface in surfaces]
    joints = []
    for i, j, confidence in sorted(alternative.contacts, key=lambda contact: -contact[2]):
        meetings = [_meeting(surfaces, alternative.poses, a, b, reach) for a, b in ((i, j), (j, i))]
        sides = _touching(meetings, reach)
        for piece, side in zip((i, j), sides, strict=True):
            gaps[piece] = np.fmin(gaps[piece], side)
        joints.append(_joint(i, j, confidence, sides, [surfaces[i].area, surfaces[j].area]))
    return tuple(joints), [_widen(*each, _BAND * reach) for each in zip(surfaces, gaps, strict=True)]


class _Meeting(NamedTuple):
    """The points of a piece that have the surface of another before or behind them."""

    distance: np.ndarray  # (n,) NaN where there is none
    cosine: np.ndarray  # (n,) between the normals; where these have no outside, without its sign


def _meeting(surfaces: Sequence[PieceSurface], poses: np.ndarray, i: int, j: int, reach: float) -> _Meeting:
    """Where the surface of one piece has that of another before or behind it.

    Beside a seam, on the outside, the nearest point of the other piece lies aside.
    """
    own, other = surfaces[i], surfaces[j]
    motion = own.motion_to(other, poses[i], poses[j])
    nearest = other.nearest(move_points(own.points, motion), reach)
    normals = own.normals @ motion[:3, :3].T
    upright = np.abs((nearest.offset * normals).sum(axis=1))
    before = (upright >= 0.5 * nearest.distance) | (nearest.distance <= own.area**0.5)
    cosine = (nearest.normal * normals).sum(axis=1)
    is_met = before & np.isfinite(nearest.distance)
    known = own.oriented and other.oriented
    return _Meeting(np.where(is_met, nearest.distance, np.nan), cosine if known else -np.abs(cosine))


def _touching(sides: Sequence[_Meeting], reach: float) -> list[np.ndarray]:
    """(n,) for both pieces, the distances where they touch, NaN elsewhere.

    Breaks look at each other and overlapping scans look the same way, so what more and nearer points do is a contact.
    The others see the other piece through a thin wall.
    """
    ways = [[np.where(sign * side.cosine >= _PARALLEL, side.distance, np.nan) for side in sides] for sign in (-1, 1)]
    return max(ways, key=lambda way: sum(float(np.nansum(reach - side)) for side in way))


def _joint(i: int, j: int, confidence: float, sides: Sequence[np.ndarray], areas: Sequence[float]) -> Joint:
    touching = [side[np.isfinite(side)] for side in sides]
    area = sum(each * len(side) for each, side in zip(areas, touching, strict=True)) / 2
    distances = np.concatenate(touching)
    gap = float(np.median(distances)) if len(distances) else None
    return Joint(i, j, confidence, gap, len(distances), area)


def _widen(surface: PieceSurface, gaps: np.ndarray, band: float) -> np.ndarray:
    """The gaps (n,), also at points that lie within `band` of a seam: those of the nearest point on it."""
    touching = np.flatnonzero(np.isfinite(gaps))
    if not len(touching):
        return gaps
    distance, row = cKDTree(surface.points[touching]).query(surface.points, distance_upper_bound=band)
    near = np.isfinite(distance)
    gaps[near] = gaps[touching[row[near]]]
    return gaps


def _paint(surface: PieceSurface, gaps: np.ndarray, share: float) -> Paint:
    """The points with a gap in any alternative, thinned to a share of them: they are in random order."""
    rows = np.flatnonzero(np.isfinite(gaps).any(axis=0))
    rows = rows[np.random.default_rng(0).random(len(rows)) < share]
    radius = _COVER * float(surface.area / share) ** 0.5
    normals = surface.normals[rows] if surface.oriented else None
    return Paint(surface.points[rows] + surface.origin, normals, radius, gaps[:, rows])


def _round_up(length: float) -> float:
    """The next number of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(length))
    return float(next(factor * power for factor in (1, 2, 5, 10) if factor * power >= length * (1 - 1e-9)))
