"""One cloud at a time: which of its points to keep, and in which order."""

import numpy as np

from eda.native import library


def farthest_points(points: np.ndarray, count: int) -> np.ndarray:
    """Farthest point sampling: the indices of `count` points, each the farthest from those before it.

    It begins at the point farthest from the centroid, so the choice does not depend on the axes or on the order of
    the points (ties apart), and the first n of the result are what n alone would have given: one run serves every
    level of a pyramid.

    points (n, 3) -> (count,) with 1 <= count <= n. The compiled module prunes with a tree; without it the cost is
    n * count.
    """
    return farthest_points_and_gaps(points, count)[0]


def farthest_points_and_gaps(points: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """`farthest_points` and, for each, its distance to those before it (infinite for the first): (count,) each."""
    points = np.ascontiguousarray(points, dtype=np.float64)
    compiled = library()
    if compiled is None:
        return farthest_points_reference(points, count)
    chosen, gaps, first = np.empty(count, dtype=np.int64), np.empty(count), _farthest_from_centroid(points)
    if compiled.eda_farthest_points(
        points.ctypes.data, len(points), count, first, chosen.ctypes.data, gaps.ctypes.data
    ):
        raise MemoryError(f"farthest point sampling of {len(points)} points ran out of memory")
    return chosen, np.sqrt(gaps, out=gaps)


def farthest_points_reference(points: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The definition of `farthest_points_and_gaps`, which the compiled one must equal."""
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


def spatial_order(points: np.ndarray) -> np.ndarray:
    """An order in which points that follow each other lie near each other (Morton's curve). (n, 3) -> (n,)."""
    low, extent = points.min(axis=0), max(float(np.ptp(points, axis=0).max()), np.finfo(np.float64).tiny)
    cells = ((points - low) / extent * (2**20 - 1)).astype(np.uint64)
    code = sum(_spread_bits(cells[:, axis]) << np.uint64(axis) for axis in range(3))
    return np.argsort(code, kind="stable")


def _spread_bits(values: np.ndarray) -> np.ndarray:
    """Two zero bits after each of the lowest 21 bits, so that three numbers can be interleaved."""
    for shift, mask in (
        (32, 0x1F00000000FFFF),
        (16, 0x1F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):
        values = (values | (values << np.uint64(shift))) & np.uint64(mask)
    return values


def voxel_grid(points: np.ndarray, spacing: float) -> np.ndarray:
    """Grid thinning: the indices, ascending, of one point in every occupied cell of a grid with this spacing.

    It is the point nearest to the mean of the cell's points, the first of them if several are. (n, 3) -> (m,).
    """
    points = np.asarray(points, dtype=np.float64)
    cells = np.floor((points - points.min(axis=0)) / spacing).astype(np.int64)
    _, cell, count = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    cell = cell.reshape(-1)
    mean = np.stack([np.bincount(cell, weights=column) for column in points.T], axis=1) / count[:, None]
    gap = _squared_distance(points, mean[cell]) / spacing**2
    order = np.lexsort((gap.round(9), cell))  # rounded, because two points are equally far from their mean
    return np.sort(order[np.concatenate([[0], np.cumsum(count)[:-1]])])
