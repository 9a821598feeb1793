"""The 3DMatch pack: fragments of indoor scenes at 5 cm in two files, for those who cannot fetch the original.

In: a folder with `fragments_5cm.npz` (points_mm, offset) and `index.json` (fragments, pairs). Out: one `Example` a
pair, with estimated normals of unknown sign.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from eda.cloud import estimate_normals, voxel_grid
from eda.data.archives import read_npz
from eda.data.example import NEIGHBORS, Example
from eda.data.reading import DamageError, as_cloud, as_motion, check_offsets, move_points, read_json, reading
from eda.data.source import ItemSource
from eda.errors import InputError
from eda.settings import check_choice, check_positive, check_whole

PACK_GRID = 0.05  # metres


class FragmentPair(NamedTuple):
    """Two fragments by number, and the motion that brings the source to the target."""

    source: int
    target: int
    motion: np.ndarray  # (4, 4)


@dataclass(frozen=True)
class ThreeDMatchPack(ItemSource[FragmentPair]):
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
    neighbors: int = NEIGHBORS  # by which normals are estimated, before thinning; 0: no normals

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
            found = self._pairs_without_overlap(inside) if name == "zero" else self._pairs_of_list(name, inside)
            if not found:
                raise InputError(f"{self.path}: no pairs of '{name}' in {', '.join(sorted(scenes))}")
            listed += _spread_evenly(found, self.most)
        return tuple(listed)

    @property
    def _fragments(self) -> PackFragments:
        return read_fragments(self.path)

    def _pairs_of_list(self, name: str, inside: list[bool]) -> list[FragmentPair]:
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

    def _pairs_without_overlap(self, inside: list[bool]) -> list[FragmentPair]:
        fragments = self._fragments
        trees = {
            i: cKDTree(move_points(fragments.cloud(i), pose)) for i, pose in enumerate(fragments.poses) if inside[i]
        }
        chosen = []
        for i, j in itertools.combinations(trees, 2):
            same_scene = fragments.names[i].rpartition("/")[0] == fragments.names[j].rpartition("/")[0]
            if same_scene and _is_far(trees[i], trees[j], self.radius):
                chosen.append(FragmentPair(j, i, np.linalg.inv(fragments.poses[i]) @ fragments.poses[j]))
        return chosen

    def read(self, item: FragmentPair) -> Example:
        """One pair, in the frame of the target."""
        fragments = self._fragments
        name = f"{fragments.names[item.source]}-{Path(fragments.names[item.target]).name}"
        source, target = (
            _fragment_cloud(self.path, number, self.grid, self.neighbors) for number in (item.source, item.target)
        )
        clouds = [move_points(source.points, item.motion), target.points]
        if source.normals is None or target.normals is None:
            return Example.from_clouds(name, clouds)
        return Example.from_clouds(name, clouds, [source.normals @ item.motion[:3, :3].T, target.normals])


def _spread_evenly(pairs: list[FragmentPair], most: int) -> list[FragmentPair]:
    """At most so many pairs, spread evenly over the list; 0: all."""
    if not most or len(pairs) <= most:
        return pairs
    return [pairs[i] for i in np.linspace(0, len(pairs) - 1, most).round().astype(int)]


class _FragmentCloud(NamedTuple):
    points: np.ndarray  # (n, 3)
    normals: np.ndarray | None  # (n, 3) unit, of any sign


@lru_cache(maxsize=512)
def _fragment_cloud(folder: Path, number: int, grid: float, neighbors: int) -> _FragmentCloud:
    """A fragment as it is given out; it comes in many pairs."""
    points = read_fragments(folder).cloud(number)
    kept = voxel_grid(points, grid) if grid > PACK_GRID else np.arange(len(points))
    return _FragmentCloud(points[kept], estimate_normals(points, neighbors)[kept] if neighbors else None)


def _is_far(first: cKDTree, second: cKDTree, radius: float) -> bool:
    """Whether no point of one comes within `radius` of the other."""
    near = first.data[((first.data > second.mins - radius) & (first.data < second.maxes + radius)).all(axis=1)]
    # Most pairs that do come near show it on a few points.
    return all(np.isinf(second.query(some, distance_upper_bound=radius)[0]).all() for some in (near[::50], near))


class PackFragments(NamedTuple):
    """All scans of the pack."""

    points_mm: np.ndarray  # (P, 3) int16
    offset: np.ndarray  # (N + 1,)
    names: list[str]  # <scene>/cloud_bin_<k>
    poses: list[np.ndarray]  # (4, 4) fragment -> scene
    pairs: dict[str, list[dict[str, Any]]]

    def cloud(self, number: int) -> np.ndarray:
        """(n, 3), in metres, in the frame of the scan."""
        return self.points_mm[self.offset[number] : self.offset[number + 1]] / 1000.0


@lru_cache(maxsize=2)
def read_fragments(folder: Path) -> PackFragments:
    """The fragments of a folder with fragments_5cm.npz and index.json."""
    file, index = folder / "fragments_5cm.npz", folder / "index.json"
    arrays, content = read_npz(file, ("points_mm", "offset")), read_json(index)
    as_cloud(arrays["points_mm"], file)
    check_offsets(file, "offset", arrays["offset"], len(arrays["points_mm"]))
    with reading(index, "fragments with name and cam_to_world, and pairs"):
        names = [str(fragment["name"]) for fragment in content["fragments"]]
        poses = [as_motion(f["cam_to_world"], f"{index}, {f['name']}") for f in content["fragments"]]
        pairs = dict(content["pairs"])
    if len(names) != len(arrays["offset"]) - 1:
        raise InputError(f"{index}: {len(names)} fragments, but {file.name} has {len(arrays['offset']) - 1}")
    return PackFragments(arrays["points_mm"], arrays["offset"], names, poses, pairs)
