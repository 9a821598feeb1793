"""How similar generated sweeps of streets are to real ones: `eda streets` beside sweeps of KITTI.

    python benchmarks/streets.py path/of/kitti-pack --clips 40

Every clip has four frames 4.3 m apart, as the real one has. All clouds are thinned to 0.2 m and then to 0.5 m, since
the real ones were stored at 0.2 m. Of the generated clips the mean is printed, and the range from the 10 % to the 90 %
quantile: the real clip of single sweeps is one place, which has to lie within. The other real clip is of submaps, each
of several sweeps, so that its numbers of points and its ranges are not of one sweep.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.ndimage import minimum_filter
from scipy.spatial import cKDTree

from eda.cloud import estimate_normals, voxel_grid
from eda.data.archives import read_npy
from eda.data.reading import as_motion, read_json
from eda.data.streets import StreetSource

STORED, GRID = 0.2, 0.5  # metres
SPACING, FRAMES = 4.3, 4
CELL = 2.0  # metres: the ground is the lowest point of such a cell and its neighbours
NEAR_GROUND = 0.3  # metres
SHARED = 0.5  # metres, within which a point of one sweep is in the other too

Sweep = tuple[np.ndarray, np.ndarray]  # points in the sensor's frame, and its pose


def thin(points: np.ndarray) -> np.ndarray:
    for spacing in (STORED, GRID):
        points = points[voxel_grid(points, spacing)]
    return points


def above_ground(points: np.ndarray) -> np.ndarray:
    cell = np.floor((points[:, :2] - points[:, :2].min(axis=0)) / CELL).astype(int)
    lowest = np.full(cell.max(axis=0) + 1, np.inf)
    np.minimum.at(lowest, tuple(cell.T), points[:, 2])
    return points[:, 2] - minimum_filter(lowest, 3, mode="nearest")[tuple(cell.T)]


def described(points: np.ndarray) -> dict[str, float]:
    distance, height = np.linalg.norm(points, axis=1), above_ground(points)
    upright = np.abs(estimate_normals(points)[:, 2])
    near = points[cKDTree(points).query(points, 16)[1]]
    near = near - near.mean(axis=1, keepdims=True)
    thickness = np.sqrt(np.linalg.eigvalsh(near.swapaxes(1, 2) @ near / 16)[:, 0].clip(min=0))
    return {
        "points": len(points),
        **{f"range, {q} % quantile, m": np.quantile(distance, q / 100) for q in (5, 25, 50, 75, 95)},
        "share within 0.3 m of the ground": (height < NEAR_GROUND).mean(),
        **{f"height above ground, {q} % quantile, m": np.quantile(height, q / 100) for q in (50, 75, 95)},
        "share of level surface (normal within 25 degrees of up)": (upright > 0.906).mean(),
        "share of upright surface (within 17 degrees of level)": (upright < 0.292).mean(),
        "thickness of 16 neighbours, median, m": np.median(thickness),
    }


def overlaps(sweeps: list[Sweep]) -> Iterator[tuple[float, float]]:
    """The distance and the overlap of all ordered pairs."""
    placed = [(points @ pose[:3, :3].T + pose[:3, 3], pose[:3, 3]) for points, pose in sweeps]
    trees = [cKDTree(points) for points, _ in placed]
    for i, (mine, here) in enumerate(placed):
        for j, (_, there) in enumerate(placed):
            if i != j:
                yield float(np.linalg.norm(here - there)), float((trees[j].query(mine)[0] < SHARED).mean())


def real_clip(folder: Path) -> list[Sweep]:
    content = read_json(folder / "poses.json")
    poses = content.get("poses_icp_refined", content["poses"])
    return [(thin(read_npy(folder / name)), as_motion(pose, name)) for name, pose in sorted(poses.items())]


def made_clip(source: StreetSource, item: int) -> list[Sweep]:
    return [(thin(frame.points), frame.pose.matrix) for frame in source.drive(item)]


def of_clip(sweeps: list[Sweep]) -> dict[str, float]:
    """Means over the sweeps of a clip, and the overlap by distance."""
    each = [described(points) for points, _ in sweeps]
    figures = {name: float(np.mean([of_one[name] for of_one in each])) for name in each[0]}
    distance, overlap = np.array(list(overlaps(sweeps))).T
    for step in (1, 2, 3):
        there = np.abs(distance - step * SPACING) < SPACING / 2
        figures[f"overlap at {step * SPACING:.1f} m"] = float(overlap[there].mean()) if there.any() else np.nan
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=Path, help="the folder of the KITTI clips, as kitti-pack reads them")
    parser.add_argument("--clips", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    source = StreetSource(options.clips, options.seed, (FRAMES, FRAMES), (SPACING, SPACING))
    made = [of_clip(made_clip(source, item)) for item in range(options.clips)]
    sweeps, submaps = (of_clip(real_clip(options.pack / f)) for f in ("seq00_dense_0_5_10_15", "seq07_submaps_5"))
    print(
        f"| | KITTI 00, sweeps | KITTI 07, submaps | generated ({options.clips}) | 10 to 90 % |\n|---|---|---|---|---|"
    )
    for name, value in sweeps.items():
        figures = np.array([clip[name] for clip in made])
        low, high = np.quantile(figures, [0.1, 0.9])
        digits = 0 if name == "points" else 2 if "share" in name or "overlap" in name or "thick" in name else 1
        cells = (f"{number:.{digits}f}" for number in (value, submaps[name], figures.mean()))
        print(f"| {name} | {' | '.join(cells)} | {low:.{digits}f} to {high:.{digits}f} |")
