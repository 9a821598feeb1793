"""Functions of one cloud: farthest points, a voxel grid, normals, and a spatial order."""

import math
import operator

import numpy as np
from scipy.spatial import cKDTree

from eda.errors import InputError
from eda.native import check_result, library
from eda.settings import check_positive

_ROWS_AT_ONCE = 100_000  # of a table of neighbours, which bounds memory


def farthest_points(points: np.ndarray, count: int) -> np.ndarray:
    """Farthest point sampling: the indices of `count` points, each the farthest from those before it.

    It begins at the point farthest from the centroid. So the choice does not depend on the axes or on the order of the
    points, except for ties. The first n indices are those of a run with count = n: one run serves every level of a
    pyramid.

    points (n, 3) -> (count,) with 1 <= count <= n. The compiled module prunes with a tree; without it the cost is
    n * count.
    """
    return farthest_points_and_gaps(points, count)[0]


def farthest_points_and_gaps(points: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """`farthest_points`, and the distance of each to those before it (infinite for the first). -> (count,) twice."""
    points, count = np.ascontiguousarray(points, dtype=np.float64), operator.index(count)
    if points.ndim != 2 or points.shape[1] != 3 or not 1 <= count <= len(points):
        raise InputError(f"farthest points: expected (n, 3) and a number from 1 to n, got {points.shape} and {count}")
    if not np.isfinite(points).all():
        raise InputError("farthest points: expected finite points, got NaN or infinite entries")
    compiled = library()
    if compiled is None:
        return farthest_points_reference(points, count)
    chosen, gaps, first = np.empty(count, dtype=np.int64), np.empty(count), _farthest_from_centroid(points)
    result = compiled.eda_farthest_points(
        points.ctypes.data, len(points), count, first, chosen.ctypes.data, gaps.ctypes.data
    )
    check_result(result, f"farthest point sampling of {len(points)} points")
    return chosen, np.sqrt(gaps, out=gaps)


def focused_order(gaps: np.ndarray, focus: np.ndarray) -> np.ndarray:
    """The order in which points (n,) are kept when a cloud is thinned: at least every other one has `focus`.

    Points with focus and those without are each ordered by their `gaps` of farthest point sampling, so every prefix
    covers both regions evenly. It has as many points with focus as the gaps alone would choose, and at least half, as
    far as there are enough. It knows neither the axes nor the order of the points. (n,) float, (n,) bool -> (n,).
    """
    order = np.argsort(-gaps, kind="stable")
    inside, place = focus[order], np.arange(len(order))
    number = np.where(inside, np.cumsum(inside), np.cumsum(~inside)) - 1
    turn = np.where(inside, np.minimum(place, 2 * number), np.maximum(place, 2 * number + 1))
    return order[np.argsort(turn, kind="stable")]


def farthest_points_reference(points: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The definition of `farthest_points_and_gaps`, which the compiled function must equal."""
    chosen, gaps = np.empty(count, dtype=np.int64), np.empty(count)
    chosen[0] = _farthest_from_centroid(points)
    gap = np.full(len(points), np.inf)  # squared distance to the chosen set, -1 at its own points
    for i in range(count):
        if i > 0:
            chosen[i] = gap.argmax()
        gaps[i] = gap[chosen[i]]
        np.minimum(gap, _squared_distance(points, points[chosen[i]]), out=gap)
        gap[chosen[i]] = -1
    return chosen, np.sqrt(gaps)


def _farthest_from_centroid(points: np.ndarray) -> int:
    return int(_squared_distance(points, points.mean(axis=0)).argmax())


def _squared_distance(points: np.ndarray, center: np.ndarray) -> np.ndarray:
    return np.square(points - center).sum(axis=1)


def voxel_grid(points: np.ndarray, spacing: float) -> np.ndarray:
    """Grid downsampling: for every occupied cell, the index of the point nearest to the mean of the cell's points.

    Cells are cubes of edge `spacing`. The grid begins at the cloud's least coordinates, and a cell contains its lower
    faces. Of equally near points, such as any two that share a cell with no other, the first one is kept.
    points (n, 3) -> (cells,), ascending.
    """
    check_positive("spacing", spacing)
    points = np.asarray(points, dtype=np.float64)
    if not np.isfinite(points).all():
        raise InputError("a voxel grid needs finite points, got NaN or infinite entries")
    if not len(points):
        return np.empty(0, dtype=np.int64)
    # Relative to the cloud's corner and in units of the spacing, so that no digits are lost far from the origin.
    with np.errstate(over="ignore"):
        place = (points - points.min(axis=0)) / spacing
    corner = np.floor(place)
    if corner.max() >= 2**53:
        raise InputError(f"a spacing of {spacing} is too fine for a cloud of extent {np.ptp(points, axis=0).max():g}")
    cell = _cell_numbers(corner)
    order = np.argsort(cell, kind="stable")
    return np.sort(order[_nearest_to_means((place - corner)[order], cell[order])])


def _cell_numbers(corner: np.ndarray) -> np.ndarray:
    """A number per cell, from the whole numbers (below 2^53) of its corner. (n, 3) -> (n,), not negative."""
    counts = [int(most) + 1 for most in corner.max(axis=0)]
    if math.prod(counts) < 2**63:
        return np.ravel_multi_index(tuple(corner.astype(np.int64).T), counts)
    # More cells than 64-bit numbers: number the occupied slabs only, first of two axes and then with the third.
    x, y, z = (np.unique(axis, return_inverse=True)[1] for axis in corner.T)
    xy = np.unique(x * len(x) + y, return_inverse=True)[1]
    return xy * len(x) + z


def _nearest_to_means(place: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """The row nearest to the mean of its cell, for every cell. place (n, 3), cell (n,) sorted -> (cells,)."""
    begins = np.diff(cell, prepend=-1) > 0
    group, first = np.cumsum(begins) - 1, np.flatnonzero(begins)
    size = np.diff(first, append=len(cell))
    gap = sum(np.square(x - (np.bincount(group, x) / size)[group]) for x in place.T)
    # The margin keeps rounding from choosing between equally near points.
    near = np.flatnonzero(gap <= np.minimum.reduceat(gap, first)[group] + 1e-9)
    return near[np.diff(group[near], prepend=-1) > 0]


def estimate_normals(points: np.ndarray, k: int = 16) -> np.ndarray:
    """The normal of every point: the direction in which its k nearest points spread least. (n, 3) -> (n, 3).

    Normals are unit vectors that point away from the cloud's centroid. This sign is a guess, wrong on the inside of a
    shell.
    """
    points = np.asarray(points, dtype=np.float64)
    points = points - points.mean(axis=0)
    tree, k = cKDTree(points), min(k, len(points))
    parts = np.array_split(points, math.ceil(len(points) / _ROWS_AT_ONCE))
    normals = np.concatenate([_least_spread(points[tree.query(part, k)[1].reshape(len(part), k)]) for part in parts])
    inward = np.einsum("ni,ni->n", normals, points) < 0
    return np.where(inward[:, None], -normals, normals)


def _least_spread(neighbours: np.ndarray) -> np.ndarray:
    """The unit vector along which each group of points spreads least. (n, k, 3) -> (n, 3)."""
    offsets = neighbours - neighbours.mean(axis=1, keepdims=True)
    _, axes = np.linalg.eigh(np.einsum("nki,nkj->nij", offsets, offsets))
    return axes[:, :, 0]


def spatial_order(points: np.ndarray) -> np.ndarray:
    """The order of the points along a Morton curve, on which neighbours lie near each other. (n, 3) -> (n,)."""
    low, extent = points.min(axis=0), max(float(np.ptp(points, axis=0).max()), np.finfo(np.float64).tiny)
    cells = ((points - low) / extent * (2**20 - 1)).astype(np.uint64)
    code = sum(_spread_bits(cells[:, axis]) << np.uint64(axis) for axis in range(3))
    return np.argsort(code, kind="stable")


def _spread_bits(values: np.ndarray) -> np.ndarray:
    """The numbers with two zero bits after each of the lowest 21 bits, so that three of them can be interleaved."""
    for shift, mask in (
        (32, 0x1F00000000FFFF),
        (16, 0x1F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):
        values = (values | (values << np.uint64(shift))) & np.uint64(mask)
    return values
