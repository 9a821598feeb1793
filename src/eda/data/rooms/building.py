"""A whole room: its walls, furniture along the walls and inside, and small objects on everything."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from eda.data.fracture.mesh_collections import Meshes, MeshFiles
from eda.data.fracture.solids import mesh_of
from eda.data.meshes import Mesh
from eda.data.rooms.chance import Rng, draw_kind
from eda.data.rooms.clutter import small
from eda.data.rooms.forms import move_mesh
from eda.data.rooms.furniture import AT_WALLS, INSIDE, Thing, Top, chair
from eda.data.rooms.ground import Ground
from eda.data.rooms.room_surface import FAR, Contents, SurfacePoints
from eda.data.rooms.shell import build_shell


def room(rng: Rng, objects: Meshes | None) -> tuple[Ground, SurfacePoints]:
    """The plan and the surface of a furnished room."""
    ground, contents = Ground(rng), Contents()
    build_shell(rng, ground, contents)
    Interior(rng, ground, contents, objects, mess=rng.uniform(0.25, 1.4)).furnish()
    return ground, contents.sample(rng)


@dataclass(frozen=True)
class Interior:
    """A room that is being furnished."""

    rng: Rng
    ground: Ground
    contents: Contents
    objects: Meshes | None  # scanned things to put about, half of all; None: only made-up ones
    mess: float  # how much lies about, around 1

    def furnish(self) -> None:
        """Fill the room. Most of what is tried finds no place, so that rooms become as full as they can be."""
        rng, size = self.rng, self.ground.size
        walls = self.ground.walls()
        lengths = np.array([length for *_, length in walls])
        for _ in range(int(4.5 * lengths.sum() * rng.uniform(0.5, 1.2))):
            thing = draw_kind(rng, AT_WALLS)(rng)
            start, yaw, length = walls[rng.choice(len(walls), p=lengths / lengths.sum())]
            along = np.array([math.cos(yaw), math.sin(yaw)])
            gap = rng.choice([0.0, rng.uniform(0, 0.3)], p=[0.7, 0.3])
            self._stand(thing, start + rng.uniform(0, length) * along + gap * np.array([-along[1], along[0]]), yaw)
        for _ in range(int(np.prod(size) * rng.uniform(0.5, 1.6))):
            yaw = rng.choice([rng.integers(4) * math.pi / 2, rng.uniform(0, 2 * math.pi)])
            self._stand(draw_kind(rng, INSIDE)(rng), rng.uniform(0, 1, 2) * size, yaw)
        for _ in range(int(0.6 * np.prod(size) * self.mess)):  # on the floor, also below tables
            self._put(rng.uniform(0, 1, 2) * size, 0.0, free=1.0, size=rng.uniform(0.15, 1.1))

    def _stand(self, thing: Thing, at: np.ndarray, yaw: float) -> None:
        """Put a thing there, if there is room, with all that lies on it and the chairs around it."""
        rng = self.rng
        low = thing.mesh.vertices.min(axis=0) * [1, 1, 0]
        mesh = move_mesh(Mesh(thing.mesh.vertices - low, thing.mesh.faces), (*at, 0), yaw)
        if not self.ground.claim(mesh):
            return
        self.contents.add(mesh, rng.uniform(1.0, 3.0) if rng.random() < 0.06 else FAR)
        turn = np.array([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
        for top in thing.tops:
            area = (top.x[1] - top.x[0]) * (top.y[1] - top.y[0])
            for _ in range(rng.poisson(self.mess * min(6 * area + 1.0, 8))):
                spot = np.array([rng.uniform(*top.x), rng.uniform(*top.y)]) - low[:2]
                self._put(at + turn @ spot, top.z, top.room, rng.uniform(0.08, 0.4), yaw)
        if len(thing.tops) == 1 and 0.6 < thing.tops[0].z < 0.8:
            self._chairs(thing.tops[0], at, yaw)

    def _chairs(self, top: Top, at: np.ndarray, yaw: float) -> None:
        """Put equal chairs around a table; they need no free ground, because they can be pushed below it."""
        rng = self.rng
        middle, half = np.mean([top.x, top.y], axis=1), np.ptp([top.x, top.y], axis=1) / 2
        sitting = move_mesh(chair(rng).mesh, (-0.22, 0, 0))
        for _ in range(rng.integers(5)):
            side = rng.integers(1, 4) * math.pi / 2 + rng.normal(0, 0.15)
            # The chair's back is away from the table: its front, +y, looks against the way out.
            out = np.array([-math.sin(side), math.cos(side)])
            place = middle - out * (half + rng.uniform(0.15, 0.5)) + rng.normal(0, 0.2, 2)
            mesh = move_mesh(sitting, (*(place - 0.2 * out), 0), side)
            self.contents.add(move_mesh(mesh, (*at, 0), yaw))

    def _put(self, at: np.ndarray, z: float, free: float, size: float, yaw: float = 0.0) -> None:
        """Something small at a height z with `free` metres above it; only what was scanned is scaled to `size`."""
        rng = self.rng
        if self.objects is None or rng.random() < 0.5:
            mesh, yaw = small(rng, free), yaw + rng.normal(0, 0.3)
        else:
            index = int(rng.integers(len(self.objects)))
            mesh, yaw = _object(self.objects, index, min(size, 2 * free), rng), rng.uniform(0, 6.3)
        self.contents.add(move_mesh(mesh, (*at, z), yaw), rng.uniform(0.8, 2.5) if rng.random() < 0.05 else FAR)


def _object(objects: Meshes, index: int, size: float, rng: Rng) -> Mesh:
    """A scanned object with a longest side of `size`, upright or lying, on z = 0."""
    mesh = mesh_of(objects.solid(index))
    if isinstance(objects, MeshFiles):  # in any unit, and anywhere; a pack's meshes fill a unit cube at the origin
        low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
        mesh = Mesh((mesh.vertices - (low + high) / 2) / (high - low).max(), mesh.faces)
    vertices = size * mesh.vertices[:, np.roll([0, 1, 2], rng.integers(3))]
    return Mesh(vertices - [0, 0, vertices[:, 2].min()], mesh.faces)
