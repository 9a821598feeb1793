"""For tests of pieces: blobs as users have them, in other units and places."""

import numpy as np
from support.lumpy_shapes import lumpy_cloud

GEOREFERENCED = np.array([6e6, 4.5e6, 120.0])


def clouds_of(count: int = 3, size: int = 40) -> list[np.ndarray]:
    """Blobs of different sizes, each somewhere else."""
    rng = np.random.default_rng(0)
    return [(1 + i) * lumpy_cloud(i, size + i)[0] + 3 * rng.normal(size=3) for i in range(count)]


def normals_of(count: int = 3, size: int = 40) -> list[np.ndarray]:
    return [lumpy_cloud(i, size + i)[1] for i in range(count)]
