"""Meshes as they come out of scanners and programs, made fit to be sampled: one surface, wound alike, facing outward.

In: any `Mesh`. Out: a `Repair`: the mesh without what was wrong with it, or the very same mesh if nothing was; what it
was, in words; and whether the faces are known to face outward. Nothing here knows the axes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from eda.data.mesh_edges import Edges, links_of_equals
from eda.data.mesh_windings import find_windings, turn_faces
from eda.data.meshes import Mesh, cancel_opposite_faces, equal_rows, first_at_place, linked_groups

# Lengths are relative to the farthest vertex from the middle, areas to that of the whole mesh.
_SAME_PLACE = 1e-6  # float32 and six printed digits
_DEBRIS, _CLOSED_DEBRIS = 1e-3, 1e-5  # a loose part; a closed one, which is then 0.3 % as long as the whole
_DEBRIS_TOGETHER = 0.01  # a mesh that would lose more is made of small parts


@dataclass(frozen=True)
class Defects:
    """What was wrong with a mesh."""

    coincident: int = 0  # faces in the place of others: inner walls, copies, other sides
    flat: int = 0  # faces that have shrunk to a line or a point
    debris: int = 0  # faces of loose parts that are too small to be chips
    turned: int = 0  # faces that were wound the wrong way
    holes: int = 0  # left open
    is_open: bool = False  # too wide to tell the outside

    def __str__(self) -> str:
        """One line, such as "1,204 coincident faces dropped, 2 holes left open"; empty if nothing was wrong."""
        numbers = [
            (self.coincident, "coincident face", "dropped"),
            (self.flat, "face", "without area dropped"),
            (self.debris, "face", "of loose debris dropped"),
            (self.turned, "face", "turned around"),
            (self.holes, "hole", "left open"),
        ]
        said = [f"{number:,} {what}{'s' * (number > 1)} {done}" for number, what, done in numbers if number]
        return ", ".join([*said, *(["its outside is estimated"] if self.is_open else [])])


class Repair(NamedTuple):
    """A mesh fit to be sampled."""

    mesh: Mesh
    defects: Defects
    is_outward: bool  # whether its faces are known to be anticlockwise as seen from outside


def repair_mesh(mesh: Mesh) -> Repair:
    """The mesh without inner walls, copies and debris, its faces wound alike and, where it is closed, outward.

    The faces that are kept keep their order. A mesh without defects is returned as it is.
    """
    joined = _join_in_own_units(mesh)
    rows, defects, are_sides = _choose_faces(joined)
    kept = _part(joined, rows)
    if not kept.area > 0:
        return Repair(mesh, Defects(is_open=True), is_outward=False)
    turned, num_holes, is_outward = find_windings(kept, guess=are_sides)
    defects = replace(defects, turned=int(turned.sum()), holes=num_holes, is_open=not is_outward)
    if len(rows) == len(mesh.faces) and not turned.any():
        return Repair(mesh, defects, is_outward)
    return Repair(Mesh(mesh.vertices, turn_faces(kept.faces, turned)).compact(), defects, is_outward)


def _join_in_own_units(mesh: Mesh) -> Mesh:
    """One vertex for every place, around the origin and within 1 of it, whatever the piece's unit and place are."""
    used = mesh.compact().vertices
    center = used.mean(axis=0)
    reach = np.linalg.norm(used - center, axis=1).max()
    vertices = (mesh.vertices - center) / (reach or 1)
    return Mesh(vertices, first_at_place(vertices, _SAME_PLACE)[mesh.faces])


def _choose_faces(mesh: Mesh) -> tuple[np.ndarray, Defects, bool]:
    """The faces (indices) that are kept, what the others were, and whether the winding of some is chance."""
    proper = np.flatnonzero(_has_three_corners(mesh.faces))
    distinct, are_sides = _distinct_faces(_part(mesh, proper))
    single = proper[distinct]
    rows = single[~_is_debris(_part(mesh, single))]
    dropped = Defects(len(proper) - len(single), len(mesh.faces) - len(proper), len(single) - len(rows))
    return rows, dropped, are_sides


def _part(mesh: Mesh, rows: np.ndarray) -> Mesh:
    return Mesh(mesh.vertices, mesh.faces[rows])


def _has_three_corners(faces: np.ndarray) -> np.ndarray:
    """(F,) bool. Corners on a line are enough: such a face closes the surface, and no point is drawn from it."""
    a, b, c = faces.T
    return (a != b) & (b != c) & (c != a)


def _distinct_faces(mesh: Mesh) -> tuple[np.ndarray, bool]:
    """At most one face (indices) at every place, and whether some stand for two sides, so that their winding is chance.

    Doubled faces of opposite winding are inner walls, and none is kept, or else the two sides of a sheet.
    """
    place = equal_rows(np.sort(mesh.faces, axis=1))
    _, once = np.unique(place, return_index=True)
    if len(once) == len(mesh.faces):
        return np.arange(len(once)), False
    kept = cancel_opposite_faces(mesh)
    cancelled = once[~np.isin(place[once], place[kept])]
    sides = cancelled[_are_sides(mesh.faces[cancelled], mesh.faces[kept])]
    return np.sort(np.concatenate([kept, sides])), len(sides) > 0


def _are_sides(cancelled: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """(c,) which of the cancelled faces are sides of a sheet: kept faces do not close where they end.

    At the rim of an inner wall, two kept faces meet.
    """
    count = 3 * len(cancelled)
    number = Edges.of(np.concatenate([cancelled, kept])).number
    num_kept = np.bincount(number[count:], minlength=len(number))[number[:count]]
    face = np.arange(count) // 3
    inner = num_kept == 0
    region = linked_groups(len(cancelled), links_of_equals(number[:count][inner], face[inner]))
    opened = np.bincount(region[face], num_kept % 2 == 1)
    walled = np.bincount(region[face], ~inner & (num_kept % 2 == 0))
    return (opened >= walled)[region]


def _is_debris(mesh: Mesh) -> np.ndarray:
    """(F,) bool, the faces of loose parts that are too small to be chips."""
    links = np.concatenate([mesh.faces[:, :2], mesh.faces[:, 1:]])
    part = linked_groups(len(mesh.vertices), links)[mesh.faces[:, 0]]
    part = np.unique(part, return_inverse=True)[1]
    if not part.any():
        return np.zeros(len(part), dtype=bool)
    area = np.bincount(part, np.linalg.norm(mesh.area_vectors, axis=1))
    is_open = np.bincount(np.repeat(part, 3), Edges.of(mesh.faces).sharing == 1) > 0
    small = area < np.where(is_open, _DEBRIS, _CLOSED_DEBRIS) * area.sum()
    return small[part] & (area[small].sum() <= _DEBRIS_TOGETHER * area.sum())
