"""Who attends to whom: the pyramid inside every piece, and the neighbours across pieces.

In: `Pieces`. Out: `Pyramid`, built once per puzzle because pieces are rigid (Sec. 5.1: farthest point sampling and
k nearest neighbours in the same piece); and `Across`, whose neighbours in other pieces follow the poses.

A table of neighbours is (P, k) row indices into the points attended to, -1 where there is none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from eda.cloud import farthest_points, spatial_order
from eda.pieces import Pieces
from eda.segment import padded, starts


@dataclass(frozen=True)
class Level:
    """One level of the pyramid: a quarter of the points of the level below."""

    sizes: Tensor  # (N,) points of each piece
    parent: Tensor  # (P',) the row of each point at the level below
    points: Tensor  # (P', 3) in the piece's own frame
    down: Tensor  # (P', k) neighbours at the level below
    within: Tensor  # (P', k) neighbours at this level
    nearest: Tensor | None = None  # (P,) the row of this level nearest to each of the finest points, where asked for

    def to(self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Level:
        """With its points in another precision, or all of it on another device."""
        return Level(
            sizes=self.sizes.to(device=device),
            parent=self.parent.to(device=device),
            points=self.points.to(dtype=dtype, device=device),
            down=self.down.to(device=device),
            within=self.within.to(device=device),
            nearest=None if self.nearest is None else self.nearest.to(device=device),
        )


@dataclass(frozen=True)
class Pyramid:
    """The pieces at every resolution, finest first. Depends on the pieces, not on their poses.

    Points have no order of their own, so every level is kept in a spatial one: neighbours then lie near each other in
    memory too, and attention costs the same per edge for a thousand points as for two hundred thousand.
    """

    pieces: Pieces  # with the points of each piece in spatial order
    order: Tensor  # (P,) where each of these points was in the pieces as they came
    levels: tuple[Level, ...]

    @staticmethod
    def build(
        pieces: Pieces, *, num_levels: int = 4, ratio: float = 0.25, num_neighbors: int = 10, num_nearest: int = 0
    ) -> Pyramid:
        """`num_levels` downsamplings at `ratio`, `num_neighbors` = k in the same piece.

        The first `num_nearest` levels also know which of their points is nearest to each of the finest.

        Geometry is decided in float64, so that rounding does not flip a choice when a piece is rotated.
        """
        order = _spatial_order(pieces).to(pieces.points.device)
        pieces = pieces.reordered(order)
        chains = [_piece_levels(cloud, num_levels, ratio, num_neighbors) for cloud in _exact_clouds(pieces)]
        levels, below = [], pieces.points
        fine_sizes = pieces.sizes
        for depth in range(num_levels):
            level = _join([chain[depth] for chain in chains], fine_sizes, below)
            levels.append(level)
            below, fine_sizes = level.points, level.sizes
        levels[:num_nearest] = [replace(level, nearest=nearest_rows(level, pieces)) for level in levels[:num_nearest]]
        return Pyramid(pieces, order, tuple(levels))

    @staticmethod
    def collate(batch: Sequence[Pyramid]) -> Pyramid:
        """Several batches as one, as if they had been built together."""
        pieces = Pieces.collate([pyramid.pieces for pyramid in batch])
        finest = [len(pyramid.order) for pyramid in batch]
        order = torch.cat(_all_shifted([pyramid.order for pyramid in batch], finest))
        levels, below = [], finest
        for depth in range(len(batch[0].levels)):
            level, below = _stacked([pyramid.levels[depth] for pyramid in batch], below)
            levels.append(level)
        return Pyramid(pieces, order, tuple(levels))

    @property
    def coarse(self) -> Level:
        """The last level, whose points stand for the pieces in cross-attention."""
        return self.levels[-1]

    def to(self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Pyramid:
        """The same graph with its points in another precision, or all of it on another device."""
        levels = tuple(level.to(dtype=dtype, device=device) for level in self.levels)
        return Pyramid(self.pieces.to(dtype=dtype, device=device), self.order.to(device=device), levels)


def _all_shifted(tables: list[Tensor], sizes: list[int]) -> list[Tensor]:
    """Tables of rows, each moved behind those before it, whose rows number `sizes`; -1 stays."""
    starts_at = itertools.accumulate(sizes, initial=0)
    return [torch.where(table < 0, table, table + start) for table, start in zip(tables, starts_at, strict=False)]


def _stacked(levels: list[Level], below: list[int]) -> tuple[Level, list[int]]:
    """One level of several pyramids, and how many points each has there; `below` is the same of the level below."""
    here = [len(level.points) for level in levels]
    nearest = [level.nearest for level in levels if level.nearest is not None]
    stacked = Level(
        sizes=torch.cat([level.sizes for level in levels]),
        parent=torch.cat(_all_shifted([level.parent for level in levels], below)),
        points=torch.cat([level.points for level in levels]),
        down=torch.cat(_all_shifted([level.down for level in levels], below)),
        within=torch.cat(_all_shifted([level.within for level in levels], here)),
        nearest=torch.cat(_all_shifted(nearest, here)) if nearest else None,
    )
    return stacked, here


def nearest_rows(level: Level, pieces: Pieces) -> Tensor:
    """(P,) the row of a level nearest to each point of the pieces, which may have other points than the pyramid's."""
    coarse = torch.split(level.points.detach().to("cpu", torch.float64), level.sizes.tolist())
    first = starts(level.sizes).tolist()
    rows = [
        cKDTree(cloud.numpy()).query(fine)[1] + start
        for cloud, fine, start in zip(coarse, _exact_clouds(pieces), first, strict=True)
    ]
    return torch.from_numpy(np.concatenate(rows)).to(level.points.device)


