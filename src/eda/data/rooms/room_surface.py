"""The surface of a room: meshes while it is built, then evenly drawn points for the camera."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from eda.data.meshes import Mesh, join_meshes
from eda.data.rooms.chance import Rng

FAR = 9.0  # metres, the reach of the camera where nothing limits it
_SPACING = 0.022  # metres, of the sample


class SurfacePoints(NamedTuple):
    """A surface as points, evenly dense."""

    points: np.ndarray  # (n, 3) float32
    normals: np.ndarray  # (n, 3) float32, unit, to the side that can be seen
    reach: np.ndarray  # (n,) float32, the distance from which the camera cannot measure it, for dark and shiny things


@dataclass
class Contents:
    """The parts of a room while it is filled."""

    parts: list[Mesh] = field(default_factory=list)
    reach: list[float] = field(default_factory=list)  # of every part

    def add(self, mesh: Mesh, reach: float = FAR) -> None:
        """Add a mesh that the camera can measure from up to `reach` metres."""
        self.parts.append(mesh)
        self.reach.append(reach)

    def sample(self, rng: Rng) -> SurfacePoints:
        """Points drawn evenly from all surfaces."""
        mesh = join_meshes(self.parts)
        faces, points = _even_sample(mesh, rng)
        vectors = mesh.area_vectors[faces]
        reach = np.repeat(self.reach, [len(part.faces) for part in self.parts])[faces]
        normals = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return SurfacePoints(points.astype(np.float32), normals.astype(np.float32), reach.astype(np.float32))


def _even_sample(mesh: Mesh, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """One point for every square of the spacing, more even than chance: the faces, (n,), and the points, (n, 3)."""
    ends = np.cumsum(np.linalg.norm(mesh.area_vectors, axis=1))
    count = int(ends[-1] / _SPACING**2)
    faces = np.searchsorted(ends, (np.arange(count) + rng.random()) / count * ends[-1], side="right")
    faces = np.minimum(faces, len(ends) - 1)
    # Steps of the plastic number fill a square evenly however many they are.
    steps = np.arange(count)[:, None] * [0.7548776662466927, 0.5698402909980532] % 1
    steps = np.where(steps.sum(axis=1, keepdims=True) > 1, 1 - steps, steps)
    a, b, c = np.moveaxis(mesh.corners[faces], 1, 0)
    return faces, a + steps[:, :1] * (b - a) + steps[:, 1:] * (c - a)
