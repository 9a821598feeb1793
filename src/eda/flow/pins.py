"""Pieces whose relative pose is already known.

One known pose only fixes where the finished assembly stands. Several known poses of one puzzle make their pieces one
rigid piece, which is merged before sampling and taken apart again afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eda.errors import InputError
from eda.lie import SE3
from eda.pieces import Pieces


@dataclass(frozen=True)
class Merged:
    """The puzzle to solve in place of the pinned one, and the way back."""

    pieces: Pieces  # with the pinned pieces of every puzzle merged into one
    part_of: Tensor  # (N,) the merged piece that each original piece went into
    inner: SE3  # (N,) the original piece's pose in the frame of that merged piece
    pinned: Tensor  # (N,) whether the piece's pose is known
    pins: SE3  # (N,) the known poses; the identity elsewhere
    puzzle: Tensor  # (N,) the puzzle of each original piece

    def restore(self, poses: SE3) -> SE3:
        """Poses (..., N') of the merged pieces -> (..., N) of the original ones, the pinned ones where they belong."""
        full = poses[..., self.part_of] @ self.inner
        for b in self.puzzle[self.pinned].unique().tolist():
            members = self.puzzle == b
            anchor = int((members & self.pinned).nonzero()[0])
            shift = self.pins[anchor] @ full[..., anchor].inverse()
            moved = shift[..., None] @ full[..., members]
            rotation, translation = full.rotation.clone(), full.translation.clone()
            rotation[..., members, :, :], translation[..., members, :] = moved.rotation, moved.translation
            full = SE3(rotation, translation)
        # What is known stays as it was given, to the last bit.
        return SE3(
            torch.where(self.pinned[:, None, None], self.pins.rotation, full.rotation),
            torch.where(self.pinned[:, None], self.pins.translation, full.translation),
        )


def merge_pinned(pieces: Pieces, pins: Mapping[int, SE3]) -> Merged:
    """Pins name pieces by their index in the batch, each with the pose it must have, in the units of `points`."""
    poses = _pin_poses(pieces, pins)
    pinned = torch.zeros(pieces.num_pieces, dtype=torch.bool, device=pieces.points.device)
    pinned[list(pins)] = True
    # A merged piece takes the place of its first member, so the pieces of a puzzle stay together.
    puzzle = pieces.puzzle_of_piece
    group = torch.arange(pieces.num_pieces, device=puzzle.device)
    for b in range(pieces.num_puzzles):
        members = ((puzzle == b) & pinned).nonzero().squeeze(-1)
        if len(members):
            group[members] = members[0]
    leaders, part_of = group.unique(return_inverse=True)
    merged, inner = _merge(pieces, poses, pinned, part_of, leaders)
    return Merged(merged, part_of, inner, pinned, poses, puzzle)


def _pin_poses(pieces: Pieces, pins: Mapping[int, SE3]) -> SE3:
    like = pieces.points
    rotation = torch.eye(3, dtype=like.dtype, device=like.device).repeat(pieces.num_pieces, 1, 1)
    translation = torch.zeros(pieces.num_pieces, 3, dtype=like.dtype, device=like.device)
    for index, pose in pins.items():
        if type(index) is not int or not 0 <= index < pieces.num_pieces:
            raise InputError(f"there is no piece {index!r} to pin: the pieces are 0 to {pieces.num_pieces - 1}")
        if pose.shape != ():
            raise InputError(
                f"the pin of piece {index} must be a single pose, got a batch of shape {tuple(pose.shape)}"
            )
        if not pose.isfinite():
            raise InputError(f"the pin of piece {index} has NaN or infinite entries")
        drift = (pose.rotation.mT @ pose.rotation - torch.eye(3).to(pose.rotation)).abs().max()
        if drift > 1e-3 or torch.linalg.det(pose.rotation) < 0:
            raise InputError(f"the pin of piece {index} is not a rotation (it scales, shears or mirrors)")
        rotation[index], translation[index] = pose.rotation.to(like), pose.translation.to(like)
    return SE3(rotation, translation)


def _merge(pieces: Pieces, poses: SE3, pinned: Tensor, part_of: Tensor, leaders: Tensor) -> tuple[Pieces, SE3]:
    """Pinned pieces in their known position, as one cloud centred on its own mean; the others as they were."""
    placed = pieces.moved(poses)
    new_piece_of_point = part_of[pieces.piece_of_point]
    order = torch.argsort(new_piece_of_point, stable=True)
    sizes = torch.bincount(new_piece_of_point, minlength=len(leaders))
    joined = replace(
        placed,
        points=placed.points[order],
        normals=None if placed.normals is None else placed.normals[order],
        sizes=sizes,
        counts=torch.bincount(pieces.puzzle_of_piece[leaders], minlength=pieces.num_puzzles),
        centers=torch.zeros(len(leaders), 3, dtype=pieces.centers.dtype, device=pieces.centers.device),
    )
    # A piece that was not pinned keeps its origin; a merged one gets its mean as origin.
    origin = torch.where(pinned[leaders][:, None], joined.centroids(), 0.0)
    joined = replace(joined, points=joined.points - origin[joined.piece_of_point])
    return joined, SE3(poses.rotation, poses.translation - origin[part_of])
