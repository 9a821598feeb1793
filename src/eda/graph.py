"""The graphs of attention: a pyramid inside every piece, and neighbours in other pieces.

In: `Pieces`. Out: `Pyramid` and `Across`. The pyramid (Sec. 5.1: farthest point sampling, and k nearest neighbours in
the same piece) is built once per puzzle, because pieces are rigid. The neighbours across pieces depend on the poses.

A table of neighbours has the row indices (P, k) of the points that a point attends to, and -1 where there is none.
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

from eda.cloud import farthest_points, farthest_points_and_gaps, focused_order, spatial_order
from eda.pieces import Pieces
from eda.segment import padded_rows, starts


@dataclass(frozen=True)
class Level:
    """One level of the pyramid: a quarter of the points of the level below."""

    sizes: Tensor  # (N,) points of each piece
    parent: Tensor  # (P',) the row of each point at the level below
    points: Tensor  # (P', 3) in the piece's own frame
    down: Tensor  # (P', k) neighbours at the level below
    within: Tensor  # (P', k) neighbours at this level
    nearest: Tensor | None = None  # (P,) the row of this level nearest to each finest point, if it was asked for

    def to(self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Level:
        """The same level with its points in another precision, or on another device."""
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
    """The pieces at every resolution, finest first. It depends on the pieces, not on their poses.

    The points of every level are in spatial order, so that neighbours lie near each other in memory too. Attention then
    costs the same per edge for a thousand points as for two hundred thousand.
    """

    pieces: Pieces  # with the points of each piece in spatial order
    order: Tensor  # (P,) the index of each of these points in the given pieces
    levels: tuple[Level, ...]

    @staticmethod
    def build(
        pieces: Pieces, *, num_levels: int = 4, ratio: float = 0.25, num_neighbors: int = 10, num_nearest: int = 0
    ) -> Pyramid:
        """The pyramid of some pieces, with `num_levels` downsamplings at `ratio` and k = `num_neighbors`.

        The first `num_nearest` levels also store which of their points is nearest to each finest point. Of pieces with
        a focus, every level keeps at least every other point there, as far as there are enough.

        Distances are compared in float64, so that rounding does not change a choice when a piece is rotated.
        """
        order = _spatial_order(pieces).to(pieces.points.device)
        pieces = pieces.reorder(order)
        focus = _focus_of_pieces(pieces)
        each = zip(pieces.exact_clouds(), focus, strict=True)
        chains = [_piece_levels(cloud, inside, num_levels, ratio, num_neighbors) for cloud, inside in each]
        levels, below = [], pieces.points
        fine_sizes = pieces.sizes
        for depth in range(num_levels):
            level = _join_pieces([chain[depth] for chain in chains], fine_sizes, below)
            levels.append(level)
            below, fine_sizes = level.points, level.sizes
        levels[:num_nearest] = [replace(level, nearest=nearest_rows(level, pieces)) for level in levels[:num_nearest]]
        return Pyramid(pieces, order, tuple(levels))

    @staticmethod
    def collate(batch: Sequence[Pyramid]) -> Pyramid:
        """Several pyramids as one, equal to the one that is built from all their pieces."""
        pieces = Pieces.collate([pyramid.pieces for pyramid in batch])
        finest = [len(pyramid.order) for pyramid in batch]
        order = torch.cat(_shift_all([pyramid.order for pyramid in batch], finest))
        levels, below = [], finest
        for depth in range(len(batch[0].levels)):
            level, below = _stack_levels([pyramid.levels[depth] for pyramid in batch], below)
            levels.append(level)
        return Pyramid(pieces, order, tuple(levels))

    @property
    def coarse(self) -> Level:
        """The last level, whose points stand for the pieces in cross-attention."""
        return self.levels[-1]

    def to(self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Pyramid:
        """The same graph with its points in another precision, or on another device."""
        levels = tuple(level.to(dtype=dtype, device=device) for level in self.levels)
        return Pyramid(self.pieces.to(dtype=dtype, device=device), self.order.to(device=device), levels)


def _shift_all(tables: list[Tensor], sizes: list[int]) -> list[Tensor]:
    """Tables of row indices for the concatenation of arrays of these sizes; -1 stays."""
    starts_at = itertools.accumulate(sizes, initial=0)
    return [torch.where(table < 0, table, table + start) for table, start in zip(tables, starts_at, strict=False)]


def _stack_levels(levels: list[Level], below: list[int]) -> tuple[Level, list[int]]:
    """One level of several pyramids as one, and the numbers of points of each; `below` has those of the level below."""
    here = [len(level.points) for level in levels]
    nearest = [level.nearest for level in levels if level.nearest is not None]
    stacked = Level(
        sizes=torch.cat([level.sizes for level in levels]),
        parent=torch.cat(_shift_all([level.parent for level in levels], below)),
        points=torch.cat([level.points for level in levels]),
        down=torch.cat(_shift_all([level.down for level in levels], below)),
        within=torch.cat(_shift_all([level.within for level in levels], here)),
        nearest=torch.cat(_shift_all(nearest, here)) if nearest else None,
    )
    return stacked, here


def nearest_rows(level: Level, pieces: Pieces) -> Tensor:
    """The row of a level nearest to each point of the pieces, whose points may differ from the pyramid's. -> (P,)."""
    coarse = torch.split(level.points.detach().to("cpu", torch.float64), level.sizes.tolist())
    first = starts(level.sizes).tolist()
    rows = [
        cKDTree(cloud.numpy()).query(fine)[1] + start
        for cloud, fine, start in zip(coarse, pieces.exact_clouds(), first, strict=True)
    ]
    return torch.from_numpy(np.concatenate(rows)).to(level.points.device)


