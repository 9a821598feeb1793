"""Pieces: the input X, a ragged batch of puzzles of rigid pieces. Puzzle: pieces with their solution.

In: clouds in any unit, position and orientation. Out: centred, normalised points, and the transform back to the user's
units. Sec. 4.1 of the paper assumes that every piece is centred, m(X_i) = 0, and the assembled whole too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eda.errors import InputError
from eda.lie import SE3
from eda.segment import ranges, segment_mean

Cloud = np.ndarray | Tensor

# Four points can span a volume; fewer leave the rotation of a piece undetermined.
MIN_POINTS = 4


@dataclass(frozen=True)
class Pieces:
    """X: B puzzles with N pieces and P points in all, concatenated. Make one with `from_clouds` and `collate`.

    A pose g of a piece acts on `points`. `to_user` converts it to a motion of the cloud that the user gave.
    """

    points: Tensor  # (P, 3), each piece in its own frame
    normals: Tensor | None  # (P, 3) unit vectors, or None
    sizes: Tensor  # (N,) the number of points of each piece
    counts: Tensor  # (B,) the number of pieces of each puzzle
    centers: Tensor  # (N, 3) float64, the piece's origin in the user's frame
    scales: Tensor  # (B,) float64, user units per unit of `points`
    focus: Tensor | None = None  # (P,) bool, points that a pyramid keeps more of, as those near breaks; None: all alike

    def __post_init__(self) -> None:
        if self.points.ndim != 2 or self.points.shape[1] != 3:
            raise InputError(f"points must have shape (P, 3), got {tuple(self.points.shape)}")
        if int(self.sizes.sum()) != len(self.points) or int(self.counts.sum()) != len(self.sizes):
            raise InputError(
                "the sizes of the pieces must add up to the points, and the counts of puzzles to the pieces"
            )
        if self.normals is not None and self.normals.shape != self.points.shape:
            raise InputError(f"{tuple(self.points.shape)} points but {tuple(self.normals.shape)} normals")
        if self.focus is not None and self.focus.shape != self.points.shape[:1]:
            raise InputError(f"{len(self.points)} points but a focus of shape {tuple(self.focus.shape)}")
        if not self.points.is_floating_point():
            raise InputError(f"points must have a floating point dtype, got {self.points.dtype}")

    @staticmethod
    def from_clouds(
        clouds: Sequence[Cloud],
        normals: Sequence[Cloud] | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Pieces:
        """One puzzle from its clouds (n_i, 3), in the user's units. `InputError` for a cloud that cannot be a piece.

        Centring and scaling run in float64, so that georeferenced coordinates keep their digits.
        """
        arrays = [_checked_cloud(cloud, i) for i, cloud in enumerate(clouds)]
        if len(arrays) < 2:
            raise InputError(f"an assembly needs at least 2 pieces, got {len(arrays)}")
        centers = np.stack([a.mean(axis=0) for a in arrays])
        centred = [a - c for a, c in zip(arrays, centers, strict=True)]
        scale = _size(centred)
        points = torch.from_numpy(np.concatenate(centred) / scale)
        directions = None if normals is None else torch.from_numpy(_checked_normals(normals, arrays))
        return Pieces(
            points=points.to(dtype=dtype, device=device),
            normals=None if directions is None else directions.to(dtype=dtype, device=device),
            sizes=torch.tensor([len(a) for a in arrays], device=device),
            counts=torch.tensor([len(arrays)], device=device),
            centers=torch.from_numpy(centers).to(device),
            scales=torch.tensor([scale], dtype=torch.float64, device=device),
        )

    @staticmethod
    def collate(batch: Sequence[Pieces]) -> Pieces:
        """The puzzles of several batches as one batch."""
        _check_alike(batch)
        normals = [p.normals for p in batch if p.normals is not None]
        return Pieces(
            points=torch.cat([p.points for p in batch]),
            normals=torch.cat(normals) if normals else None,
            sizes=torch.cat([p.sizes for p in batch]),
            counts=torch.cat([p.counts for p in batch]),
            centers=torch.cat([p.centers for p in batch]),
            scales=torch.cat([p.scales for p in batch]),
            focus=None if all(p.focus is None for p in batch) else torch.cat([p.focus_mask for p in batch]),
        )

    # -- indices and counts ----------------------------------------------------------------------------------------

    @property
    def piece_of_point(self) -> Tensor:
        """The piece of every point. -> (P,)."""
        return ranges(self.sizes)

    @property
    def puzzle_of_piece(self) -> Tensor:
        """The puzzle of every piece. -> (N,)."""
        return ranges(self.counts)

    @property
    def num_pieces(self) -> int:
        """N, the number of pieces."""
        return len(self.sizes)

    @property
    def num_puzzles(self) -> int:
        """B, the number of puzzles."""
        return len(self.counts)

    @property
    def focus_mask(self) -> Tensor:
        """(P,) bool, the focus; False everywhere if there is none."""
        return torch.zeros_like(self.points[:, 0], dtype=torch.bool) if self.focus is None else self.focus

    def centroids(self) -> Tensor:
        """m(X_i), the mean of every piece's points. -> (N, 3). Zero for pieces of `from_clouds` that were not moved."""
        return segment_mean(self.points, self.piece_of_point, self.num_pieces)

    def exact_clouds(self) -> list[np.ndarray]:
        """The points of every piece in float64, so that no choice by distance depends on the pose. N of (n_i, 3)."""
        points = self.points.detach().to("cpu", torch.float64)
        return [cloud.numpy() for cloud in torch.split(points, self.sizes.tolist())]

    # -- moving ----------------------------------------------------------------------------------------------------

    def move(self, poses: SE3) -> Pieces:
        """gX: every piece moved by its pose (N,). `to_user` still refers to the pieces before the motion."""
        _check_poses(poses, self)
        each = poses[self.piece_of_point]
        normals = None if self.normals is None else (each.rotation @ self.normals[..., None]).squeeze(-1)
        return replace(self, points=each.act(self.points), normals=normals)

    def permute(self, order: Tensor) -> Pieces:
        """sigma X: piece i of the result is piece order[i] of this one. The order (N,) must stay within puzzles."""
        if not torch.equal(order.sort().values, torch.arange(self.num_pieces, device=order.device)):
            raise InputError(f"not a permutation of {self.num_pieces} pieces: {order.tolist()}")
        if not torch.equal(self.puzzle_of_piece[order], self.puzzle_of_piece):
            raise InputError("a permutation of pieces must not move a piece to another puzzle")
        rows = torch.split(torch.arange(len(self.points), device=self.points.device), self.sizes.tolist())
        moved = self.reorder(torch.cat([rows[i] for i in order.tolist()]))
        return replace(moved, sizes=self.sizes[order], centers=self.centers[order])

    def reorder(self, order: Tensor) -> Pieces:
        """The same pieces with their points in another order: point i of the result is point order[i] of this one."""
        return replace(
            self,
            points=self.points[order],
            normals=None if self.normals is None else self.normals[order],
            focus=None if self.focus is None else self.focus[order],
        )

    def keep(self, rows: Tensor) -> Pieces:
        """The same pieces with some of their points only, in the same frames and unit. Rows (P',) ascend."""
        kept = torch.bincount(self.piece_of_point[rows], minlength=self.num_pieces)
        return replace(
            self,
            points=self.points[rows],
            normals=None if self.normals is None else self.normals[rows],
            focus=None if self.focus is None else self.focus[rows],
            sizes=kept,
        )

    def to(self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Pieces:
        """The same pieces in another precision (points and normals) or on another device."""
        return replace(
            self,
            points=self.points.to(dtype=dtype, device=device),
            normals=None if self.normals is None else self.normals.to(dtype=dtype, device=device),
            sizes=self.sizes.to(device=device),
            counts=self.counts.to(device=device),
            centers=self.centers.to(device=device),
            scales=self.scales.to(device=device),
            focus=None if self.focus is None else self.focus.to(device=device),
        )

    def resample(self, clouds: Sequence[np.ndarray], normals: Sequence[np.ndarray] | None) -> Pieces:
        """One puzzle's pieces by other points (n_i, 3) in the user's frame, in the same frames and unit."""
        each = zip(clouds, self.centers.numpy(), strict=True)
        points = np.concatenate([cloud - center for cloud, center in each]) / float(self.scales[0])
        return replace(
            self,
            points=torch.from_numpy(points).to(self.points),
            normals=None if normals is None else torch.from_numpy(np.concatenate(normals)).to(self.points),
            sizes=torch.tensor([len(cloud) for cloud in clouds]),
            focus=None,
        )

    # -- the user's units ------------------------------------------------------------------------------------------

    def to_user(self, poses: SE3) -> SE3:
        """Poses (..., N) of `points` as motions of the clouds in the user's frame and units, in float64.

        A user's point is x = s p + c. Its assembled position is s g(p) = R x + (s t - R c).
        """
        _check_count(poses, self)
        poses = poses.to(torch.float64)
        scale = self.scales[self.puzzle_of_piece][:, None]
        turned = (poses.rotation @ self.centers[..., None]).squeeze(-1)
        return SE3(poses.rotation, scale * poses.translation - turned)

    def from_user(self, poses: SE3) -> SE3:
        """The inverse of `to_user`, in float64 too: far from the origin float32 would lose the gaps between pieces."""
        _check_count(poses, self)
        poses = poses.to(torch.float64)
        scale = self.scales[self.puzzle_of_piece][:, None]
        turned = (poses.rotation @ self.centers[..., None]).squeeze(-1)
        return SE3(poses.rotation, (poses.translation + turned) / scale)


@dataclass(frozen=True)
class Puzzle:
    """Pieces and the poses that assemble them, g~_1 in the paper. The assembled pieces' centres have mean zero."""

    pieces: Pieces
    solution: SE3  # (N,)

    def __post_init__(self) -> None:
        _check_poses(self.solution, self.pieces)

    @staticmethod
    def from_assembled(
        clouds: Sequence[Cloud],
        normals: Sequence[Cloud] | None = None,
        *,
        own: np.ndarray | None = None,
        **options: Any,
    ) -> Puzzle:
        """A puzzle from clouds in their assembled position.

        Pieces that are not the puzzle's `own` (N,) are foreign: the others alone define its centre.
        """
        pieces = Pieces.from_clouds(clouds, normals, **options)
        eye = SE3.identity(pieces.num_pieces, dtype=torch.float64, device=pieces.points.device)
        counted = None if own is None else torch.from_numpy(own).to(pieces.points.device)
        return Puzzle(pieces, center_poses(pieces.from_user(eye), pieces, counted).to(pieces.points.dtype))

    @staticmethod
    def collate(batch: Sequence[Puzzle]) -> Puzzle:
        """The puzzles of several batches as one batch."""
        return Puzzle(Pieces.collate([p.pieces for p in batch]), SE3.cat([p.solution for p in batch]))

    def to(self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Puzzle:
        """The same puzzle in another precision or on another device."""
        return Puzzle(self.pieces.to(dtype=dtype, device=device), self.solution.to(dtype=dtype, device=device))


def center_poses(poses: SE3, pieces: Pieces, own: Tensor | None = None) -> SE3:
    """Poses (N,) of the same assemblies, each shifted so that the centres of its (`own`) pieces have mean zero."""
    puzzle = pieces.puzzle_of_piece
    counted = slice(None) if own is None else own
    places = poses.act(pieces.centroids().to(poses.rotation.dtype))
    middle = segment_mean(places[counted], puzzle[counted], pieces.num_puzzles)
    return SE3(poses.rotation, poses.translation - middle[puzzle])


def _size(centred_clouds: list[np.ndarray]) -> float:
    """The unit of length of a puzzle: sqrt(sum_i r_i^2) with the pieces' radii of gyration r_i.

    The assembled size is not known at inference, so the unit must come from the pieces alone. A radius of gyration does
    not depend on the number of points. The squares of the radii add up as areas do when a surface breaks.
    """
    extent = max(float(np.abs(cloud).max()) for cloud in centred_clouds)  # so that no square over- or underflows
    squared_radii = [np.square(cloud / extent).sum(axis=1).mean() for cloud in centred_clouds]
    return extent * float(np.sqrt(np.sum(squared_radii)))


def _checked_cloud(cloud: Cloud, index: int) -> np.ndarray:
    array = _as_array(cloud, f"piece {index}")
    if array.ndim != 2 or array.shape[1] != 3:
        raise InputError(f"piece {index}: expected points of shape (n, 3), got {array.shape}")
    if len(array) < MIN_POINTS:
        raise InputError(f"piece {index} has {len(array)} points; at least {MIN_POINTS} are needed to orient a piece")
    bad = int((~np.isfinite(array)).any(axis=1).sum())
    if bad:
        raise InputError(f"piece {index} has {bad} points with NaN or infinite coordinates; remove them first")
    if np.ptp(array, axis=0).max() <= 1e-12 * np.abs(array).max():
        raise InputError(f"piece {index}: all of its {len(array)} points coincide")
    return array


def _as_array(cloud: Cloud, what: str) -> np.ndarray:
    try:
        array = np.asarray(cloud.detach().cpu() if isinstance(cloud, Tensor) else cloud)
    except ValueError as error:
        raise InputError(f"{what}: not an array of numbers ({error})") from error
    if not np.issubdtype(array.dtype, np.number) or np.issubdtype(array.dtype, np.complexfloating):
        raise InputError(f"{what}: expected real numbers, got {array.dtype}")
    return array.astype(np.float64)


def _checked_normals(normals: Sequence[Cloud], clouds: list[np.ndarray]) -> np.ndarray:
    if len(normals) != len(clouds):
        raise InputError(f"{len(clouds)} pieces but normals for {len(normals)}")
    checked = []
    for index, (normal, cloud) in enumerate(zip(normals, clouds, strict=True)):
        array = _as_array(normal, f"normals of piece {index}")
        if array.shape != cloud.shape:
            raise InputError(f"piece {index}: {cloud.shape} points but {array.shape} normals")
        length = np.linalg.norm(array, axis=1, keepdims=True)
        bad = int((~(np.isfinite(length) & (length > 0))).sum())
        if bad:
            raise InputError(f"piece {index} has {bad} normals that are zero, NaN or infinite")
        checked.append(array / length)
    return np.concatenate(checked)


def _check_alike(batch: Sequence[Pieces]) -> None:
    if not batch:
        raise InputError("nothing to collate: the list of pieces is empty")
    for what, values in {
        "device": {str(p.points.device) for p in batch},
        "dtype": {str(p.points.dtype) for p in batch},
        "presence of normals": {str(p.normals is not None) for p in batch},
    }.items():
        if len(values) > 1:
            raise InputError(f"pieces of one batch must agree in {what}, got {sorted(values)}")


def _check_count(poses: SE3, pieces: Pieces) -> None:
    if poses.shape[-1:] != (pieces.num_pieces,):
        raise InputError(f"{pieces.num_pieces} pieces need poses (..., {pieces.num_pieces}), got {tuple(poses.shape)}")


def _check_poses(poses: SE3, pieces: Pieces) -> None:
    if poses.shape != (pieces.num_pieces,):
        raise InputError(
            f"{pieces.num_pieces} pieces need poses of shape ({pieces.num_pieces},), got {tuple(poses.shape)}"
        )
    expected, got = (pieces.points.dtype, pieces.points.device), (poses.rotation.dtype, poses.rotation.device)
    if expected != got:
        raise InputError(f"poses are {got[0]} on {got[1]} but the pieces are {expected[0]} on {expected[1]}")
