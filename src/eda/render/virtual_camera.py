"""Camera: from where a scene is seen. It does not depend on the size of a picture in pixels.

In: points of the world. Out: points in the picture's square -1 .. 1, with a depth; planes stay planes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

EYE_DISTANCE = 6.0  # from the eye to the centre, in radii of the scene: a mild perspective


@dataclass(frozen=True)
class Camera:
    """A view of a ball. `rotation @ (x - center)` has the axes right, up and towards the viewer."""

    rotation: np.ndarray  # (3, 3)
    center: np.ndarray  # (3,) the point in the middle of the picture
    radius: float  # of the ball that just fits into the picture
    eye: float = EYE_DISTANCE  # distance of the eye from the centre, in radii; infinite: no perspective

    def project(self, points: np.ndarray) -> np.ndarray:
        """World to picture: x right, y up, both in -1 .. 1 for the ball, z towards the viewer. (n, 3) -> (n, 3).

        It is a projective map of all three coordinates, so that planes stay planes and depths can be interpolated.
        """
        offsets = (points - self.center) @ self.rotation.T / self.radius
        return offsets * self._perspective(offsets[:, 2:])

    def magnification(self, points: np.ndarray) -> np.ndarray:
        """The size in the picture of a unit of length at each of the points. (n, 3) -> (n,)."""
        depth = (points - self.center) @ self.rotation[2] / self.radius
        return self._perspective(depth) / self.radius

    def rotate(self, directions: np.ndarray) -> np.ndarray:
        """Directions of the world as right, up, towards the viewer. (n, 3) -> (n, 3)."""
        return directions @ self.rotation.T

    def framing(self, points: np.ndarray, margin: float = 1.12) -> Camera:
        """A camera that looks in the same direction, with these points filling the picture."""
        rotated = points @ self.rotation.T
        low, high = rotated.min(axis=0), rotated.max(axis=0)
        radius = max(float((high - low).max()) / 2, 1e-9 * float(np.abs(rotated).max()), 1e-30)
        camera = replace(self, center=(low + high) / 2 @ self.rotation, radius=radius)
        for _ in range(3):  # nearer things look larger, so the centre and the radius are found by iteration
            camera = camera._refit(points)
        return replace(camera, radius=camera.radius * margin)

    def _refit(self, points: np.ndarray) -> Camera:
        """The camera with its centre and radius corrected by how the points project now."""
        projected = self.project(points)[:, :2]
        low, high = projected.min(axis=0), projected.max(axis=0)
        shift = self.radius * ((low + high) / 2) @ self.rotation[:2]
        # Not nearer than half the depth: the eye must stay outside.
        depth = float(np.ptp(points @ self.rotation[2]))
        return replace(
            self, center=self.center + shift, radius=max(self.radius * float((high - low).max()) / 2, depth / 4)
        )

    def _perspective(self, depth: np.ndarray) -> np.ndarray:
        return 1 / np.maximum(1 - depth / self.eye, 0.2)  # a point at the eye would be infinitely large


def look_from(direction: np.ndarray, up: np.ndarray, *, eye: float = EYE_DISTANCE) -> Camera:
    """A camera that stands in this direction from the origin and looks back at it, with `up` upright.

    It still has to be framed: `look_from(...).framing(points)`.
    """
    back = _unit(direction)
    right = np.cross(up, back)
    if np.linalg.norm(right) < 1e-6 * np.linalg.norm(up):  # looking straight down: any direction will do
        right = np.cross(np.eye(3)[np.abs(back).argmin()], back)
    right = _unit(right)
    return Camera(np.stack([right, np.cross(back, right), back]), np.zeros(3), 1.0, eye)


def _unit(vector: np.ndarray) -> np.ndarray:
    return np.asarray(vector, dtype=np.float64) / np.linalg.norm(vector)
