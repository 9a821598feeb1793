"""Pairs of scans fresh from the generator of rooms, one room after the other: room i is always the same one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from eda.cloud import estimate_normals, voxel_grid
from eda.data.example import Example
from eda.data.fracture.mesh_collections import Meshes, open_meshes
from eda.data.rooms.building import room
from eda.data.rooms.chance import Rng
from eda.data.rooms.scan_fusion import FusedScan, scan_surface
from eda.data.rooms.walk import paths
from eda.data.setting_text import typed_settings
from eda.data.source import ItemSource, LeftOut
from eda.settings import check_positive, check_whole

_FEWEST = 1500  # points of a scan at 5 cm; below that, the camera saw little more than a wall
_EVERY = 4  # of the points by which overlap is measured: as good, and faster


@dataclass(frozen=True)
class RoomSource(ItemSource[int]):
    """Pairs of scans. Picklable, so that many workers can share the work.

    A pair of scans is called ROOM-I-J-OVERLAP, where the overlap is the share of scan I that scan J shows too.
    """

    seed: int = 0
    objects: Meshes | None = None  # placed in the rooms, beside what is generated
    scans: int = 14  # of a room
    pairs: int = 10  # of a room, at most
    grid: float = 0.075  # metres, of what is given out
    neighbors: int = 16  # by which normals are estimated, at 5 cm
    near: float = 0.075  # metres, what counts as the same place for overlap
    misfit: tuple[float, float] = (0.006, 0.18)  # metres and degrees, along and about each axis, of every scan's pose
    rooms: int = 10

    # Overlap from, to, and how often it is wanted; nothing between 0 and 0.1, where a pair can hardly be solved.
    WISHES: ClassVar[tuple[tuple[float, float, float], ...]] = (
        (0.0, 0.001, 0.5),
        (0.1, 0.2, 2.0),
        (0.2, 0.3, 2.5),
        (0.3, 0.4, 2.5),
        (0.4, 0.6, 2.5),
        (0.6, 1.01, 1.5),
    )

    def __post_init__(self) -> None:
        check_whole("rooms", self.rooms, 1, 2**31)
        check_whole("seed", self.seed, 0, 2**63)
        check_whole("scans", self.scans, 2, 1000)
        check_whole("pairs", self.pairs, 1, 10**6)
        check_positive("grid", self.grid)
        check_whole("neighbors", self.neighbors, 3, 1000)
        check_positive("near", self.near)
        for name, value in zip(("misfit in metres", "misfit in degrees"), self.misfit, strict=True):
            if value != 0:  # where poses are exact
                check_positive(name, value)

    @staticmethod
    def from_settings(settings: Mapping[str, str]) -> RoomSource:
        """The source of settings as text: rooms, seed, scans, pairs, and objects=PATH, meshes to place in the rooms."""
        defaults = {name: getattr(RoomSource, name) for name in ("rooms", "seed", "scans", "pairs")}
        values = typed_settings("rooms", settings, {**defaults, "objects": ""})
        path = values.pop("objects", "")
        return RoomSource(objects=open_meshes(path) if path else None, **values)

    @property
    def items(self) -> range:
        """Room by room as many pairs as a room may give; some give fewer."""
        return range(self.rooms * self.pairs)

    def read(self, item: int) -> Example:
        """One pair; raises `LeftOut` where its room has no more."""
        room_number, number = divmod(item, self.pairs)
        pairs = _cached_pairs(self, room_number)
        if number >= len(pairs):
            raise LeftOut(f"room {room_number} has {len(pairs)} pairs, not one number {number}")
        return pairs[number]

    def pairs_of_room(self, number: int) -> list[Example]:
        """The pairs of a room; there are none in a room that has no place to stand."""
        rng = np.random.default_rng([self.seed, number])
        ground, surface = room(rng, self.objects)
        seen = [scan_surface(surface, path, rng) for path in paths(rng, ground, self.scans)]
        seen = [scan for scan in seen if len(scan.points) >= _FEWEST]
        given = [self._placed_scan(scan, rng) for scan in seen]
        examples = []
        for i, j, overlap in self._choose_pairs(seen, rng):
            clouds, normals = zip(given[i], given[j], strict=True)
            examples.append(Example.from_clouds(f"{number:06d}-{i}-{j}-{overlap:.2f}", clouds, normals))
        return examples

    def description(self) -> dict[str, Any]:
        """Everything that determines the pairs, as JSON."""
        names = [] if self.objects is None else [self.objects.name(i) for i in range(len(self.objects))]
        config = {name: getattr(self, name) for name in ("scans", "pairs", "grid", "neighbors", "near", "misfit")}
        return {"made_by": "eda rooms", "seed": self.seed, "config": config, "objects": names}

    def _placed_scan(self, scan: FusedScan, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
        """Points and normals, (n, 3) each, as a reader of real scans gives them: nearly in place."""
        kept = voxel_grid(scan.points, self.grid)
        normals = estimate_normals(scan.points, self.neighbors)[kept]
        error = Rotation.from_rotvec(rng.normal(0, math.radians(self.misfit[1]), 3)).as_matrix()
        turn = error @ scan.frame.turn
        place = scan.frame.place + rng.normal(0, self.misfit[0], 3)
        # About the middle of the scan, not about the camera, which is metres away.
        middle = scan.points.mean(axis=0)
        place = place + (scan.frame.turn - turn) @ middle
        return scan.points[kept] @ turn.T + place, normals @ turn.T

    def _choose_pairs(self, seen: list[FusedScan], rng: Rng) -> list[tuple[int, int, float]]:
        """Pairs (i, j, overlap) with the overlaps that are wanted, as far as there are any."""
        found = self._overlaps(seen, rng)
        overlap = np.array([share for *_, share in found])
        weight = np.zeros(len(found))
        for low, high, wish in self.WISHES:
            inside = (overlap >= low) & (overlap < high)
            weight[inside] = wish / max(inside.sum(), 3)  # a single pair of a rare kind is not taken every time
        count = min(self.pairs, int((weight > 0).sum()))
        if not count:
            return []
        return [found[k] for k in rng.choice(len(found), count, replace=False, p=weight / weight.sum())]

    def _overlaps(self, seen: list[FusedScan], rng: Rng) -> list[tuple[int, int, float]]:
        """(i, j, the share of scan i that j shows too), of about half of all ordered pairs: a coin decides."""
        trees = [cKDTree(scan.true) for scan in seen]
        found = []
        for i, j in itertools.permutations(range(len(seen)), 2):
            if (i < j) == bool(rng.integers(2)):
                continue
            distance = trees[j].query(seen[i].true[::_EVERY], distance_upper_bound=self.near)[0]
            found.append((i, j, float(np.isfinite(distance).mean())))
        return found


@lru_cache(maxsize=2)  # pairs are mostly read in order
def _cached_pairs(source: RoomSource, room_number: int) -> list[Example]:
    return source.pairs_of_room(room_number)
