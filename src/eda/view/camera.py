"""Camera: where the viewer stands. It knows no pixels of a picture's own; any picture can use the same one.

In: points of the world. Out: points on the picture's square -1 .. 1 with a depth, so that what is flat stays flat.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

EYE_DISTANCE = 6.0  # of the eye from the middle, in radii of what is seen: a mild perspective


@dataclass(frozen=True)
class Camera:
    """A view of a ball. `rotation @ (x - center)` has the axes right, up and towards the viewer."""

    rotation: np.ndarray  # (3, 3)
    center: np.ndarray  # (3,) what the picture's middle shows
    radius: float  # of the ball that just fits into the picture
    eye: float = EYE_DISTANCE  # distance of the eye from the centre, in radii; infinite: no perspective

    def project(self, points: np.ndarray) -> np.ndarray:
        """World to picture: x right, y up, both in -1 .. 1 for the ball, z towards the viewer. (n, 3) -> (n, 3).

        It is a projective map of all three coordinates, so that planes stay planes and depths can be interpolated.
        """
        seen = (points - self.center) @ self.rotation.T / self.radius
        return seen * self._magnification(seen[:, 2:])

    def magnification(self, points: np.ndarray) -> np.ndarray:
        """How large a unit of length at these points is on the picture. (n, 3) -> (n,)."""
        depth = (points - self.center) @ self.rotation[2] / self.radius
        return self._magnification(depth) / self.radius

    def turn(self, directions: np.ndarray) -> np.ndarray:
        """Directions in the world as right, up, towards the viewer. (n, 3) -> (n, 3)."""
        return directions @ self.rotation.T

    def framing(self, points: np.ndarray, margin: float = 1.12) -> Camera:
        """The same direction, with the picture filled by these points."""
        seen = points @ self.rotation.T
        low, high = seen.min(axis=0), seen.max(axis=0)
        radius = max(float((high - low).max()) / 2, 1e-9 * float(np.abs(seen).max()), 1e-30)
        camera = replace(self, center=(low + high) / 2 @ self.rotation, radius=radius)
        for _ in range(3):  # what stands nearer is larger, so the middle and the size have to be sought
            camera = camera._adjusted(points)
        return replace(camera, radius=camera.radius * margin)

    def _adjusted(self, points: np.ndarray) -> Camera:
        place = self.project(points)[:, :2]
        low, high = place.min(axis=0), place.max(axis=0)
        shift = self.radius * ((low + high) / 2) @ self.rotation[:2]
        # Not nearer than half the depth: the eye must stay outside.
        depth = float(np.ptp(points @ self.rotation[2]))
        return replace(
            self, center=self.center + shift, radius=max(self.radius * float((high - low).max()) / 2, depth / 4)
        )

    def _magnification(self, depth: np.ndarray) -> np.ndarray:
        return 1 / np.maximum(1 - depth / self.eye, 0.2)  # a point at the eye would be infinitely large


def looking(towards: np.ndarray, up: np.ndarray, *, eye: float = EYE_DISTANCE) -> Camera:
    """A camera at the side of `towards`, looking back at the origin, with `up` upright. Frame something with it."""
    back = _unit(towards)
    right = np.cross(up, back)
    if np.linalg.norm(right) < 1e-6 * np.linalg.norm(up):  # looking straight down: any direction is as good
        right = np.cross(np.eye(3)[np.abs(back).argmin()], back)
    right = _unit(right)
    return Camera(np.stack([right, np.cross(back, right), back]), np.zeros(3), 1.0, eye)


def _unit(vector: np.ndarray) -> np.ndarray:
    return np.asarray(vector, dtype=np.float64) / np.linalg.norm(vector)
