"""For tests of `assemble`: a generated stone in pieces, and its pieces turned and moved apart."""

import numpy as np
from scipy.spatial.transform import Rotation
from support.rigid_motions import rigid_motions, transform_points

from eda.data import Example, FractureConfig, FractureSource


def stone(num_pieces: int = 2, num_points: int = 4000) -> Example:
    """A solid stone in so many pieces with rough breaks, the same every time."""
    config = FractureConfig(min_pieces=num_pieces, max_pieces=num_pieces, num_points=num_points, kinds=("rough",))
    return FractureSource(config, seed=3, shapes=("stone",))[0]


def scattered(example: Example, scale: float = 1.0, seed: int = 0) -> tuple[list, list, np.ndarray]:
    """Clouds and normals turned and moved at random, and the motions (N, 4, 4) that put them back."""
    count = example.num_pieces
    rotations = Rotation.random(count, random_state=seed).as_matrix()
    away = rigid_motions(rotations, np.random.default_rng(seed).normal(size=(count, 3)) * 5 * scale)
    clouds = [transform_points(g, scale * c.astype(float)) for c, g in zip(example.clouds(), away, strict=True)]
    normals = [n @ r.T for n, r in zip(example.clouds(example.normals), rotations, strict=True)]
    return clouds, normals, np.linalg.inv(away)
