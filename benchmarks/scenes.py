"""How well a whole scene is put together from all its fragments, each turned and moved at random.

    python benchmarks/scenes.py 3DMATCH_PACK --scene sun3d-hotel_uc-scan3 --every 3 --cache pairs --json scene.json
    python benchmarks/scenes.py 3DMATCH_PACK --scene sun3d-hotel_uc-scan3 --retrieval      # candidate pairs alone

A fragment is right if, once the largest group is aligned, it is off by less than 0.2 m (at its middle) and 5 degrees.
Consecutive fragments count as registered if both are placed in one group and lie to each other as exactly. Seconds are
wall time and processor time of the assembly, without reading. `--every K` takes every K-th fragment.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from eda import AssembleConfig, Assembly, Eda, assemble
from eda.assembly import Clouds
from eda.assembly.scenes.candidate_pairs import nearest_pairs
from eda.assembly.scenes.places import place_features, similarity
from eda.data.readers.threedmatch_pack import read_fragments
from eda.data.reading import move_points
from eda.registration.rigid import inverse

METRES, DEGREES = 0.2, 5.0
NEAR, EVERY = 0.075, 5  # metres that count as the same place for overlap, and of which points it is measured
OVERLAPS = (0.3, 0.1)
NEIGHBORS = (2, 3, 4, 5, 6, 8, 10)


def scattered(pack: Path, scene: str, every: int, seed: int) -> tuple[list[np.ndarray], np.ndarray, list[str]]:
    """Fragments as a user might have them, the motions (N, 4, 4) that bring them back, and their names."""
    fragments, rng = read_fragments(pack), np.random.default_rng(seed)
    rows = [i for i, name in enumerate(fragments.names) if name.rpartition("/")[0] == scene][::every]
    if not rows:
        scenes = sorted({name.rpartition("/")[0] for name in fragments.names})
        raise SystemExit(f"no scene {scene}; there are {', '.join(scenes)}")
    clouds, back = [], []
    for i in rows:
        motion = np.eye(4)
        motion[:3, :3], motion[:3, 3] = Rotation.random(random_state=rng).as_matrix(), rng.normal(0, 3, 3)
        clouds.append(move_points(fragments.cloud(i), motion))
        back.append(fragments.poses[i] @ inverse(motion))
    return clouds, np.stack(back), [fragments.names[i].rpartition("/")[2] for i in rows]


def errors(poses: np.ndarray, truth: np.ndarray, middles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) degrees, and metres at the middles (n, 3), of motions (n, 4, 4), aligned as well as one motion can."""
    turns = np.einsum("nij,nkj->ik", truth[:, :3, :3], poses[:, :3, :3])
    onto = np.eye(4)
    for _ in range(20):  # the median motion: fragments far off must not move it
        u, _, v = np.linalg.svd(turns)
        onto[:3, :3] = u @ np.diag([1, 1, np.linalg.det(u @ v)]) @ v
        here = np.einsum("nij,nj->ni", poses[:, :3, :3], middles) + poses[:, :3, 3]
        there = np.einsum("nij,nj->ni", truth[:, :3, :3], middles) + truth[:, :3, 3]
        onto[:3, 3] = np.median(there - here @ onto[:3, :3].T, axis=0)
        relative = truth[:, :3, :3] @ np.swapaxes(onto[:3, :3] @ poses[:, :3, :3], 1, 2)
        degrees = np.degrees(Rotation.from_matrix(relative).magnitude())
        weights = 1 / np.maximum(degrees, 0.1)
        turns = np.einsum("n,nij,nkj->ik", weights, truth[:, :3, :3], poses[:, :3, :3])
    return degrees, np.linalg.norm(there - move_points(here, onto), axis=1)


