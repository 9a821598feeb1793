"""Faces of any number of corners as triangles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def split_into_triangles(polygons: Sequence[np.ndarray]) -> np.ndarray | None:
    """Groups (n, m) of polygons with m corners -> triangles (f, 3) around their first corners; None without any."""
    parts = [corners[:, [0, i, i + 1]] for corners in polygons for i in range(1, corners.shape[1] - 1)]
    return np.concatenate(parts).astype(np.int64) if parts else None


def group_by_length(lists: Sequence[Sequence[int] | np.ndarray]) -> list[np.ndarray]:
    """Lists of corners, those of the same length together: (n, m) each."""
    groups: dict[int, list[Sequence[int] | np.ndarray]] = {}
    for corners in lists:
        groups.setdefault(len(corners), []).append(corners)
    return [np.array(group, dtype=np.int64) for group in groups.values()]
