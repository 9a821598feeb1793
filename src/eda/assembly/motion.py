"""Rigid motions as arrays (..., 4, 4) of float64: the few things that refinement asks of them."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation


def inverse(motion: np.ndarray) -> np.ndarray:
    """g^-1. (..., 4, 4) -> (..., 4, 4)."""
    back = np.zeros_like(motion)
    back[..., :3, :3] = np.swapaxes(motion[..., :3, :3], -1, -2)
    back[..., :3, 3] = -(back[..., :3, :3] @ motion[..., :3, 3:])[..., 0]
    back[..., 3, 3] = 1
    return back


def act(motion: np.ndarray, points: np.ndarray) -> np.ndarray:
    """g x for motions (..., 4, 4) and points (n, 3) or (..., n, 3). -> (..., n, 3)."""
    return turn(motion, points) + motion[..., None, :3, 3]


def turn(motion: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The rotation of g on vectors, as `act`."""
    return vectors @ np.swapaxes(motion[..., :3, :3], -1, -2)


def moved_about(motion: np.ndarray, centers: np.ndarray, twist: np.ndarray) -> np.ndarray:
    """Motions after a turn by w about their `centers` and a shift by t. (..., 4, 4), (..., 3), (..., 6) -> (..., 4, 4).

    A turn about a piece's own place, not the origin: so a step does not depend on where the whole lies.
    """
    rotation = Rotation.from_rotvec(twist[..., :3].reshape(-1, 3)).as_matrix().reshape(*twist.shape[:-1], 3, 3)
    moved = motion.copy()
    moved[..., :3, :3] = rotation @ motion[..., :3, :3]
    arm = (motion[..., :3, 3] - centers)[..., None]
    moved[..., :3, 3] = (rotation @ arm)[..., 0] + centers + twist[..., 3:]
    return moved


def angle(motion: np.ndarray) -> np.ndarray:
    """The angle of rotation in radians. (..., 4, 4) -> (...)."""
    flat = motion[..., :3, :3].reshape(-1, 3, 3)
    return Rotation.from_matrix(flat).magnitude().reshape(motion.shape[:-2])
