"""KITTI odometry: lidar views of a road, far apart, as pieces of a puzzle.

In: `sequences/<SS>/velodyne/<frame>.bin`, `sequences/<SS>/calib.txt` and `poses/<SS>.txt`. Out: one `Example` for every
run of a few consecutive kept frames, in the world's frame, thinned on a grid, with estimated normals of unknown sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from eda.cloud import voxel_grid
from eda.data.example import NEIGHBORS, Example
from eda.data.reading import DamageError, as_cloud, as_motion, move_points, read_lines, reading
from eda.data.source import ItemSource
from eda.errors import InputError
from eda.settings import check_choice, check_positive, check_whole

# The paper's split by sequence.
SPLITS = {"train": range(9), "test": range(9, 11)}


class LidarFrame(NamedTuple):
    """One rotation of the lidar, which is one scan."""

    file: Path
    pose: np.ndarray  # (4, 4) lidar -> world


class FrameRun(NamedTuple):
    """Consecutive kept frames of a sequence."""

    name: str  # <sequence>/<frame>-<frame>-...
    frames: tuple[LidarFrame, ...]


@dataclass(frozen=True)
class Kitti(ItemSource[FrameRun]):
    """All runs of `min_pieces` to `max_pieces` consecutive frames among those at least `distance` apart."""

    path: Path
    split: str = "train"
    distance: float = 100.0  # metres, between a kept frame and the next, as the crow flies
    min_pieces: int = 2
    max_pieces: int = 8
    grid: float = 0.5  # metres
    neighbors: int = NEIGHBORS  # by which normals are estimated, on the grid; 0: no normals

    def __post_init__(self) -> None:
        check_choice("split", self.split, tuple(SPLITS))
        check_positive("distance", self.distance)
        check_positive("grid", self.grid)
        check_whole("neighbors", self.neighbors, 0, 4096)
        check_whole("min_pieces", self.min_pieces, 2, 1000)
        check_whole("max_pieces", self.max_pieces, self.min_pieces, 1000)

    @cached_property
    def items(self) -> tuple[FrameRun, ...]:
        """The runs, sequence by sequence, the short ones first."""
        names = [f"{number:02d}" for number in SPLITS[self.split]]
        there = [name for name in names if (self.path / "sequences" / name / "velodyne").is_dir()]
        runs = [run for name in there for run in self._runs_of(name)]
        if not runs:
            raise InputError(
                f"{self.path}: no {self.min_pieces} frames {self.distance:g} m apart in sequences/<SS>/velodyne of "
                f"{', '.join(names)} ({len(there)} of these are there)"
            )
        return tuple(runs)

    @property
    def num_missing(self) -> int:
        """Sequences of the split that are not there."""
        return sum(not (self.path / f"sequences/{number:02d}/velodyne").is_dir() for number in SPLITS[self.split])

    def _runs_of(self, sequence: str) -> list[FrameRun]:
        kept = keep_far_apart(read_frames(self.path, sequence), self.distance)
        runs = []
        for length in range(self.min_pieces, self.max_pieces + 1):
            for start in range(len(kept) - length + 1):
                frames = kept[start : start + length]
                runs.append(FrameRun(f"{sequence}/{'-'.join(frame.file.stem for frame in frames)}", tuple(frames)))
        return runs

    def read(self, item: FrameRun) -> Example:
        """One run."""
        clouds = [move_points(_read_on_grid(frame.file, self.grid), frame.pose) for frame in item.frames]
        return Example.from_clouds(item.name, clouds).with_normals(self.neighbors)


def keep_far_apart(frames: list[LidarFrame], distance: float) -> list[LidarFrame]:
    """The first frame, and every one that is at least so far from the one kept before it."""
    kept: list[LidarFrame] = []
    for frame in frames:
        if not kept or np.linalg.norm(frame.pose[:3, 3] - kept[-1].pose[:3, 3]) >= distance:
            kept.append(frame)
    return kept


def read_frames(root: Path, sequence: str) -> list[LidarFrame]:
    """The frames of a sequence that are on disk, in order."""
    poses = root / "poses" / f"{sequence}.txt"
    calibration = root / "sequences" / sequence / "calib.txt"
    camera_of_lidar = _read_tr(calibration)
    lines = read_lines(poses)
    with reading(poses, "a line of 12 numbers, a 3x4 matrix, for every frame"):
        matrices = [np.array(line.split(), dtype=np.float64).reshape(3, 4) for line in lines]
    frames = []
    for file in sorted((root / "sequences" / sequence / "velodyne").glob("*.bin")):
        if not file.stem.isdecimal() or int(file.stem) >= len(matrices):
            raise InputError(f"{file}: {poses} has poses of {len(matrices)} frames, and none for this one")
        number = int(file.stem)
        frames.append(LidarFrame(file, as_motion(matrices[number], f"{poses}, frame {number}") @ camera_of_lidar))
    return frames


def _read_tr(path: Path) -> np.ndarray:
    """(4, 4) lidar -> camera 0."""
    for line in read_lines(path):
        key, _, numbers = line.partition(":")
        if key in ("Tr", "Tr_velo_cam", "Tr_velo_to_cam"):
            return as_motion(numbers.split(), f"{path}, {key}")
    raise InputError(f"{path}: no line `Tr: <12 numbers>`, the place of the lidar relative to the camera")


def read_scan(path: Path) -> np.ndarray:
    """The points (n, 3) of a scan; its fourth number, the reflectance, is left."""
    with reading(path, "float32 numbers, four a point"):
        numbers = np.fromfile(path, dtype="<f4")
        if path.stat().st_size % 16 or not len(numbers):
            raise DamageError(f"{path.stat().st_size} bytes")
        return as_cloud(numbers.reshape(-1, 4)[:, :3], path)


@lru_cache(maxsize=32)
def _read_on_grid(path: Path, spacing: float) -> np.ndarray:
    """A frame is in several runs."""
    points = read_scan(path)
    return points[voxel_grid(points, spacing)]
