"""3DMatch, 3DLoMatch and 3DZeroMatch: pairs of fragments of indoor scenes.

In: `<root>/{train,test}/<scene>/cloud_bin_<k>.pth` and a list of pairs. Out: one `Example` a pair, both fragments in
the frame of the target, thinned on a grid, with estimated normals of unknown sign.

The list is Predator's (`src, tgt, rot, trans, overlap`), GeoTransformer's (`pcd0, pcd1, ...`), or, scene by scene, the
benchmark's `gt.log`. 3DZeroMatch is made here: all pairs of a scene that share nothing, by `gt_overlap.log` or by
measurement.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from eda.cloud import voxel_grid
from eda.data.example import NEIGHBORS, Example
from eda.data.readers.pickles import read_pickle
from eda.data.readers.torch_files import read_torch
from eda.data.reading import as_cloud, as_motion, move_points, read_lines, reading
from eda.data.references import check_names_inside, file_inside
from eda.data.source import ItemSource, LeftOut
from eda.errors import InputError
from eda.settings import check_choice, check_positive, check_whole

GRID = 0.05  # metres, the paper's
OVERLAP_VOXEL, OVERLAP_RADIUS = 0.01, 0.03  # metres: how Predator measures overlap

# The files of pairs, by benchmark and split, as Predator and GeoTransformer call them.
_LISTS = {
    "train": ("train_info.pkl", "train.pkl"),
    "val": ("val_info.pkl", "val.pkl"),
    "3DMatch": ("3DMatch.pkl",),
    "3DLoMatch": ("3DLoMatch.pkl",),
}
_FOLDERS_OF_LISTS = (".", "metadata", "../metadata", "configs/indoor")


class Pair(NamedTuple):
    """Two fragments, named by their files without suffix, and the motion that brings the source to the target."""

    source: str  # <part>/<scene>/cloud_bin_<k>
    target: str
    motion: np.ndarray  # (4, 4) target = motion source
    overlap: float | None  # share of the source that the target shows too; None if nobody says

    def files(self, root: Path) -> list[Path]:
        """Of source and target. Raises `InputError` if they are not below the root."""
        return [file_inside(root, f"{name}.pth", root) for name in (self.source, self.target)]


@dataclass(frozen=True)
class ThreeDMatch(ItemSource[Pair]):
    """The pairs of a published list: "3DMatch" and "3DLoMatch" for testing, "train" and "val"."""

    path: Path
    split: str = "3DMatch"
    pairs: str = ""  # the list's file, or a folder of <scene>/gt.log; empty: found beside the fragments
    grid: float = GRID
    min_overlap: float = 0.0
    max_overlap: float = 1.0
    neighbors: int = NEIGHBORS  # by which normals are estimated, on the grid; 0: no normals

    def __post_init__(self) -> None:
        check_choice("split", self.split, tuple(_LISTS))
        check_positive("grid", self.grid)
        check_whole("neighbors", self.neighbors, 0, 4096)

    @cached_property
    def items(self) -> tuple[Pair, ...]:
        """The pairs whose overlap lies within the bounds; those of unknown overlap stay."""
        file = Path(self.pairs) if self.pairs else self._find_list()
        pairs = read_benchmark_pairs(self.path, file) if file.is_dir() else read_pairs(file)
        chosen = [p for p in pairs if p.overlap is None or self.min_overlap <= p.overlap <= self.max_overlap]
        if not chosen:
            raise InputError(f"{file}: none of its {len(pairs)} pairs has an overlap within the bounds")
        return tuple(chosen)

    def _find_list(self) -> Path:
        names = _LISTS[self.split]
        for folder, name in itertools.product(_FOLDERS_OF_LISTS, names):
            if (self.path / folder / name).is_file():
                return self.path / folder / name
        raise InputError(f"{self.path}: no {' or '.join(names)} in it or its metadata; say where with pairs=<file>")

    def read(self, item: Pair) -> Example:
        """One pair."""
        return pair_example(self.path, item, self.grid).with_normals(self.neighbors)


@dataclass(frozen=True)
class ThreeDZeroMatch(ItemSource[Pair]):
    """All pairs of fragments of a scene that do not overlap.

    With a `gt_overlap.log` (in the scene's folder, or in `<ground_truth>/<scene>`) the pairs are known at once. Without
    one, a pair is measured when it is read and raises `LeftOut` if it overlaps.
    """

    path: Path
    part: str = "test"
    scenes: tuple[str, ...] = ()  # empty: all
    ground_truth: str = ""  # folder of <scene>/gt_overlap.log and gt.log; empty: the scenes' own folders
    grid: float = GRID
    radius: float = OVERLAP_RADIUS  # a point nearer than this to the other fragment is shared
    voxel: float = OVERLAP_VOXEL  # both are thinned to this before
    neighbors: int = NEIGHBORS  # by which normals are estimated, on the grid; 0: no normals

    def __post_init__(self) -> None:
        check_positive("grid", self.grid)
        check_whole("neighbors", self.neighbors, 0, 4096)
        check_positive("radius", self.radius)
        check_positive("voxel", self.voxel)

    @cached_property
    def items(self) -> tuple[Pair, ...]:
        """Pairs known or suspected to be free of overlap."""
        root = self.path / self.part
        if not root.is_dir():
            raise InputError(f"{root}: not a folder; expected <scene>/cloud_bin_<k>.pth in it")
        names = self.scenes or sorted(folder.name for folder in root.iterdir() if folder.is_dir())
        pairs = [pair for name in names for pair in self._pairs_of(root / name)]
        if not pairs:
            raise InputError(f"{root}: no pairs without overlap in {', '.join(names) or 'it: it has no scenes'}")
        return tuple(pairs)

    def _pairs_of(self, scene: Path) -> list[Pair]:
        truth = Path(self.ground_truth) / scene.name if self.ground_truth else scene
        poses = scene_poses(scene, truth)
        table = truth / "gt_overlap.log"
        overlaps = read_overlaps(table) if table.is_file() else {}
        pairs = []
        for i, j in itertools.combinations(sorted(poses), 2):
            overlap = overlaps.get((i, j))
            if not overlap:
                # gt.log's order: the later fragment moves to the earlier one.
                motion = np.linalg.inv(poses[i]) @ poses[j]
                names = [f"{self.part}/{scene.name}/cloud_bin_{k}" for k in (j, i)]
                pairs.append(Pair(names[0], names[1], motion, overlap))
        return pairs

    def read(self, item: Pair) -> Example:
        """One pair."""
        if item.overlap is None and self._overlaps(item):
            raise LeftOut(f"{item.source} and {item.target} overlap")
        return pair_example(self.path, item, self.grid).with_normals(self.neighbors)

    def _overlaps(self, pair: Pair) -> bool:
        source, target = (_read_on_grid(file, self.voxel) for file in pair.files(self.path))
        return overlap_share(move_points(source, pair.motion), target, self.radius) > 0


def pair_example(root: Path, pair: Pair, grid: float) -> Example:
    """Source and target in the target's frame."""
    source, target = (_read_on_grid(file, grid) for file in pair.files(root))
    name = f"{pair.source}-{Path(pair.target).name}"
    return Example.from_clouds(name, [move_points(source, pair.motion), target])


def overlap_share(source: np.ndarray, target: np.ndarray, radius: float) -> float:
    """The share of the source's points with one of the target's within `radius`; both in one frame."""
    return float(np.isfinite(cKDTree(target).query(source, distance_upper_bound=radius)[0]).mean())


def read_fragment(path: Path) -> np.ndarray:
    """The points (n, 3) of a `cloud_bin_<k>.pth`."""
    return as_cloud(read_torch(path), path)


@lru_cache(maxsize=16)
def _read_on_grid(path: Path, spacing: float) -> np.ndarray:
    """A fragment comes in many pairs that follow each other."""
    points = read_fragment(path)
    return points[voxel_grid(points, spacing)]


# -- lists of pairs ----------------------------------------------------------------------------------------


def read_pairs(path: Path) -> list[Pair]:
    """Predator's or GeoTransformer's list."""
    content = read_pickle(path)
    with reading(path, "a list of pairs with src, tgt, rot, trans, overlap or with pcd0, pcd1, rotation, translation"):
        rows = _geotransformer_rows(content) if isinstance(content, list) else _predator_rows(content)
        pairs = [
            Pair(_stem(source), _stem(target), _motion(rotation, translation, f"{path}, pair {i}"), float(overlap))
            for i, (source, target, rotation, translation, overlap) in enumerate(rows)
        ]
    check_names_inside((name for pair in pairs for name in (pair.source, pair.target)), path)
    if not pairs:
        raise InputError(f"{path}: an empty list of pairs")
    return pairs


def _predator_rows(content: Any) -> list[tuple]:
    columns = [content[key] for key in ("src", "tgt", "rot", "trans", "overlap")]
    return list(zip(*columns, strict=True))


def _geotransformer_rows(content: list) -> list[tuple]:
    # Its rotation and translation bring pcd1 to pcd0.
    keys = ("pcd1", "pcd0", "rotation", "translation", "overlap")
    return [tuple(row[key] for key in keys) for row in content]


def _motion(rotation: Any, translation: Any, where: str) -> np.ndarray:
    rotation = np.asarray(rotation, dtype=np.float64).reshape(3, 3)
    return as_motion(np.hstack([rotation, np.asarray(translation, dtype=np.float64).reshape(3, 1)]), where)


def _stem(name: Any) -> str:
    """A fragment's file without suffix."""
    return Path(str(name)).with_suffix("").as_posix()


# -- the benchmark's own files -----------------------------------------------------------------------------


def read_benchmark_pairs(root: Path, folder: Path) -> list[Pair]:
    """The pairs of every `<scene>/gt.log` (or `<scene>-evaluation/gt.log`) of a folder, with overlaps where known."""
    pairs = []
    for log in sorted(folder.glob("*/gt.log")):
        scene = log.parent.name.removesuffix("-evaluation")
        table = log.with_name("gt_overlap.log")
        overlaps = read_overlaps(table) if table.is_file() else {}
        part = "test/" if (root / "test" / scene).is_dir() else ""
        for (i, j), motion in read_gt_log(log).items():
            names = [f"{part}{scene}/cloud_bin_{k}" for k in (j, i)]
            pairs.append(Pair(names[0], names[1], motion, overlaps.get((i, j))))
    if not pairs:
        raise InputError(f"{folder}: no <scene>/gt.log in it")
    return pairs


def read_gt_log(path: Path) -> dict[tuple[int, int], np.ndarray]:
    """`i j n`, then a 4x4 matrix that maps fragment j into fragment i; pair after pair."""
    return {key: as_motion(block, f"{path}, pair {key}") for key, block in _numbered_blocks(path, 4).items()}


def read_gt_info(path: Path) -> dict[tuple[int, int], np.ndarray]:
    """`i j n`, then the 6x6 information matrix of the pair, by which registration recall is measured."""
    return _numbered_blocks(path, 6)


def _numbered_blocks(path: Path, size: int) -> dict[tuple[int, int], np.ndarray]:
    lines = read_lines(path)
    blocks = {}
    with reading(path, f"blocks of a line `i j n` and {size} lines of {size} numbers"):
        for start in range(0, len(lines), size + 1):
            i, j, _ = (int(word) for word in lines[start].split())
            rows = [[float(word) for word in line.split()] for line in lines[start + 1 : start + 1 + size]]
            blocks[i, j] = np.array(rows).reshape(size, size)
    return blocks


def read_overlaps(path: Path) -> dict[tuple[int, int], float]:
    """`i,j,overlap` for all pairs of a scene."""
    lines = read_lines(path)
    with reading(path, "lines `i,j,overlap`"):
        rows = [line.split(",") for line in lines]
        return {(int(i), int(j)): float(overlap) for i, j, overlap in rows}


def scene_poses(scene: Path, truth: Path) -> dict[int, np.ndarray]:
    """Where the fragments of a scene lie in one common frame: from their `.info.txt`, or along the pairs of gt.log."""
    numbers = sorted(int(file.stem.removeprefix("cloud_bin_")) for file in scene.glob("cloud_bin_*.pth"))
    if len(numbers) < 2:
        raise InputError(f"{scene}: expected fragments cloud_bin_<k>.pth, found {len(numbers)}")
    infos = {k: scene / f"cloud_bin_{k}.info.txt" for k in numbers}
    if all(file.is_file() for file in infos.values()):
        # The first line says where the frames came from.
        return {k: as_motion([line.split() for line in read_lines(file)[1:5]], file) for k, file in infos.items()}
    if not (truth / "gt.log").is_file():
        raise InputError(f"{scene}: no cloud_bin_<k>.info.txt for all fragments and no {truth / 'gt.log'}: no poses")
    return _chain_poses(numbers, read_gt_log(truth / "gt.log"))


def _chain_poses(numbers: list[int], motions: dict[tuple[int, int], np.ndarray]) -> dict[int, np.ndarray]:
    """Poses relative to the first fragment that has a pair, of all that are connected with it."""
    steps: dict[int, list[tuple[int, np.ndarray]]] = {k: [] for k in numbers}
    for (i, j), motion in motions.items():
        if i in steps and j in steps:
            steps[i].append((j, motion))
            steps[j].append((i, np.linalg.inv(motion)))
    poses = {next((k for k in numbers if steps[k]), numbers[0]): np.eye(4)}
    waiting = list(poses)
    while waiting:
        here = waiting.pop(0)
        for there, motion in steps[here]:
            if there not in poses:
                poses[there] = poses[here] @ motion
                waiting.append(there)
    return poses
