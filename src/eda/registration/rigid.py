"""Rigid motions as NumPy arrays (..., 4, 4) of float64; `SE3` is the same in torch.

A pose is named by its frames where that helps: T_target_source takes coordinates of the source frame to the target's.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation


def is_rigid(matrices: np.ndarray, tolerance: float) -> bool:
    """Whether matrices (..., 3 or 4, 4) are finite and their 3 x 3 parts rotations, to within a rounding error.

    The last of four rows is not looked at.
    """
    rotation = matrices[..., :3, :3]
    if not np.isfinite(matrices).all():
        return False
    deviation = np.abs(rotation @ np.swapaxes(rotation, -1, -2) - np.eye(3)).max(initial=0)
    return bool(deviation <= tolerance and (np.linalg.det(rotation) > 0).all())


def inverse(motion: np.ndarray) -> np.ndarray:
    """g^-1. (..., 4, 4) -> (..., 4, 4)."""
    back = np.zeros_like(motion)
    back[..., :3, :3] = np.swapaxes(motion[..., :3, :3], -1, -2)
    back[..., :3, 3] = -(back[..., :3, :3] @ motion[..., :3, 3:])[..., 0]
    back[..., 3, 3] = 1
    return back


def act(motion: np.ndarray, points: np.ndarray) -> np.ndarray:
    """g x for motions (..., 4, 4) and points (n, 3) or (..., n, 3). -> (..., n, 3)."""
    return rotate(motion, points) + motion[..., None, :3, 3]


def rotate(motion: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """R v, by the rotations of motions (..., 4, 4), for vectors (n, 3) or (..., n, 3). -> (..., n, 3)."""
    return vectors @ np.swapaxes(motion[..., :3, :3], -1, -2)


def relative_poses(poses: np.ndarray, pair: tuple[int, int]) -> np.ndarray:
    """T_j_i: piece i in the frame of piece j, in assemblies (K, N, 4, 4). -> (K, 4, 4)."""
    i, j = pair
    return inverse(poses[:, j]) @ poses[:, i]


def move_about(motion: np.ndarray, centers: np.ndarray, twist: np.ndarray) -> np.ndarray:
    """Motions after a rotation exp(w) about their `centers` and a shift by t: the step of a solver.

    (..., 4, 4), (..., 3), twists (w, t) (..., 6) -> (..., 4, 4). A rotation about a piece's own place, not about the
    origin: so a step does not depend on where the whole lies.
    """
    rotation = Rotation.from_rotvec(twist[..., :3].reshape(-1, 3)).as_matrix().reshape(*twist.shape[:-1], 3, 3)
    moved = motion.copy()
    moved[..., :3, :3] = rotation @ motion[..., :3, :3]
    arm = (motion[..., :3, 3] - centers)[..., None]
    moved[..., :3, 3] = (rotation @ arm)[..., 0] + centers + twist[..., 3:]
    return moved


def largest_displacement(corners: np.ndarray, pose: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How far apart two poses (..., 4, 4) put any point of a piece inside the box of these corners (8, 3). -> (...)."""
    apart = np.square(act(pose, corners) - act(other, corners)).sum(axis=-1)
    return np.sqrt(apart.max(axis=-1))
