"""Which way the faces of a mesh are wound, and which way they should be: alike, and outward where they enclose a space.

In: a mesh with one vertex at every place, within 1 of the origin. Out: `Windings`. Faces form sheets across the edges
that only two of them have; a sheet can be wound in two ways. Sheets that end at common edges and close each other there
form a shell. Shells have holes, which are closed in thought, and may lie inside other shells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eda.data.mesh_edges import Edges, links_of_equals
from eda.data.meshes import Mesh, area_vectors, cone_volumes, equal_rows, linked_groups

_NEARLY_CLOSED = 0.05  # of the area, what may be missing; in a box without one of its 12 triangles it is 0.08
_ROUNDING = 1e-12  # a volume this small has no sign; the mesh lies within 1 of the origin
_MOST_SHELLS = 64  # that are looked for inside of others; if there are more, the smaller ones stay as they are
_WITNESSES = 3  # points of a shell, all of which must lie inside
_AXES = np.linalg.qr([[3.0, 1.0, 2.0], [-1.0, 4.0, 1.0], [1.0, 2.0, 5.0]])[0]  # along which no edge is likely to lie


class Windings(NamedTuple):
    """How faces should be wound."""

    turned: np.ndarray  # (F,) bool, those to be turned around
    num_holes: int
    is_outward: bool  # whether all, then, are known to face outward


class _Sheets(NamedTuple):
    number: np.ndarray  # (F,) the sheet of every face
    turned: np.ndarray  # (F,) bool, faces that are not wound as most of their sheet
    is_one_sided: np.ndarray  # (F,) bool, faces of sheets that cannot be wound alike, as a Moebius strip


class _Rim(NamedTuple):
    """The edges at which shells end."""

    ends: np.ndarray  # (e, 2) vertices, as the face passes them
    shell: np.ndarray  # (e,)
    hole: np.ndarray  # (e,) numbers from 0


def find_windings(mesh: Mesh, *, guess: bool = False) -> Windings:
    """How to wind the faces: alike in every sheet, and outward in every shell that is closed but for small holes.

    A shell inside an odd number of others bounds a cavity, and its outside is in there. With `guess`, open shells are
    turned by the space that they would enclose. Otherwise they stay as most of their faces are.
    """
    sheets = _sheets(mesh.faces)
    faces = turn_faces(mesh.faces, sheets.turned)
    shell, rim = _shells(faces, sheets.number)
    caps = _caps(mesh.vertices, rim)
    area = np.bincount(shell, np.linalg.norm(area_vectors(mesh.vertices[faces]), axis=1))
    missing = np.bincount(rim.shell, np.linalg.norm(area_vectors(caps), axis=1), minlength=len(area))
    one_sided = np.bincount(shell, sheets.is_one_sided) > 0
    missing[one_sided] = area[one_sided]
    can_turn = ~one_sided if guess else missing <= _NEARLY_CLOSED * (area + missing)
    corners = np.concatenate([mesh.vertices[faces], caps])
    inverted = _inverted(corners, np.concatenate([shell, rim.shell]), can_turn)
    is_outward = missing.sum() <= _NEARLY_CLOSED * (area + missing).sum()
    return Windings(sheets.turned ^ inverted[shell], len(np.unique(rim.hole)), bool(is_outward))


def turn_faces(faces: np.ndarray, which: np.ndarray) -> np.ndarray:
    """The faces (F, 3), those of a mask (F,) the other way around."""
    return np.where(which[:, None], faces[:, ::-1], faces)


# -- sheets and shells -------------------------------------------------------------------------------------------------


def _sheets(faces: np.ndarray) -> _Sheets:
    edges, count = Edges.of(faces), len(faces)
    shared = np.flatnonzero(edges.sharing == 2)
    pairs = links_of_equals(edges.number[shared], shared)
    one, other = pairs.T // 3
    disagree = edges.sign[pairs[:, 0]] == edges.sign[pairs[:, 1]]
    if not disagree.any():
        fine = np.zeros(count, dtype=bool)
        return _Sheets(linked_groups(count, np.stack([one, other], axis=1)), fine, fine)
    # Every face is there twice, as it is and turned around, and goes with that of its neighbour which agrees with it.
    as_is = np.stack([one, other + count * disagree], axis=1)
    around = np.stack([one + count, other + count * ~disagree], axis=1)
    side, opposite = linked_groups(2 * count, np.concatenate([as_is, around])).reshape(2, count)
    number = np.unique(np.minimum(side, opposite), return_inverse=True)[1]
    votes = np.bincount(number, np.where(side <= opposite, 1, -1))
    return _Sheets(number, (side <= opposite) != (votes[number] >= 0), side == opposite)


def _shells(faces: np.ndarray, sheet: np.ndarray) -> tuple[np.ndarray, _Rim]:
    """(F,) the shell of every face, and where shells end. The faces of a sheet are wound alike."""
    every = Edges.of(faces)
    rows = np.flatnonzero(every.sharing != 2)
    edges, face = every.take(rows), rows // 3
    shell = _join_sheets(sheet, edges.take(ends := _unmatched(sheet[face], edges)), sheet[face[ends]])
    ends = _unmatched(shell[face], edges)
    return shell, _rim(edges.ends[ends], shell[face[ends]])


def _unmatched(group: np.ndarray, edges: Edges) -> np.ndarray:
    """The edges (indices) that a group passes more often than back, each once."""
    both = equal_rows(np.column_stack([group, edges.number]))
    surplus = np.flatnonzero(np.bincount(both, edges.sign)[both] * edges.sign > 0)
    return surplus[np.unique(both[surplus], return_index=True)[1]]


def _join_sheets(sheet: np.ndarray, edges: Edges, of_edge: np.ndarray) -> np.ndarray:
    """(F,) numbers of the shells, from the edges where sheets end: those passed as often in both directions join."""
    meeting = np.flatnonzero(np.bincount(edges.number, edges.sign, minlength=1)[edges.number] == 0)
    links = links_of_equals(edges.number[meeting], of_edge[meeting])
    return linked_groups(int(sheet.max()) + 1, links)[sheet]


def _rim(ends: np.ndarray, shell: np.ndarray) -> _Rim:
    """The rim of these edges (e, 2); those of a shell that meet bound one hole."""
    vertex = equal_rows(np.column_stack([np.repeat(shell, 2), ends.ravel()])).reshape(-1, 2)
    hole = linked_groups(int(vertex.max(initial=-1)) + 1, vertex)[vertex[:, 0]] if len(vertex) else shell
    return _Rim(ends, shell, hole)


def _caps(vertices: np.ndarray, rim: _Rim) -> np.ndarray:
    """(e, 3, 3) triangles that close the holes, those of a hole around the middle of its rim."""
    start, end = np.moveaxis(vertices[rim.ends], 1, 0)
    total = np.stack([np.bincount(rim.hole, start[:, axis]) for axis in range(3)], axis=1)
    middle = total / np.maximum(np.bincount(rim.hole), 1)[:, None]
    return np.stack([end, start, middle[rim.hole]], axis=1)


# -- inside and outside ------------------------------------------------------------------------------------------------


def _inverted(corners: np.ndarray, shell: np.ndarray, can_turn: np.ndarray) -> np.ndarray:
    """(S,) which shells of triangles (T, 3, 3) face the wrong way; caps count as theirs."""
    inverted = can_turn & (np.bincount(shell, cone_volumes(corners)) < -_ROUNDING)
    if can_turn.sum() < 2:
        return inverted
    area = np.bincount(shell, np.linalg.norm(area_vectors(corners), axis=1))
    largest = np.argsort(np.where(can_turn, -area, 0), kind="stable")[: min(_MOST_SHELLS, can_turn.sum())]
    is_cavity = _are_enclosed(corners, shell, largest, can_turn)
    decided = np.zeros_like(inverted)
    decided[largest] = inverted[largest] ^ is_cavity
    return decided


def _are_enclosed(corners: np.ndarray, shell: np.ndarray, asked: np.ndarray, closed: np.ndarray) -> np.ndarray:
    """For some shells, whether each lies inside an odd number of the others that are `closed` (S,)."""
    triangles = corners @ _AXES
    low, high = triangles[..., :2].min(axis=1), triangles[..., :2].max(axis=1)
    answers = []
    for number in asked:
        own, others = np.flatnonzero(shell == number), closed[shell] & (shell != number)
        points = triangles[own[np.linspace(0, len(own) - 1, _WITNESSES).astype(int)]].mean(axis=1)
        reach = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
        near = triangles[others & (low <= reach[1]).all(axis=1) & (high >= reach[0]).all(axis=1)]
        answers.append(all(_num_above(point, near) % 2 for point in points))
    return np.array(answers)


def _num_above(point: np.ndarray, triangles: np.ndarray) -> int:
    """How many triangles (n, 3, 3) a ray along the last axis passes."""
    a, b, c = np.moveaxis(triangles - point, 1, 0)
    parts = np.stack([p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0] for p, q in ((b, c), (c, a), (a, b))])
    total = parts.sum(axis=0)
    height = (parts * np.stack([a[:, 2], b[:, 2], c[:, 2]])).sum(axis=0)
    return int(((parts * total > 0).all(axis=0) & (height * total > 0)).sum())
