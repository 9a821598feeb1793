"""How similar generated scans of rooms are to real ones: `eda rooms` beside the fragments of 3DMatch's scenes.

    python benchmarks/rooms.py path/of/3dmatch-pack --rooms 20 --scenes 7-scenes-redkitchen

At 5 cm, means of: number of points, extent, share on planes, thickness of surfaces, number of parts.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from eda.data.fracture.mesh_collections import open_meshes
from eda.data.readers.threedmatch_pack import read_fragments
from eda.data.rooms.building import room
from eda.data.rooms.scan_fusion import scan_surface
from eda.data.rooms.walk import paths

PLANES, NEAR_PLANE = 5, 0.04  # metres
SEEDS, AROUND = 150, 25  # points from which planes are fitted, and their neighbours
TOGETHER, LEAST = 0.1, 10  # metres that join points to a part, and points that make one


def plane_shares(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(PLANES,) of all points, those on the plane that has most, on the next of the rest, and so on."""
    left, shares = points, []
    for _ in range(PLANES):
        around = cKDTree(left).query(left[rng.integers(len(left), size=SEEDS)], AROUND)[1]
        best = max((_on_plane(left, left[rows]) for rows in around), key=np.count_nonzero)
        best = _on_plane(left, left[best])
        shares.append(best.sum() / len(points))
        left = left[~best]
        if len(left) < 2 * AROUND:
            break
    return np.array(shares + [0.0] * (PLANES - len(shares)))


def _on_plane(points: np.ndarray, of: np.ndarray) -> np.ndarray:
    normal = np.linalg.eigh(np.cov(of.T))[1][:, 0]
    return np.abs((points - of.mean(axis=0)) @ normal) < NEAR_PLANE


def described(points: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
    points = points - points.mean(axis=0)
    along = points @ np.linalg.eigh(np.cov(points.T))[1]
    extent = np.sort(np.ptp(np.percentile(along, [1, 99], axis=0), axis=0))[::-1]
    tree = cKDTree(points)
    near = points[tree.query(points, 16)[1]]
    near = near - near.mean(axis=1, keepdims=True)
    thickness = np.sqrt(np.linalg.eigvalsh(near.swapaxes(1, 2) @ near / 16)[:, 0].clip(min=0))
    pairs = tree.query_pairs(TOGETHER, output_type="ndarray")
    graph = coo_matrix((np.ones(len(pairs)), pairs.T), shape=(len(points),) * 2)
    parts = np.bincount(connected_components(graph, directed=False)[1])
    shares = np.cumsum(plane_shares(points, rng))
    return {
        "points": len(points),
        **{f"extent {k + 1}, m": extent[k] for k in range(3)},
        **{f"on {k} planes": shares[k - 1] for k in (1, 3, 5)},
        "thickness, median, cm": 100 * float(np.median(thickness)),
        "separate parts": int((parts >= LEAST).sum()),
    }


def real_scans(pack: Path, scenes: list[str]) -> list[np.ndarray]:
    fragments = read_fragments(pack)
    inside = [i for i, name in enumerate(fragments.names) if not scenes or name.rpartition("/")[0] in scenes]
    return [fragments.cloud(i) for i in inside[::3]]


def made_scans(rooms: int, seed: int, objects: str | None) -> list[np.ndarray]:
    source = open_meshes(objects) if objects else None
    found = []
    for item in range(rooms):
        rng = np.random.default_rng([seed, item])
        ground, surface = room(rng, source)
        found += [scan_surface(surface, path, rng).points for path in paths(rng, ground, 3)]
    return [points for points in found if len(points) >= 1500]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=Path, help="the folder with fragments_5cm.npz and index.json")
    parser.add_argument("--scenes", nargs="*", default=[])
    parser.add_argument("--rooms", type=int, default=20)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--objects", help="meshes to put about")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    both = real_scans(options.pack, options.scenes), made_scans(options.rooms, options.seed, options.objects)
    real, made = ([described(points, rng) for points in scans] for scans in both)
    print(f"| mean | real ({len(real)}) | made ({len(made)}) |\n|---|---|---|")
    for name in real[0]:
        print(f"| {name} | {np.mean([r[name] for r in real]):.2f} | {np.mean([r[name] for r in made]):.2f} |")
