"""For tests of pose graphs: poses, relative poses that are nearly right, and how far found poses are from true ones."""

import numpy as np
from scipy.spatial.transform import Rotation


def random_poses(count: int, rng: np.random.Generator) -> np.ndarray:
    poses = np.tile(np.eye(4), (count, 1, 1))
    poses[:, :3, :3] = Rotation.random(count, random_state=rng).as_matrix()
    poses[:, :3, 3] = rng.uniform(-3, 3, (count, 3))
    return poses


def relative(poses: np.ndarray, i: int, j: int) -> np.ndarray:
    """Scan i in the frame of scan j."""
    return np.linalg.inv(poses[j]) @ poses[i]


def shaken(pose: np.ndarray, rng: np.random.Generator, size: float) -> np.ndarray:
    """A pose turned and moved by about so much, in radians and lengths."""
    moved = pose.copy()
    moved[:3, :3] = Rotation.from_rotvec(rng.normal(0, size / 2, 3)).as_matrix() @ pose[:3, :3]
    moved[:3, 3] += rng.normal(0, size / 2, 3)
    return moved


def between(found: np.ndarray, true: np.ndarray) -> float:
    """How far the entries of any relative pose are off at most."""
    pairs = [(i, j) for i in range(len(true)) for j in range(len(true))]
    return max(float(np.abs(relative(found, i, j) - relative(true, i, j)).max()) for i, j in pairs)
