"""Faces of any number of corners as triangles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eda.data.reading import DamageError

MOST_CORNERS = 2**16  # of a face


def split_into_triangles(polygons: Sequence[np.ndarray]) -> np.ndarray | None:
    """Groups (n, m) of polygons with m corners -> triangles (f, 3) around their first corners; None without any."""
    most = max((corners.shape[1] for corners in polygons), default=0)
    if most > MOST_CORNERS:
        raise DamageError(f"a face of {most} corners, and a face may have {MOST_CORNERS}")
    parts = [_fans(corners) for corners in polygons if corners.shape[1] > 2]
    return np.concatenate(parts).astype(np.int64) if parts else None


def _fans(corners: np.ndarray) -> np.ndarray:
    """Polygons (n, m) -> triangles (n (m - 2), 3): first those at the second corners, then those at the third, ..."""
    second, third = corners[:, 1:-1].T, corners[:, 2:].T
    return np.stack([np.broadcast_to(corners[:, 0], second.shape), second, third], axis=-1).reshape(-1, 3)


def group_by_length(lists: Sequence[Sequence[int] | np.ndarray]) -> list[np.ndarray]:
    """Lists of corners, those of the same length together: (n, m) each."""
    groups: dict[int, list[Sequence[int] | np.ndarray]] = {}
    for corners in lists:
        groups.setdefault(len(corners), []).append(corners)
    return [np.array(group, dtype=np.int64) for group in groups.values()]
