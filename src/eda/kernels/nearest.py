"""Nearest points by position and normal, from one product with all points: for some hundred points no tree is as fast.

|x - y|^2 / 2 = |x|^2 / 2 - (x . y - |y|^2 / 2), so the nearest y has the largest (x, 1) . (y, -|y|^2 / 2).
"""

from __future__ import annotations

import numpy as np

from eda.errors import InputError
from eda.kernels.compiled import thread_count
from eda.native import check_result, library

AXES = 6  # of a point: its position, and its normal times a weight
# The number of columns of a table is padded to a multiple of this: the widest register.
_COLUMNS = 16
# Fewer multiplications than this are done sooner than a second thread starts.
_WORK_PER_THREAD = 2_000_000
# Without the compiled module: the size of the blocks in which all products are computed.
_ENTRIES_AT_ONCE = 1 << 18


class NearestTable:
    """A table of points (m, 6), stored in single precision, in which to find nearest points."""

    def __init__(self, points: np.ndarray) -> None:
        points = _checked(points)
        with np.errstate(over="ignore"):
            height = -np.square(points).sum(axis=1, keepdims=True) / 2
            table = np.hstack([points, height]).T
            # Padding with copies of the first point changes no answer: of equals, the first column wins.
            copies = np.repeat(table[:, :1], -len(points) % _COLUMNS, axis=1)
            self._table = np.ascontiguousarray(np.hstack([table, copies]), dtype=np.float32)
        _check_finite(self._table)

    def nearest(self, points: np.ndarray) -> np.ndarray:
        """The index of the table's point nearest to each of these points. (n, 6) -> (n,). The table needs a point."""
        points = _checked(points)
        if not self._table.size:
            raise InputError(f"the nearest of no points: the table is empty, and {len(points)} points ask for one")
        queries = np.ones((len(points), AXES + 1), dtype=np.float32)
        with np.errstate(over="ignore"):
            queries[:, :AXES] = points
        _check_finite(queries)
        compiled = library()
        if compiled is None:
            return self._nearest_reference(queries)
        found = np.empty(len(queries), dtype=np.int64)
        threads = thread_count(len(queries) * self._table.size, _WORK_PER_THREAD)
        sizes = (len(queries), self._table.shape[1])
        result = compiled.eda_nearest_f32(
            queries.ctypes.data, self._table.ctypes.data, *sizes, threads, found.ctypes.data
        )
        check_result(result, f"the search for the nearest of {len(points)} points")
        return found

    def _nearest_reference(self, queries: np.ndarray) -> np.ndarray:
        """The same answers by NumPy, in blocks of queries."""
        parts = np.array_split(queries, 1 + len(queries) * self._table.shape[1] // _ENTRIES_AT_ONCE)
        return np.concatenate([(part @ self._table).argmax(axis=1) for part in parts])


def _checked(points: np.ndarray) -> np.ndarray:
    points = np.asarray(points)
    if points.ndim != 2 or points.shape[1] != AXES or points.dtype.kind not in "fiu":
        raise InputError(f"nearest points: expected (n, {AXES}) numbers, got {points.shape} of {points.dtype}")
    return points


def _check_finite(values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise InputError("nearest points: NaN, infinite or too large for single precision")
