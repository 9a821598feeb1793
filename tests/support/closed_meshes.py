"""For tests: what is known of closed meshes without the library that cuts them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eda.data.meshes import Mesh

BOX = np.array([(x, y, z) for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0)])
BOX_FACES = np.array([
    (0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1),
    (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3),
])  # fmt: skip


def box_mesh(sides: Sequence[float] = (1, 1, 1), corner: Sequence[float] = (0, 0, 0)) -> Mesh:
    return Mesh(BOX * sides + corner, BOX_FACES)


def both(first: Mesh, second: Mesh) -> Mesh:
    """Two meshes as one."""
    vertices = np.concatenate([first.vertices, second.vertices])
    return Mesh(vertices, np.concatenate([first.faces, second.faces + len(first.vertices)]))


def inside_out(mesh: Mesh) -> Mesh:
    return Mesh(mesh.vertices, mesh.faces[:, ::-1])


def is_closed(mesh: Mesh) -> bool:
    """Every edge is there once in each direction."""
    edges = [tuple(edge) for a, b in ((0, 1), (1, 2), (2, 0)) for edge in mesh.faces[:, [a, b]].tolist()]
    return len(set(edges)) == len(edges) and {(b, a) for a, b in edges} == set(edges)


def num_bodies(mesh: Mesh) -> int:
    """Connected surfaces."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    a, b = np.concatenate([mesh.faces[:, :2], mesh.faces[:, 1:]]).T
    graph = coo_matrix((np.ones(len(a)), (a, b)), shape=(len(mesh.vertices),) * 2)
    label = connected_components(graph, directed=False)[1]
    return len(np.unique(label[mesh.faces]))


def windings(mesh: Mesh, points: np.ndarray) -> np.ndarray:
    """(P,) how often the surface winds around points: 1 inside, 0 outside (by van Oosterom and Strackee)."""
    a, b, c = np.moveaxis(mesh.corners - points[:, None, None], 2, 0)
    la, lb, lc = (np.linalg.norm(x, axis=-1) for x in (a, b, c))
    above = np.einsum("pfx,pfx->pf", a, np.cross(b, c))
    dots = [np.einsum("pfx,pfx->pf", *pair) for pair in ((a, b), (b, c), (c, a))]
    return np.arctan2(above, la * lb * lc + dots[0] * lc + dots[1] * la + dots[2] * lb).sum(axis=1) / (2 * np.pi)


def stl(mesh: Mesh) -> bytes:
    """Binary STL: every triangle with corners of its own."""
    rows = np.zeros(len(mesh.faces), dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])
    rows["corners"] = mesh.corners
    return bytes(80) + np.uint32(len(rows)).tobytes() + rows.tobytes()


def obj(mesh: Mesh) -> str:
    lines = [f"v {x} {y} {z}" for x, y, z in mesh.vertices.tolist()]
    return "\n".join([*lines, *(f"f {a} {b} {c}" for a, b, c in (mesh.faces + 1).tolist()), ""])