def measure(assembly: Assembly, truth: np.ndarray) -> dict:
    best = assembly.best
    placed, middles = np.flatnonzero(best.placed), np.stack([cloud.mean(axis=0) for cloud in assembly.clouds.points])
    right = np.zeros(len(truth), dtype=bool)
    if len(placed) > 1:
        degrees, metres = errors(best.poses[placed], truth[placed], middles[placed])
        right[placed] = (degrees < DEGREES) & (metres < METRES)
    group = np.where(best.placed, 0, -1 - np.arange(len(truth)))
    poses = best.poses.copy()
    for number, other in enumerate(best.groups, start=1):
        group[list(other.pieces)], poses[list(other.pieces)] = number, other.poses
    consecutive = []
    for i in range(len(truth) - 1):
        found, true = (inverse(of[i + 1]) @ of[i] for of in (poses, truth))
        off = inverse(true) @ found
        turn = np.degrees(Rotation.from_matrix(off[:3, :3]).magnitude())
        shift = np.linalg.norm(move_points(middles[i][None], off) - middles[i])
        consecutive.append(bool(group[i] == group[i + 1] and turn < DEGREES and shift < METRES))
    joints = [(i, j, p) for i, j, p in best.contacts]
    return {
        "fragments": len(truth),
        "placed": len(placed),
        "right": float(right.mean()),
        "right of those placed": float(right[placed].mean()) if len(placed) else 0.0,
        "consecutive pairs registered": float(np.mean(consecutive)),
        "groups": [int(best.placed.sum()), *(len(other.pieces) for other in best.groups)],
        "joints": len(joints),
        "pairs tried": assembly.pairs,
        "all pairs": len(truth) * (len(truth) - 1) // 2,
        "probability": best.probability,
        "mean confidence of those placed": float(best.confidence[placed].mean()) if len(placed) else 0.0,
        "wrong": [assembly.names[i] for i in placed if not right[i]],
        "not placed": [assembly.names[i] for i in best.unplaced],
    }


def overlaps(clouds: list[np.ndarray], truth: np.ndarray) -> np.ndarray:
    """(N, N) the share of the one of two fragments that the other shows too, of the one that shares less."""
    inplace = [move_points(cloud, motion) for cloud, motion in zip(clouds, truth, strict=True)]
    trees = [cKDTree(cloud) for cloud in inplace]
    share = np.zeros((len(clouds),) * 2)
    for i, cloud in enumerate(inplace):
        for j, tree in enumerate(trees):
            if i != j:
                share[i, j] = np.isfinite(tree.query(cloud[::EVERY], distance_upper_bound=NEAR)[0]).mean()
    return np.minimum(share, share.T)


def retrieval(clouds: list[np.ndarray], truth: np.ndarray, model: str) -> None:
    """Print which share of the overlapping pairs is among the candidates."""
    alike, share = similarity(place_features(Eda.load(model), Clouds.of(clouds))), overlaps(clouds, truth)
    chance = np.random.default_rng(0).random(alike.shape)
    np.fill_diagonal(chance, -np.inf)
    above = [np.triu(share, 1) > least for least in OVERLAPS]
    print(f"{len(clouds)} fragments; {above[0].sum()} pairs overlap by over 30 %, {above[1].sum()} by over 10 %")
    print(
        "| neighbours | pairs | over 30 % | over 10 % | at random: over 30 % | over 10 % |\n|---|---|---|---|---|---|"
    )
    for neighbors in NEIGHBORS:
        cells = []
        for of in (alike, np.where(np.isfinite(chance), chance + chance.T, -np.inf)):
            pairs = nearest_pairs(of, neighbors)
            cells += [
                f"{np.mean([pair in set(pairs) for pair in zip(*np.nonzero(some), strict=True)]):.0%}" for some in above
            ]
        print(f"| {neighbors} | {len(nearest_pairs(alike, neighbors))} | {' | '.join(cells)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=Path, help="the folder with fragments_5cm.npz and index.json")
    parser.add_argument("--scene", default="sun3d-hotel_uc-scan3")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="scan-small")
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--cache", type=Path, help="keeps the results of pairs")
    parser.add_argument("--retrieval", action="store_true", help="measure the choice of candidate pairs alone")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    clouds, truth, names = scattered(options.pack, options.scene, options.every, options.seed)
    if options.retrieval:
        retrieval(clouds, truth, options.model)
        raise SystemExit
    config = AssembleConfig(samples=options.samples)
    wall, busy = time.monotonic(), time.process_time()
    assembly = assemble(clouds, names=names, model=options.model, config=config, cache=options.cache)
    row = {"seconds": round(time.monotonic() - wall, 1), "processor seconds": round(time.process_time() - busy, 1)}
    row = {"scene": options.scene, "every": options.every, **measure(assembly, truth), **row}
    print(json.dumps(row, indent=2))
    if options.json:
        options.json.write_text(json.dumps(row, indent=2))
