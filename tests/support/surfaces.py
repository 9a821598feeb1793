"""For tests: closed surfaces with known normals, and open ones as a scanner sees them."""

import numpy as np


def directions(seed: int, count: int) -> np.ndarray:
    points = np.random.default_rng(seed).normal(size=(count, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def ellipsoid(count: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    axes = np.array([3.0, 1.0, 0.6])
    unit = directions(0, count)
    normals = unit / axes
    return unit * axes, normals / np.linalg.norm(normals, axis=1, keepdims=True)


def box(count: int = 3000, sides: tuple[float, float, float] = (2.0, 1.5, 0.25)) -> tuple[np.ndarray, np.ndarray]:
    """Six flat faces that meet at right angles, one side much shorter than the others."""
    size, rng = np.array(sides), np.random.default_rng(1)
    areas = np.repeat(size.prod() / size, 2)
    face = rng.choice(6, count, p=areas / areas.sum())
    points, normals = rng.random((count, 3)) * size, np.zeros((count, 3))
    rows, axis, far = np.arange(count), face // 2, face % 2
    points[rows, axis], normals[rows, axis] = far * size[axis], 2.0 * far - 1
    return points, normals


def torus(count: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    around, across = np.random.default_rng(2).uniform(0, 2 * np.pi, (2, count))
    ring = np.stack([np.cos(around), np.sin(around), np.zeros(count)], axis=1)
    normals = ring * np.cos(across)[:, None] + np.array([0, 0, 1]) * np.sin(across)[:, None]
    return ring + 0.4 * normals, normals


def walls(seed: int, count: int = 4000) -> np.ndarray:
    """Patches of walls, as a scanner in a room sees them: flat, each with its own rim."""
    rng = np.random.default_rng(seed)
    corners, sides = rng.normal(size=(6, 3)) * 3, rng.normal(size=(6, 2, 3))
    patch = np.arange(count) % 6
    return corners[patch] + np.einsum("nk,nki->ni", rng.random((count, 2)), sides[patch])
