"""Nearest points in place and normal, by one product with all of them: for some hundred points no tree is as fast.

|x - y|^2 / 2 = |x|^2 / 2 - (x . y - |y|^2 / 2), so the nearest y has the largest (x, 1) . (y, -|y|^2 / 2).
"""

from __future__ import annotations

import numpy as np
import torch

from eda.native import library

AXES = 6  # of a point: its place, and its normal times a weight
# A table is padded to whole registers of the widest kind.
_COLUMNS = 16
# Fewer multiplications than this are done sooner than a second thread starts.
_WORK_PER_THREAD = 2_000_000
# Without the compiled module: how many entries of the table of all against all are made at a time.
_ENTRIES_AT_ONCE = 1 << 18


class NearestTable:
    """m points (m, 6) to look for, m > 0. They are kept in single precision."""

    def __init__(self, points: np.ndarray) -> None:
        height = -np.square(points).sum(axis=1, keepdims=True) / 2
        table = np.hstack([points, height]).T
        # A copy of the first point is never found before it.
        copies = np.repeat(table[:, :1], -len(points) % _COLUMNS, axis=1)
        self._table = np.ascontiguousarray(np.hstack([table, copies]), dtype=np.float32)

    def nearest(self, points: np.ndarray) -> np.ndarray:
        """Which one lies nearest to each of these points (n, 6). -> (n,)."""
        queries = np.ones((len(points), AXES + 1), dtype=np.float32)
        queries[:, :AXES] = points
        compiled = library()
        if compiled is None:
            return self._plainly(queries)
        found = np.empty(len(queries), dtype=np.int64)
        threads = max(1, min(torch.get_num_threads(), len(queries) * self._table.size // _WORK_PER_THREAD))
        sizes = (len(queries), self._table.shape[1])
        if compiled.eda_nearest_f32(queries.ctypes.data, self._table.ctypes.data, *sizes, threads, found.ctypes.data):
            raise MemoryError(f"looking for {len(points)} points ran out of memory")
        return found

    def _plainly(self, queries: np.ndarray) -> np.ndarray:
        """The same in NumPy, some queries at a time."""
        parts = np.array_split(queries, 1 + len(queries) * self._table.shape[1] // _ENTRIES_AT_ONCE)
        return np.concatenate([(part @ self._table).argmax(axis=1) for part in parts])