def level_size(size: int, ratio: float, num_neighbors: int) -> int:
    """The number of points of a piece at the next level: small pieces keep enough for a full neighbourhood."""
    return max(math.ceil(size * ratio), min(size, num_neighbors + 1))


def _spatial_order(pieces: Pieces) -> Tensor:
    """The order that sorts every piece's points along a space-filling curve. -> (P,)."""
    first = starts(pieces.sizes).tolist()
    orders = [spatial_order(cloud) + start for cloud, start in zip(pieces.exact_clouds(), first, strict=True)]
    return torch.from_numpy(np.concatenate(orders))


# One level of one piece: (parent, down, within), with indices local to the piece.
_LocalLevel = tuple[np.ndarray, np.ndarray, np.ndarray]


def _focus_of_pieces(pieces: Pieces) -> list[np.ndarray | None]:
    if pieces.focus is None:
        return [None] * pieces.num_pieces
    return [inside.numpy() for inside in torch.split(pieces.focus.cpu(), pieces.sizes.tolist())]


def _piece_levels(
    cloud: np.ndarray, focus: np.ndarray | None, num_levels: int, ratio: float, k: int
) -> list[_LocalLevel]:
    sizes = [len(cloud)]
    for _ in range(num_levels):
        sizes.append(level_size(sizes[-1], ratio, k))
    if not num_levels:
        return []
    # A coarser level is a prefix of the same order. Sorted indices are in spatial order, because the cloud is.
    chosen = farthest_points(cloud, sizes[1]) if focus is None else _focused_points(cloud, focus)
    level_rows = [np.arange(len(cloud))] + [np.sort(chosen[:size]) for size in sizes[1:]]
    levels = []
    for fine_rows, rows in itertools.pairwise(level_rows):
        fine, coarse = cloud[fine_rows], cloud[rows]
        parent, size = np.searchsorted(fine_rows, rows), len(rows)
        down = _nearest(coarse, fine, parent, k)
        within = _nearest(coarse, coarse, np.arange(size), k)
        levels.append((parent, down, within))
    return levels


