"""Nearest points by position and normal, from one product with all points: for some hundred points no tree is as fast.

|x - y|^2 / 2 = |x|^2 / 2 - (x . y - |y|^2 / 2), so the nearest y has the largest (x, 1) . (y, -|y|^2 / 2).
"""

from __future__ import annotations

import numpy as np

from eda.kernels.compiled import thread_count
from eda.native import library

AXES = 6  # of a point: its position, and its normal times a weight
# The number of columns of a table is padded to a multiple of this: the widest register.
_COLUMNS = 16
# Fewer multiplications than this are done sooner than a second thread starts.
_WORK_PER_THREAD = 2_000_000
# Without the compiled module: the size of the blocks in which all products are computed.
_ENTRIES_AT_ONCE = 1 << 18


class NearestTable:
    """A table of m > 0 points (m, 6), stored in single precision, in which to find nearest points."""

    def __init__(self, points: np.ndarray) -> None:
        height = -np.square(points).sum(axis=1, keepdims=True) / 2
        table = np.hstack([points, height]).T
        # Padding with copies of the first point changes no answer: of equals, the first column wins.
        copies = np.repeat(table[:, :1], -len(points) % _COLUMNS, axis=1)
        self._table = np.ascontiguousarray(np.hstack([table, copies]), dtype=np.float32)

    def nearest(self, points: np.ndarray) -> np.ndarray:
        """The index of the table's point nearest to each of these points. (n, 6) -> (n,)."""
        queries = np.ones((len(points), AXES + 1), dtype=np.float32)
        queries[:, :AXES] = points
        compiled = library()
        if compiled is None:
            return self._nearest_reference(queries)
        found = np.empty(len(queries), dtype=np.int64)
        threads = thread_count(len(queries) * self._table.size, _WORK_PER_THREAD)
        sizes = (len(queries), self._table.shape[1])
        if compiled.eda_nearest_f32(queries.ctypes.data, self._table.ctypes.data, *sizes, threads, found.ctypes.data):
            raise MemoryError(f"the search for the nearest of {len(points)} points ran out of memory")
        return found

    def _nearest_reference(self, queries: np.ndarray) -> np.ndarray:
        """The same answers by NumPy, in blocks of queries."""
        parts = np.array_split(queries, 1 + len(queries) * self._table.shape[1] // _ENTRIES_AT_ONCE)
        return np.concatenate([(part @ self._table).argmax(axis=1) for part in parts])
