"""What repair does to the meshes of files, and what it costs.

    python benchmarks/repair.py GLBS/*.glb --triangles 2500000

For every file: its pieces, how many change and are closed and outward before and after, the share of the area that is
taken away, and seconds. Then, for a generated ring of so many triangles, seconds of one process.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from eda.data.mesh_repair import repair_mesh
from eda.data.mesh_windings import find_windings
from eda.data.meshes import Mesh
from eda.data.piece_files import read_pieces


def ring(triangles: int) -> Mesh:
    """A closed, wavy ring."""
    rows = round((triangles / 2) ** 0.5)
    u, v = np.meshgrid(*2 * [2 * np.pi * np.arange(rows) / rows], indexing="ij")
    thick = 0.4 + 0.05 * np.sin(7 * u) * np.cos(5 * v)
    across = 1 + thick * np.cos(v)
    points = np.stack([across * np.cos(u), across * np.sin(u), thick * np.sin(v)], axis=-1).reshape(-1, 3)
    a = np.arange(rows**2).reshape(rows, rows)
    b, d = np.roll(a, -1, axis=0), np.roll(a, -1, axis=1)
    c = np.roll(b, -1, axis=1)
    return Mesh(points, np.concatenate([np.stack(t, axis=-1).reshape(-1, 3) for t in ((a, b, c), (a, c, d))]))


def loose(mesh: Mesh) -> Mesh:
    """Every triangle with corners of its own, as in an STL file."""
    return Mesh(mesh.corners.reshape(-1, 3), np.arange(3 * len(mesh.faces)).reshape(-1, 3))


def describe(path: Path) -> tuple[int, int, int, int, float, float]:
    """Pieces, those changed, those outward before and after, the share of area taken away, and seconds."""
    meshes = [piece.mesh for piece in read_pieces([path])]
    meshes = [mesh for mesh in meshes if mesh is not None]
    start = time.process_time()
    repairs = [repair_mesh(mesh) for mesh in meshes]
    seconds = time.process_time() - start
    before = sum(is_fine(mesh) for mesh in meshes)
    kept = sum(repair.mesh.area for repair in repairs) / sum(mesh.area for mesh in meshes)
    changed = sum(repair.mesh is not mesh for repair, mesh in zip(repairs, meshes, strict=True))
    return len(meshes), changed, before, sum(repair.is_outward for repair in repairs), 1 - kept, seconds


def is_fine(mesh: Mesh) -> bool:
    """Whether a mesh is closed, with two faces at every edge and all of them outward, as it is in its file."""
    center = mesh.vertices.mean(axis=0)
    found = find_windings(Mesh((mesh.vertices - center) / np.abs(mesh.vertices - center).max(), mesh.faces))
    pairs = np.sort(np.stack([mesh.faces, np.roll(mesh.faces, -1, axis=1)], axis=-1).reshape(-1, 2), axis=1)
    _, count = np.unique(pairs, axis=0, return_counts=True)
    return found.is_outward and found.num_holes == 0 and not found.turned.any() and bool((count == 2).all())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", help="files of meshes")
    parser.add_argument("--triangles", type=int, default=0, help="of a generated mesh; 0: none")
    options = parser.parse_args()
    rows = [describe(path) for path in options.files]
    for path, row in zip(options.files, rows, strict=True):
        count, changed, before, after, area, seconds = row
        print(
            f"{path.name}: {count} pieces, {changed} changed, outward {before} -> {after}, {area:.0%}, {seconds:.2f} s"
        )
    if rows:
        pieces, changed, before, after = np.sum(rows, axis=0)[:4].astype(int)
        area, seconds = np.array(rows).T[4:]
        print(f"{pieces} pieces, {changed} changed, outward {before} -> {after}")
        print(f"area taken away: {area.min():.0%} to {area.max():.0%}, median {np.median(area):.0%}")
        print(f"seconds a file: median {np.median(seconds):.2f}, most {seconds.max():.2f}")
    if options.triangles:
        mesh = ring(options.triangles)
        for name, one in (("joined", mesh), ("loose", loose(mesh))):
            start = time.process_time()
            repair = repair_mesh(one)
            print(f"{len(one.faces):,} triangles, {name}: {time.process_time() - start:.1f} s, {repair.is_outward}")


if __name__ == "__main__":
    main()