def _focused_points(cloud: np.ndarray, focus: np.ndarray) -> np.ndarray:
    """All points (n, 3) in the order in which levels keep them, if those with focus (n,) count more. -> (n,)."""
    rows, gaps = farthest_points_and_gaps(cloud, len(cloud))
    return rows[focused_order(gaps, focus[rows])]


def _nearest(queries: np.ndarray, cloud: np.ndarray, own: np.ndarray, k: int) -> np.ndarray:
    """The k rows of `cloud` nearest to every query i, except row own[i]. -> (Q, k), -1 where there is none."""
    reach = min(k + 1, len(cloud))
    _, found = cKDTree(cloud).query(queries, k=np.arange(1, reach + 1))
    found = found.astype(np.int64)
    # Drop the query itself by index, not by its place in the list, since coincident points come in any order. A stable
    # sort moves it to the end. If coincident points displaced it from the list, the farthest is dropped instead.
    order = np.argsort(found == own[:, None], axis=1, kind="stable")[:, : reach - 1]
    neighbors = np.full((len(queries), k), -1, dtype=np.int64)
    neighbors[:, : reach - 1] = np.take_along_axis(found, order, axis=1)
    return neighbors


def _join_pieces(parts: list[_LocalLevel], fine_sizes: Tensor, fine_points: Tensor) -> Level:
    """The levels of all pieces as one, with indices into the concatenated points."""
    device = fine_points.device
    sizes = torch.tensor([len(parent) for parent, _, _ in parts], device=device)
    fine_start, coarse_start = starts(fine_sizes).tolist(), starts(sizes).tolist()
    parent = np.concatenate([part[0] + start for part, start in zip(parts, fine_start, strict=True)])
    down = np.concatenate([_shift_rows(part[1], start) for part, start in zip(parts, fine_start, strict=True)])
    within = np.concatenate([_shift_rows(part[2], start) for part, start in zip(parts, coarse_start, strict=True)])
    rows = torch.from_numpy(parent).to(device)
    return Level(
        sizes=sizes,
        parent=rows,
        points=fine_points[rows],
        down=torch.from_numpy(down).to(device),
        within=torch.from_numpy(within).to(device),
    )


def _shift_rows(neighbors: np.ndarray, start: int) -> np.ndarray:
    return np.where(neighbors < 0, -1, neighbors + start)


@dataclass(frozen=True)
class Across:
    """The pairs of points that may attend to each other across pieces: those of *different* pieces of one puzzle.

    It does not depend on the poses; `neighbors` picks the nearest points at given positions.
    """

    rows: Tensor  # (B, S) the points of every puzzle, padded with its first point
    present: Tensor  # (B, S) which of these are not padding
    foreign: Tensor  # (B, S, S) which pairs belong to different pieces

    @staticmethod
    def between(piece: Tensor, puzzle: Tensor) -> Across:
        """The pairs for points whose piece (T,) and puzzle (T,) are given, puzzles one after the other."""
        rows, present = padded_rows(torch.bincount(puzzle))
        owner = piece[rows]
        return Across(rows, present, (owner[:, :, None] != owner[:, None, :]) & present[:, None, :])

    def neighbors(self, points: Tensor, num_neighbors: int | None) -> Tensor:
        """The nearest k points in other pieces, or all of them where k is None. Points (T, 3) -> (T, k).

        Distances come from differences of coordinates. The matmul form would lose neighbours far from the origin.
        """
        if num_neighbors is None:
            return torch.where(self.foreign, self.rows[:, None, :], -1)[self.present]
        clouds = points[self.rows]
        distance = torch.cdist(clouds, clouds, compute_mode="donot_use_mm_for_euclid_dist")
        distance = distance.masked_fill(~self.foreign, torch.inf)
        nearest, column = distance.topk(min(num_neighbors, distance.shape[-1]), dim=-1, largest=False)
        found = self.rows[:, None, :].expand_as(distance).gather(-1, column)
        return torch.where(nearest.isinf(), -1, found)[self.present]
