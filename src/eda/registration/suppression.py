"""Non-maximum suppression: of several poses that are nearly the same, only the best is kept.

Three rules. Of a few things in order, where it matters how many came to each, the first of every kind is kept
(`keep_distinct`). Of many poses of one piece in order, so are the first few distinct ones (`keep_distinct_poses`). Of
batches of poses, whoever has a better one like it goes, also where that one goes itself (`has_better_duplicate`): one
step in torch instead of a loop.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from eda.registration.rigid import act


def keep_distinct(total: int, alike: Callable[[int, int], bool], most: int) -> tuple[list[int], list[int]]:
    """Of things in order of preference, the first of each kind, at most so many; and how many are of that kind."""
    kept: list[int] = []
    counts: list[int] = []
    for index in range(total):
        kind = next((k for k, other in enumerate(kept) if alike(other, index)), None)
        if kind is not None:
            counts[kind] += 1
        elif len(kept) < most:
            kept.append(index)
            counts.append(1)
    return kept, counts


def keep_distinct_poses(poses: np.ndarray, corners: np.ndarray, min_distance: float, most: int) -> np.ndarray:
    """Of poses (M, 4, 4) in order of preference, the first `most` that move a corner (8, 3) of the piece further than
    `min_distance` from where those before them do. -> (M', 4, 4).
    """
    places = act(poses, corners)
    kept: list[int] = []
    for k in range(len(poses)):
        if len(kept) == most:
            break
        if not kept or np.square(places[kept] - places[k]).sum(axis=2).max(axis=1).min() > min_distance**2:
            kept.append(k)
    return poses[kept]


def has_better_duplicate(alike: Tensor, score: Tensor) -> Tensor:
    """Which of K have one of a higher score that is like them; of equals, the first is better.

    alike (..., K, K) bool, score (..., K) -> (..., K) bool.
    """
    order = torch.arange(score.shape[-1], device=score.device)
    equal = score[..., None, :] == score[..., None]
    better = (score[..., None, :] > score[..., None]) | (equal & (order < order[:, None]))
    return (alike & better).any(-1)
