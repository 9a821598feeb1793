"""For tests: lumpy closed surfaces without symmetry, with outward normals, from a seed; a tiny model."""

import numpy as np
import torch

from eda import EdaConfig, NetworkConfig, Pieces, Puzzle

TINY_NETWORK = NetworkConfig(
    num_levels=2, num_blocks=1, num_neighbors=4, cross_neighbors=3, channels=8, num_heads=2, num_knots=5, spacing=0.2
)
TINY = EdaConfig(TINY_NETWORK)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def lumpy_cloud(seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """`size` points on a random asymmetric blob of radius about one, and their normals. -> (size, 3) twice."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=(size, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    waves, phases = rng.normal(size=(4, 3)), rng.uniform(0, 2 * np.pi, size=4)
    stretch = rng.uniform(0.5, 1.0, size=3)
    radius = 1 + 0.15 * np.sin(direction @ waves.T * 2 + phases).sum(axis=1, keepdims=True)
    points = direction * radius * stretch
    normals = direction / stretch
    return points, normals / np.linalg.norm(normals, axis=1, keepdims=True)


def lumpy_pieces(
    num_pieces: int = 3,
    size: int = 60,
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    normals: bool = True,
) -> Pieces:
    """One puzzle of blobs; sizes differ a little from piece to piece."""
    clouds = [lumpy_cloud(100 * seed + i, size + 3 * i) for i in range(num_pieces)]
    return Pieces.from_clouds(
        [points for points, _ in clouds], [n for _, n in clouds] if normals else None, dtype=dtype
    )


def two_puzzles(first_size: int = 24, second_size: int = 30, *, normals: bool = True) -> Pieces:
    """A batch of a puzzle of 3 blobs and one of 2, whose pieces have about so many points."""
    return Pieces.collate(
        [lumpy_pieces(3, first_size, normals=normals), lumpy_pieces(2, second_size, seed=1, normals=normals)]
    )


def lumpy_puzzle(num_pieces: int = 3, size: int = 60, *, seed: int = 0, dtype: torch.dtype = torch.float64) -> Puzzle:
    """Blobs in assembled positions around the origin, with their solution."""
    rng = np.random.default_rng(seed)
    clouds, normals = zip(*[lumpy_cloud(100 * seed + i, size + 3 * i) for i in range(num_pieces)], strict=True)
    places = rng.normal(size=(num_pieces, 3)) * 1.5
    return Puzzle.from_assembled([c + p for c, p in zip(clouds, places, strict=True)], normals, dtype=dtype)