def kept(size: int, ratio: float, num_neighbors: int) -> int:
    """How many of a piece's points a level keeps: small pieces keep enough for a full neighbourhood."""
    return max(math.ceil(size * ratio), min(size, num_neighbors + 1))


def _exact_clouds(pieces: Pieces) -> list[np.ndarray]:
    points = pieces.points.detach().to("cpu", torch.float64)
    return [cloud.numpy() for cloud in torch.split(points, pieces.sizes.tolist())]


def _spatial_order(pieces: Pieces) -> Tensor:
    """(P,) every piece's points in spatial order."""
    first = starts(pieces.sizes).tolist()
    orders = [spatial_order(cloud) + start for cloud, start in zip(_exact_clouds(pieces), first, strict=True)]
    return torch.from_numpy(np.concatenate(orders))


# One level of one piece, indices local to the piece: (parent, down, within).
_LocalLevel = tuple[np.ndarray, np.ndarray, np.ndarray]


def _piece_levels(cloud: np.ndarray, num_levels: int, ratio: float, k: int) -> list[_LocalLevel]:
    sizes = [len(cloud)]
    for _ in range(num_levels):
        sizes.append(kept(sizes[-1], ratio, k))
    if not num_levels:
        return []
    # Prefixes of one run of farthest point sampling are the runs of the coarser levels. Sorted, they are in spatial
    # order, because the cloud is.
    chosen = farthest_points(cloud, sizes[1])
    kept_rows = [np.arange(len(cloud))] + [np.sort(chosen[:size]) for size in sizes[1:]]
    levels = []
    for fine_rows, rows in itertools.pairwise(kept_rows):
        fine, coarse = cloud[fine_rows], cloud[rows]
        parent, size = np.searchsorted(fine_rows, rows), len(rows)
        down = _nearest(coarse, fine, parent, k)
        within = _nearest(coarse, coarse, np.arange(size), k)
        levels.append((parent, down, within))
    return levels


def _nearest(queries: np.ndarray, cloud: np.ndarray, own: np.ndarray, k: int) -> np.ndarray:
    """The k nearest rows of `cloud` to every query i but for row own[i]. -> (Q, k), -1 where there is none."""
    reach = min(k + 1, len(cloud))
    _, found = cKDTree(cloud).query(queries, k=np.arange(1, reach + 1))
    found = found.astype(np.int64)
    # Drop the query itself by index, not by position, since coincident points come in any order: a stable sort moves
    # it to the end. Where coincident points have crowded it out, the farthest is dropped instead.
    order = np.argsort(found == own[:, None], axis=1, kind="stable")[:, : reach - 1]
    neighbors = np.full((len(queries), k), -1, dtype=np.int64)
    neighbors[:, : reach - 1] = np.take_along_axis(found, order, axis=1)
    return neighbors


def _join(parts: list[_LocalLevel], fine_sizes: Tensor, fine_points: Tensor) -> Level:
    """The pieces' levels, one after the other, with indices into the whole."""
    device = fine_points.device
    sizes = torch.tensor([len(parent) for parent, _, _ in parts], device=device)
    fine_start, coarse_start = starts(fine_sizes).tolist(), starts(sizes).tolist()
    parent = np.concatenate([part[0] + start for part, start in zip(parts, fine_start, strict=True)])
    down = np.concatenate([_shifted(part[1], start) for part, start in zip(parts, fine_start, strict=True)])
    within = np.concatenate([_shifted(part[2], start) for part, start in zip(parts, coarse_start, strict=True)])
    rows = torch.from_numpy(parent).to(device)
    return Level(
        sizes=sizes,
        parent=rows,
        points=fine_points[rows],
        down=torch.from_numpy(down).to(device),
        within=torch.from_numpy(within).to(device),
    )


def _shifted(neighbors: np.ndarray, start: int) -> np.ndarray:
    return np.where(neighbors < 0, -1, neighbors + start)


@dataclass(frozen=True)
class Across:
    """Who may attend to whom across pieces: the points of the *other* pieces of the same puzzle.

    Fixed while the poses move; `neighbors` chooses the nearest at given positions.
    """

    rows: Tensor  # (B, S) the points of every puzzle, padded with its first
    present: Tensor  # (B, S) which of these are not padding
    foreign: Tensor  # (B, S, S) which pairs are of different pieces

    @staticmethod
    def between(piece: Tensor, puzzle: Tensor) -> Across:
        """From the piece (T,) and the puzzle (T,) of every point, puzzles one after the other."""
        rows, present = padded(torch.bincount(puzzle))
        owner = piece[rows]
        return Across(rows, present, (owner[:, :, None] != owner[:, None, :]) & present[:, None, :])

    def neighbors(self, points: Tensor, num_neighbors: int | None) -> Tensor:
        """The nearest k of points (T, 3), or all where k is None. -> (T, k).

        Distances are differences of coordinates, not the matmul form, which loses neighbours far from the origin.
        """
        if num_neighbors is None:
            return torch.where(self.foreign, self.rows[:, None, :], -1)[self.present]
        clouds = points[self.rows]
        distance = torch.cdist(clouds, clouds, compute_mode="donot_use_mm_for_euclid_dist")
        distance = distance.masked_fill(~self.foreign, torch.inf)
        nearest, column = distance.topk(min(num_neighbors, distance.shape[-1]), dim=-1, largest=False)
        found = self.rows[:, None, :].expand_as(distance).gather(-1, column)
        return torch.where(nearest.isinf(), -1, found)[self.present]
