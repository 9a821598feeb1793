"""Non-maximum suppression: of several poses that are nearly the same, only the best is kept.

Two rules. Of a few things in order, where it matters how many came to each, the first of every kind is kept
(`keep_distinct`). Of batches of poses, whoever has a better one like it goes, also where that one goes itself
(`has_better_duplicate`): one step in torch instead of a loop.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


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


def has_better_duplicate(alike: Tensor, score: Tensor) -> Tensor:
    """Which of K have one of a higher score that is like them; of equals, the first is better.

    alike (..., K, K) bool, score (..., K) -> (..., K) bool.
    """
    order = torch.arange(score.shape[-1], device=score.device)
    equal = score[..., None, :] == score[..., None]
    better = (score[..., None, :] > score[..., None]) | (equal & (order < order[:, None]))
    return (alike & better).any(-1)
