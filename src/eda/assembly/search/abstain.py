"""Abstaining: a piece whose place is probably wrong is left out, and two strangers are not put together at all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse.csgraph import connected_components

from eda.assembly.confidence import Probabilities

# A piece that is less likely in its place than this has none.
LEAST_CONFIDENCE = 0.1

Belief = Callable[[np.ndarray], Probabilities]  # of one assembly (K = 1), by which pieces are placed (N,)


def leave_out(placed: np.ndarray, pinned: np.ndarray, believe: Belief) -> tuple[np.ndarray, np.ndarray]:
    """Which of the pieces placed stay (N,) bool, and how likely those were in their place that do not (N,), else 0.

    What is left out is no neighbour any more, so the others are asked again without it; what no longer belongs to the
    body goes too. What is pinned stays.
    """
    stay, rejected = placed.copy(), np.zeros(len(placed))
    while stay.any():
        found = believe(stay)
        sure = _body(found.joints[0] > 0, stay, pinned) & (found.pieces[0] >= LEAST_CONFIDENCE)
        weak = stay & ~pinned & ~sure
        if not weak.any():
            break
        rejected[weak] = found.pieces[0, weak]
        stay &= ~weak
    return stay, rejected


def _body(joints: np.ndarray, placed: np.ndarray, pinned: np.ndarray) -> np.ndarray:
    """(N,) of the pieces placed, the largest group that joints (N, N) connect, or that of the pieces pinned."""
    anchor = placed & pinned
    linked = (joints | np.outer(anchor, anchor)) & placed & placed[:, None]
    _, group = connected_components(linked, directed=False)
    body = group == (group[anchor][0] if anchor.any() else np.bincount(group[placed]).argmax())
    return placed & body & (anchor.any() or body.sum() > 1)
