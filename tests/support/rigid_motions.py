"""For tests: rigid motions (4, 4) by chance or from their parts, and points moved by them. Rotations are by scipy."""

import math

import numpy as np
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor

from eda import SE3


def rigid_motions(rotations: np.ndarray, translations: np.ndarray) -> np.ndarray:
    """(..., 4, 4) from rotations (..., 3, 3) and translations (..., 3)."""
    motions = np.zeros((*rotations.shape[:-2], 4, 4))
    motions[..., :3, :3], motions[..., :3, 3], motions[..., 3, 3] = rotations, translations, 1
    return motions


def transform_points(motion: np.ndarray, points: np.ndarray) -> np.ndarray:
    """R x + t for a motion (4, 4) and points (3,) or (n, 3)."""
    return points @ motion[:3, :3].T + motion[:3, 3]


def random_motions(count: int, seed: int, spread: float = 1.0) -> Tensor:
    """Uniform rotations and normally distributed translations. -> (count, 4, 4) float64."""
    rng = np.random.default_rng(seed)
    rotations = Rotation.random(count, rng).as_matrix()
    return torch.from_numpy(rigid_motions(rotations, rng.normal(size=(count, 3)) * spread))


def random_motion(seed: int, spread: float) -> np.ndarray:
    """One of `random_motions`. -> (4, 4)."""
    return random_motions(1, seed, spread)[0].numpy()


def random_se3(count: int, seed: int = 0, spread: float = 1.0) -> SE3:
    """The same as `random_motions`, as SE3 (count,)."""
    return SE3.from_matrix(random_motions(count, seed, spread))


def random_se3_batch(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> SE3:
    """`random_se3` in any batch shape and precision."""
    return random_se3(math.prod(shape), seed).reshape(*shape).to(dtype)


def random_motion_in_box(rng: np.random.Generator, reach: float = 1.0) -> np.ndarray:
    """A uniform rotation, and a translation that is uniform in [-reach, reach]^3. -> (4, 4)."""
    rotation = Rotation.random(random_state=rng.integers(2**31)).as_matrix()
    return rigid_motions(rotation, rng.uniform(-reach, reach, 3))


def random_motion_of_size(rng: np.random.Generator, degrees: float, distance: float) -> np.ndarray:
    """A turn by this angle about a random axis, and a shift by this distance. -> (4, 4)."""
    axis, shift = rng.normal(size=(2, 3))
    turn = Rotation.from_rotvec(np.deg2rad(degrees) * axis / np.linalg.norm(axis))
    return rigid_motions(turn.as_matrix(), distance * shift / np.linalg.norm(shift))
