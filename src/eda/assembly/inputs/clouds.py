"""Clouds: the pieces as the user has them, in no more points than are useful, each with a normal.

In: arrays of any length, in any unit and place, with or without normals. Out: some thousands of points a piece, in the
user's own frames. What is left out is chosen by the seed alone: neither the axes nor the order of the pieces matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from eda.assembly.inputs.normals import outward_normals
from eda.errors import InputError
from eda.pieces import Cloud, Pieces

# Points of a piece among which the farthest are found: more cover it no better.
MAX_CLOUD_POINTS = 12_000
# Scans of which few pairs are tried: to put as many together was measured. And pieces of which every pair is tried, so
# that the work grows with the square of their number.
MAX_SCANS, MAX_PIECES = 200, 64


@dataclass(frozen=True)
class Clouds:
    """N pieces. Make one with `of`."""

    points: tuple[np.ndarray, ...]  # N of (n_i, 3) float64
    normals: tuple[np.ndarray, ...]  # N of (n_i, 3) float64 unit vectors, outward as far as is known
    has_estimated_normals: np.ndarray  # (N,) bool, whose normals were not given

    @staticmethod
    def of(clouds: Sequence[Cloud], normals: Sequence[Cloud | None] | None = None, *, seed: int = 0) -> Clouds:
        """The pieces that a user gave, checked and subsampled. Normals that are missing are estimated."""
        check_number(len(clouds), MAX_SCANS)
        given = [None] * len(clouds) if normals is None else list(normals)
        if len(given) != len(clouds):
            raise InputError(f"{len(clouds)} pieces but normals for {len(given)}")
        chosen = [
            _subsample(cloud, normal, i, seed) for i, (cloud, normal) in enumerate(zip(clouds, given, strict=True))
        ]
        points = [cloud for cloud, _ in chosen]
        Pieces.from_clouds(points)  # raises for what cannot be a piece, before a surface is looked for in it
        directions = [outward_normals(cloud) if normal is None else normal for cloud, normal in chosen]
        whole = Pieces.from_clouds(points, directions, dtype=torch.float64)  # makes unit vectors of normals
        assert whole.normals is not None
        units = torch.split(whole.normals, whole.sizes.tolist())
        return Clouds(
            points=tuple(cloud.astype(np.float64) for cloud in points),
            normals=tuple(unit.numpy() for unit in units),
            has_estimated_normals=np.array([normal is None for normal in given]),
        )

    def choose(self, rows: Sequence[int]) -> Clouds:
        """Some of the pieces, in this order."""
        points, normals = (tuple(of[i] for i in rows) for of in (self.points, self.normals))
        return Clouds(points, normals, self.has_estimated_normals[list(rows)])

    def __len__(self) -> int:
        return len(self.points)


def check_number(count: int, most: int = MAX_PIECES) -> None:
    """Raise `InputError` for more pieces than can be assembled at a time."""
    if count > most:
        raise InputError(
            f"{count} pieces: at most {most} can be assembled at a time; sort them into groups "
            f"of what may belong together (by material, thickness, place of find) and assemble each{_scan_hint(count)}"
        )


def _scan_hint(count: int) -> str:
    if count > MAX_SCANS:
        return ""
    return f"; of scans, {MAX_SCANS} can be: if these are scans, name the model for them (--model scan-small)"


def _subsample(cloud: Cloud, normals: Cloud | None, index: int, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    """At most `MAX_CLOUD_POINTS` of a piece's points, and their normals."""
    points = _array(cloud, f"piece {index}")
    directions = None if normals is None else _array(normals, f"normals of piece {index}")
    if directions is not None and directions.shape != points.shape:
        raise InputError(f"piece {index}: {points.shape} points but {directions.shape} normals")
    if points.ndim != 2 or len(points) <= MAX_CLOUD_POINTS:
        return points, directions
    if not np.isfinite(points).all():
        raise InputError(f"piece {index} has points with NaN or infinite coordinates; remove them first")
    rows = np.random.default_rng(seed).choice(len(points), MAX_CLOUD_POINTS, replace=False, shuffle=False)
    rows.sort()
    return points[rows], None if directions is None else directions[rows]


def _array(cloud: Cloud, what: str) -> np.ndarray:
    """A cloud as an array; `what` names it in the message if it cannot be one."""
    try:
        return np.asarray(cloud.detach().cpu() if isinstance(cloud, torch.Tensor) else cloud)
    except ValueError as error:
        raise InputError(f"{what}: not an array of numbers ({error})") from error
