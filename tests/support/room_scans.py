"""For tests of scans: a room with boxes in it, and two views of it."""

import numpy as np
from scipy.spatial.transform import Rotation


def room(seed: int, count: int = 9000) -> np.ndarray:
    """A floor, two walls and boxes of all sizes and directions on the floor, as points."""
    rng = np.random.default_rng(seed)
    flat = rng.random((count // 3, 2)) * [4, 3]
    side = np.arange(len(flat)) % 3
    zero = np.zeros(len(flat))
    walls = np.stack([np.where(side == 1, zero, flat[:, 0]), np.where(side == 2, zero, flat[:, 1]), zero], axis=1)
    walls[side > 0, 2] = rng.random((side > 0).sum()) * 2
    faces = rng.normal(size=(count - len(flat), 3))
    faces /= np.abs(faces).max(axis=1, keepdims=True)  # on the cube [-1, 1]^3
    box = rng.integers(14, size=len(faces))
    turns, sizes = Rotation.random(14, rng).as_matrix(), rng.uniform(0.15, 0.5, size=(14, 3))
    middles = rng.uniform([0.3, 0.3, 0.1], [3.7, 2.7, 1.0], size=(14, 3))
    return np.concatenate([walls, np.einsum("nij,nj->ni", turns[box], faces * sizes[box]) + middles[box]])


def degrees(pose: np.ndarray) -> float:
    return float(np.degrees(Rotation.from_matrix(pose[..., :3, :3]).magnitude().min()))


def two_views() -> list[np.ndarray]:
    """Two scans of one room, in place, that share two fifths of it and no point."""
    whole = room(0)
    first = np.arange(len(whole)) % 2 == 0
    return [whole[first & (whole[:, 0] < 2.8)], whole[~first & (whole[:, 0] > 1.2)]]
