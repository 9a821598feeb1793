"""Rigid groups: pieces whose relative poses are known, solved as the one piece that they make.

In: N pieces and how those of a group lie to each other. Out: G <= N groups, and the way back (`expand`). The assembler
searches groups in this way (`assembly/search/merged_pieces.py`), and the flow samples them: of pinned pieces, one known
pose only fixes where the finished assembly stands; several known poses of one puzzle make their pieces one group
(`merge_pinned`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from eda.errors import InputError
from eda.lie import SE3
from eda.pieces import Pieces
from eda.registration.rigid import inverse, is_rigid

# The largest deviation from a rotation that counts as rounding.
PIN_TOLERANCE = 1e-3


@dataclass(frozen=True)
class RigidGroups:
    """G groups of N pieces; most are of one piece."""

    group: Tensor  # (N,) the group of every piece
    first: Tensor  # (G,) the first piece of every group
    T_group_piece: SE3  # (N,) the pose of every piece in the frame of its group

    @staticmethod
    def of(poses: SE3, groups: Sequence[Sequence[int]]) -> RigidGroups:
        """Groups of pieces at poses (N,). The frame of a group is that of its first piece.

        Groups of more than one piece come first, in the given order. Raises `InputError` if they are not disjoint.
        """
        num_pieces, device = len(poses), poses.rotation.device
        members = [sorted(set(group)) for group in groups if len(set(group)) > 1]
        grouped = [i for group in members for i in group]
        if len(grouped) != len(set(grouped)) or not all(0 <= i < num_pieces for i in grouped):
            raise InputError(f"rigid groups must be disjoint sets of the pieces 0 to {num_pieces - 1}, got {groups}")
        members += [[i] for i in range(num_pieces) if i not in grouped]
        group = torch.empty(num_pieces, dtype=torch.int64, device=device)
        for number, rows in enumerate(members):
            group[rows] = number
        first = torch.tensor([rows[0] for rows in members], device=device)
        still = SE3.identity(num_pieces, dtype=poses.rotation.dtype, device=device)
        alone = torch.bincount(group)[group] == 1
        return RigidGroups(group, first, still.where(alone, poses[first[group]].inverse() @ poses))

    @property
    def is_trivial(self) -> bool:
        """Whether every group is a single piece."""
        return len(self.first) == len(self.group)

    def expand(self, poses: SE3) -> SE3:
        """Poses (..., G) of the groups -> (..., N) of their pieces."""
        return poses[..., self.group] @ self.T_group_piece

    def merge_pair_poses(self, pair_poses: Mapping[tuple[int, int], np.ndarray]) -> dict[tuple[int, int], np.ndarray]:
        """Relative poses T_b_a (M, 4, 4) of groups a < b, from those T_j_i of pieces i < j, by pair."""
        found: dict[tuple[int, int], list[np.ndarray]] = {}
        T_group_piece, group = self.T_group_piece.matrix().cpu().numpy(), self.group.tolist()
        for (i, j), T_j_i in pair_poses.items():
            a, b = group[i], group[j]
            T_b_a = T_group_piece[j] @ T_j_i @ inverse(T_group_piece[i])
            if a != b:
                found.setdefault((min(a, b), max(a, b)), []).append(T_b_a if a < b else inverse(T_b_a))
        return {pair: np.concatenate(several) for pair, several in found.items()}


# -- pinned pieces -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PinnedPieces:
    """The puzzles to solve in place of those with pins, and the way back."""

    pieces: Pieces  # with the pinned pieces of every puzzle merged into one
    groups: RigidGroups  # what was merged
    is_pinned: Tensor  # (N,) whether the piece's pose is known
    pins: SE3  # (N,) the known poses; the identity elsewhere
    puzzle: Tensor  # (N,) the puzzle of each original piece

    def expand(self, poses: SE3) -> SE3:
        """Poses (..., G) of the merged pieces -> (..., N) of the original ones, the pinned ones where they belong."""
        full = self.groups.expand(poses)
        for b in self.puzzle[self.is_pinned].unique().tolist():
            members = self.puzzle == b
            anchor = int((members & self.is_pinned).nonzero()[0])
            shift = self.pins[anchor] @ full[..., anchor].inverse()
            moved = shift[..., None] @ full[..., members]
            rotation, translation = full.rotation.clone(), full.translation.clone()
            rotation[..., members, :, :], translation[..., members, :] = moved.rotation, moved.translation
            full = SE3(rotation, translation)
        # What is known stays as it was given, to the last bit.
        return self.pins.where(self.is_pinned, full)


def merge_pinned(pieces: Pieces, pins: Mapping[int, SE3]) -> PinnedPieces:
    """The puzzles with their pinned pieces merged.

    Pins name pieces by their index in the batch, each with the pose it must have, in the units of `points`.
    """
    poses = _checked_pins(pieces, pins)
    is_pinned = torch.zeros(pieces.num_pieces, dtype=torch.bool, device=pieces.points.device)
    is_pinned[list(pins)] = True
    # A merged piece takes the place of its first member, so the pieces of a puzzle stay together.
    puzzle = pieces.puzzle_of_piece
    leader = torch.arange(pieces.num_pieces, device=puzzle.device)
    for b in range(pieces.num_puzzles):
        members = ((puzzle == b) & is_pinned).nonzero().squeeze(-1)
        if len(members):
            leader[members] = members[0]
    first, group = leader.unique(return_inverse=True)
    merged, groups = _merge(pieces, RigidGroups(group, first, poses), is_pinned)
    return PinnedPieces(merged, groups, is_pinned, poses, puzzle)


def _checked_pins(pieces: Pieces, pins: Mapping[int, SE3]) -> SE3:
    """(N,) the pins, and the identity elsewhere. Raises `InputError`."""
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
        if not is_rigid(pose.matrix().detach().cpu().numpy(), PIN_TOLERANCE):
            raise InputError(f"the pin of piece {index} is not a rotation (it scales, shears or mirrors)")
        rotation[index], translation[index] = pose.rotation.to(like), pose.translation.to(like)
    return SE3(rotation, translation)


def _merge(pieces: Pieces, groups: RigidGroups, is_pinned: Tensor) -> tuple[Pieces, RigidGroups]:
    """Pinned pieces in their known position, as one cloud centred on its own mean; the others as they were."""
    first, group = groups.first, groups.group
    placed = pieces.move(groups.T_group_piece)
    group_of_point = group[pieces.piece_of_point]
    order = torch.argsort(group_of_point, stable=True)
    joined = replace(
        placed.reorder(order),
        sizes=torch.bincount(group_of_point, minlength=len(first)),
        counts=torch.bincount(pieces.puzzle_of_piece[first], minlength=pieces.num_puzzles),
        centers=torch.zeros(len(first), 3, dtype=pieces.centers.dtype, device=pieces.centers.device),
    )
    # A piece that was not pinned keeps its origin; a merged one gets its mean as origin.
    origin = torch.where(is_pinned[first][:, None], joined.centroids(), 0.0)
    joined = replace(joined, points=joined.points - origin[joined.piece_of_point])
    poses = groups.T_group_piece
    return joined, replace(groups, T_group_piece=SE3(poses.rotation, poses.translation - origin[group]))
