"""Packs: real data in a few small files, for those who cannot fetch the originals.

    everyday_train.npz   fractures of Breaking Bad: points_u16, normals_i8, contact, piece_offset, fracture_offset,
                         origin, step, index (JSON)
    fragments_5cm.npz    fragments of 3DMatch: points_mm, offset; with index.json: fragments, pairs
    <case>/poses.json    lidar views: cloud -> common frame; with the clouds as .npy

In: such a file or folder, wherever it lies. Out: one `Example` a fracture, pair or case.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from eda.cloud import estimate_normals, voxel_grid
from eda.data.example import OUTER, Example
from eda.data.reading import DamageError, as_cloud, as_motion, moved, read_json, read_npy, read_npz, reading
from eda.data.source import Source
from eda.errors import InputError
from eda.settings import check_choice, check_positive, check_whole


def _segment(array: np.ndarray, offset: np.ndarray, index: int) -> np.ndarray:
    return array[offset[index] : offset[index + 1]]


def _check_offsets(path: Path, what: str, offset: np.ndarray, count: int) -> None:
    """Offsets begin at 0, do not fall, and end at the count of what they divide."""
    whole = offset.ndim == 1 and len(offset) > 1 and np.issubdtype(offset.dtype, np.integer)
    if not whole or offset[0] != 0 or offset[-1] != count or (np.diff(offset) < 0).any():
        raise InputError(f"{path}: {what} must rise from 0 to {count}")


# -- Breaking Bad ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BreakingBadPack(Source[int]):
    """Fractures as points with normals and labels of contact."""

    path: Path  # the .npz file, or the folder of the only one
    categories: tuple[str, ...] = ()  # empty: all

    @cached_property
    def items(self) -> tuple[int, ...]:
        """The numbers of the fractures in the file."""
        entries = _fractures(self._file).entries
        wanted = set(self.categories) if self.categories else {entry["category"] for entry in entries}
        chosen = tuple(i for i, entry in enumerate(entries) if entry["category"] in wanted)
        if not chosen:
            raise InputError(f"{self._file}: no fractures of {', '.join(self.categories)}")
        return chosen

    @cached_property
    def _file(self) -> Path:
        return _only_file(self.path, "*.npz")

    def read(self, item: int) -> Example:
        """One fracture."""
        return _fractures(self._file).example(item)


class _Fractures(NamedTuple):
    arrays: dict[str, np.ndarray]
    entries: list[dict[str, Any]]  # of every fracture: subset, category, shape, fracture

    def example(self, number: int) -> Example:
        a = self.arrays
        pieces = a["piece_offset"][a["fracture_offset"][number] : a["fracture_offset"][number + 1] + 1]
        rows = slice(pieces[0], pieces[-1])
        points = a["points_u16"][rows] * a["step"] + a["origin"]
        normals = a["normals_i8"][rows].astype(np.float64)
        contact = a["contact"][rows].astype(np.int16)
        entry = self.entries[number]
        return Example(
            name="/".join(str(entry[key]) for key in ("subset", "category", "shape", "fracture")),
            points=(points - points.mean(axis=0)).astype(np.float32),
            sizes=np.diff(pieces),
            normals=(normals / np.linalg.norm(normals, axis=1, keepdims=True)).astype(np.float32),
            contact=np.where(contact == 255, OUTER, contact).astype(np.int16),
        )


@lru_cache(maxsize=2)
def _fractures(path: Path) -> _Fractures:
    keys = ("points_u16", "normals_i8", "contact", "piece_offset", "fracture_offset", "origin", "step", "index")
    arrays = read_npz(path, keys)
    with reading(path, "an index with subset, category, shape and fracture of every fracture"):
        index = json.loads(str(arrays.pop("index")))
        for entry in index:
            _ = entry["subset"], entry["category"], entry["shape"], entry["fracture"]
    count = len(arrays["points_u16"])
    _check_offsets(path, "piece_offset", arrays["piece_offset"], count)
    _check_offsets(path, "fracture_offset", arrays["fracture_offset"], len(arrays["piece_offset"]) - 1)
    shapes = {key: arrays[key].shape for key in ("points_u16", "normals_i8", "contact")}
    if shapes != {"points_u16": (count, 3), "normals_i8": (count, 3), "contact": (count,)}:
        raise InputError(f"{path}: points, normals and contact do not belong together: {shapes}")
    if len(index) != len(arrays["fracture_offset"]) - 1 or not arrays["normals_i8"].any(axis=1).all():
        raise InputError(f"{path}: the index is of {len(index)} fractures, or normals are zero")
    return _Fractures(arrays, index)


# -- 3DMatch -----------------------------------------------------------------------------------------------


PACK_GRID = 0.05  # metres


class FragmentPair(NamedTuple):
    """Two fragments by number, and the motion that brings the source to the target."""

    source: int
    target: int
    motion: np.ndarray  # (4, 4)


@dataclass(frozen=True)
class ThreeDMatchPack(Source[FragmentPair]):
    """Pairs of the lists "3DMatch" or "3DLoMatch", or "zero": all pairs of a scene that share nothing; or of several.

    The fragments are means over cells of 5 cm, so overlap at the usual 3 cm cannot be measured on them: fragments that
    come no nearer than `radius` anywhere count as free of overlap.
    """

    path: Path  # the folder with fragments_5cm.npz and index.json
    pairs: str = "3DMatch"  # several lists are joined by +
    scenes: tuple[str, ...] = ()  # empty: all
    min_overlap: float = 0.0
    max_overlap: float = 1.0
    radius: float = 0.1  # metres
    most: int = 0  # pairs of a list, evenly chosen from it; 0: all
    grid: float = PACK_GRID  # metres; a coarser one than the pack's thins the fragments
    neighbors: int = 0  # by which normals are estimated, before thinning; their signs mean nothing. 0: no normals

    def __post_init__(self) -> None:
        for name in self.pairs.split("+"):
            check_choice("pairs", name, ("3DMatch", "3DLoMatch", "zero"))
        check_positive("radius", self.radius)
        check_positive("grid", self.grid)
        check_whole("most", self.most, 0, 2**31)
        check_whole("neighbors", self.neighbors, 0, 4096)

    @cached_property
    def items(self) -> tuple[FragmentPair, ...]:
        """The pairs, in the order of the list or of the fragments."""
        fragments = self._fragments
        known = {name.rpartition("/")[0] for name in fragments.names}
        scenes = set(self.scenes) if self.scenes else known
        if not scenes <= known:
            raise InputError(
                f"{self.path}: no scene {', '.join(sorted(scenes - known))}; it has {', '.join(sorted(known))}"
            )
        inside = [name.rpartition("/")[0] in scenes for name in fragments.names]
        listed: list[FragmentPair] = []
        for name in self.pairs.split("+"):
            found = self._apart(inside) if name == "zero" else self._listed(name, inside)
            if not found:
                raise InputError(f"{self.path}: no pairs of '{name}' in {', '.join(sorted(scenes))}")
            listed += _evenly(found, self.most)
        return tuple(listed)

    @property
    def _fragments(self) -> Fragments:
        return read_fragments(self.path)

    def _listed(self, name: str, inside: list[bool]) -> list[FragmentPair]:
        index, last = self.path / "index.json", len(inside) - 1
        chosen = []
        with reading(index, f"pairs/{name} with src, tgt, T, overlap"):
            for row in self._fragments.pairs[name]:
                source, target = row["src"], row["tgt"]
                if not (0 <= source <= last and 0 <= target <= last):
                    raise DamageError(f"a pair of fragments {source} and {target} of {last + 1}")
                if inside[source] and inside[target] and self.min_overlap <= row["overlap"] <= self.max_overlap:
                    chosen.append(FragmentPair(source, target, as_motion(row["T"], f"{index}, T of {row}")))
        return chosen

    def _apart(self, inside: list[bool]) -> list[FragmentPair]:
        fragments = self._fragments
        trees = {i: cKDTree(moved(fragments.cloud(i), pose)) for i, pose in enumerate(fragments.poses) if inside[i]}
        chosen = []
        for i, j in itertools.combinations(trees, 2):
            same_scene = fragments.names[i].rpartition("/")[0] == fragments.names[j].rpartition("/")[0]
            if same_scene and _far(trees[i], trees[j], self.radius):
                chosen.append(FragmentPair(j, i, np.linalg.inv(fragments.poses[i]) @ fragments.poses[j]))
        return chosen

    def read(self, item: FragmentPair) -> Example:
        """One pair, in the frame of the target."""
        fragments = self._fragments
        name = f"{fragments.names[item.source]}-{Path(fragments.names[item.target]).name}"
        source, target = (
            _surface(self.path, number, self.grid, self.neighbors) for number in (item.source, item.target)
        )
        clouds = [moved(source.points, item.motion), target.points]
        if source.normals is None or target.normals is None:
            return Example.from_clouds(name, clouds)
        return Example.from_clouds(name, clouds, [source.normals @ item.motion[:3, :3].T, target.normals])


def _evenly(pairs: list[FragmentPair], most: int) -> list[FragmentPair]:
    """At most so many, from all over the list; 0: all."""
    if not most or len(pairs) <= most:
        return pairs
    return [pairs[i] for i in np.linspace(0, len(pairs) - 1, most).round().astype(int)]


class _Surface(NamedTuple):
    points: np.ndarray  # (n, 3)
    normals: np.ndarray | None  # (n, 3) unit, of any sign


@lru_cache(maxsize=512)
def _surface(folder: Path, number: int, grid: float, neighbors: int) -> _Surface:
    """A fragment as it is given out; it comes in many pairs."""
    points = read_fragments(folder).cloud(number)
    kept = voxel_grid(points, grid) if grid > PACK_GRID else np.arange(len(points))
    return _Surface(points[kept], estimate_normals(points, neighbors)[kept] if neighbors else None)


def _far(first: cKDTree, second: cKDTree, radius: float) -> bool:
    """Whether no point of one comes within `radius` of the other."""
    near = first.data[((first.data > second.mins - radius) & (first.data < second.maxes + radius)).all(axis=1)]
    # Most pairs that do come near show it on a few points.
    return all(np.isinf(second.query(some, distance_upper_bound=radius)[0]).all() for some in (near[::50], near))


class Fragments(NamedTuple):
    """All scans of the pack."""

    points_mm: np.ndarray  # (P, 3) int16
    offset: np.ndarray  # (N + 1,)
    names: list[str]  # <scene>/cloud_bin_<k>
    poses: list[np.ndarray]  # (4, 4) fragment -> scene
    pairs: dict[str, list[dict[str, Any]]]

    def cloud(self, number: int) -> np.ndarray:
        """(n, 3), in metres, in the frame of the scan."""
        return _segment(self.points_mm, self.offset, number) / 1000.0


@lru_cache(maxsize=2)
def read_fragments(folder: Path) -> Fragments:
    """Of the folder with fragments_5cm.npz and index.json."""
    file, index = folder / "fragments_5cm.npz", folder / "index.json"
    arrays, content = read_npz(file, ("points_mm", "offset")), read_json(index)
    as_cloud(arrays["points_mm"], file)
    _check_offsets(file, "offset", arrays["offset"], len(arrays["points_mm"]))
    with reading(index, "fragments with name and cam_to_world, and pairs"):
        names = [str(fragment["name"]) for fragment in content["fragments"]]
        poses = [as_motion(f["cam_to_world"], f"{index}, {f['name']}") for f in content["fragments"]]
        pairs = dict(content["pairs"])
    if len(names) != len(arrays["offset"]) - 1:
        raise InputError(f"{index}: {len(names)} fragments, but {file.name} has {len(arrays['offset']) - 1}")
    return Fragments(arrays["points_mm"], arrays["offset"], names, poses, pairs)


# -- KITTI -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KittiPack(Source[str]):
    """Lidar cases: every folder with a `poses.json`, all of its clouds as one puzzle."""

    path: Path  # one case, or a folder of cases
    grid: float = 0.5  # metres
    poses: str = "poses_icp_refined"  # which of the file's poses, if it has them; else "poses", the official ones

    def __post_init__(self) -> None:
        check_positive("grid", self.grid)

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
        clouds = [moved(self._thinned(folder / name), motion) for name, motion in motions.items()]
        return Example.from_clouds(folder.resolve().name, clouds)

    def _thinned(self, path: Path) -> np.ndarray:
        points = as_cloud(read_npy(path), path)
        return points[voxel_grid(points, self.grid)]


def _only_file(path: Path, pattern: str) -> Path:
    """The path itself, or the only such file of a folder."""
    if not path.is_dir():
        return path
    found = sorted(path.glob(pattern))
    if len(found) != 1:
        raise InputError(f"{path}: expected one {pattern} in it, found {len(found)}; name the file itself")
    return found[0]
