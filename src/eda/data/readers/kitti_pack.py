"""The KITTI pack: a few lidar cases with poses, for those who cannot fetch the original.

In: a folder with `poses.json`, which brings every cloud to a common frame, and the clouds as .npy; or a folder of such
folders. Out: one `Example` a case.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from eda.cloud import voxel_grid
from eda.data.archives import read_npy
from eda.data.example import NEIGHBORS, Example
from eda.data.reading import as_cloud, as_motion, move_points, read_json, reading
from eda.data.references import file_inside
from eda.data.source import ItemSource
from eda.errors import InputError
from eda.settings import check_positive, check_whole


@dataclass(frozen=True)
class KittiPack(ItemSource[str]):
    """Lidar cases: every folder with a `poses.json`, all of its clouds as one puzzle."""

    path: Path  # one case, or a folder of cases
    grid: float = 0.5  # metres
    poses: str = "poses_icp_refined"  # which of the file's poses, if it has them; else "poses", the official ones
    neighbors: int = NEIGHBORS  # by which normals are estimated, on the grid; 0: no normals

    def __post_init__(self) -> None:
        check_positive("grid", self.grid)
        check_whole("neighbors", self.neighbors, 0, 4096)

    @cached_property
    def items(self) -> tuple[str, ...]:
        """The folders of the cases, relative to `path`."""
        if (self.path / "poses.json").is_file():
            return (".",)
        cases = tuple(sorted(file.parent.name for file in self.path.glob("*/poses.json")))
        if not cases:
            raise InputError(f"{self.path}: expected poses.json and clouds as .npy, or folders of these")
        return cases

    def read(self, item: str) -> Example:
        """One case."""
        folder = self.path / item
        file = folder / "poses.json"
        content = read_json(file)
        with reading(file, "poses with a 4x4 matrix for every cloud"):
            poses = content.get(self.poses, content["poses"])
            motions = {name: as_motion(matrix, f"{file}, {name}") for name, matrix in sorted(poses.items())}
        clouds = [
            move_points(self._read_on_grid(file_inside(folder, name, file)), motion) for name, motion in motions.items()
        ]
        return Example.from_clouds(folder.resolve().name, clouds).with_normals(self.neighbors)

    def _read_on_grid(self, path: Path) -> np.ndarray:
        points = as_cloud(read_npy(path), path)
        return points[voxel_grid(points, self.grid)]
