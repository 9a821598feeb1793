"""For tests of pictures: small scenes with known colours, and what is seen in a pixel."""

import numpy as np
from support.lumpy_shapes import lumpy_cloud

from eda.data import OUTER, Example
from eda.render import Camera
from eda.render.colors import BACKGROUND, as_bytes

RED, GREEN = np.array([0.9, 0.1, 0.1]), np.array([0.1, 0.8, 0.1])

FRONT = Camera(np.eye(3), np.zeros(3), 1.0, np.inf)  # looks along -z, no perspective


def square(half: float, z: float, count: int = 20) -> np.ndarray:
    """A grid of points that faces the camera."""
    side = np.linspace(-half, half, count)
    x, y = np.meshgrid(side, side)
    return np.stack([x.ravel(), y.ravel(), np.full(count * count, z)], axis=1)


def facing(points: np.ndarray) -> np.ndarray:
    return np.broadcast_to([0.0, 0.0, 1.0], points.shape)


def hue(pixel: np.ndarray) -> int:
    """The strongest channel."""
    return int(pixel.argmax())


def is_background(picture: np.ndarray) -> np.ndarray:
    return (picture == as_bytes(BACKGROUND)).all(axis=-1)


def blob(contact: bool = True, foreign: bool = False, count: int = 250) -> Example:
    """A lumpy body cut by two planes into four pieces, or three and one foreign."""
    points, normals = lumpy_cloud(3, 4 * count)
    piece = 2 * (points[:, 0] > 0) + (points[:, 2] > 0.1)
    rows = [piece == i for i in range(4)]
    labels = [np.where(np.abs(points[r, 0]) < 0.1, 0, OUTER) for r in rows]
    return Example.from_clouds(
        "blob",
        [points[r] for r in rows],
        [normals[r] for r in rows],
        labels if contact else None,
        [False, False, False, True] if foreign else None,
    )
