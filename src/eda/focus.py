"""Points where they count: clouds thinned so that about half of the points lie on and beside breaks.

In: pieces in many points, and which of these lie on a break. Out: the same pieces, in the same frames, in fewer points,
with a `focus` that a pyramid follows in its coarser levels. Thinned evenly, a puzzle of two pieces has some sixteen
points of four hundred at the joint, and those decide how the pieces fit.

The rule knows neither the axes nor the order of the points: it is made of distances alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from eda.cloud import farthest_points_and_gaps, focused_order
from eda.pieces import MIN_POINTS, Pieces
from eda.segment import ranges, starts

# How far around a break the focus reaches, in units of the puzzle's size: far enough that the edges of a break, which
# say most about its form, are in it; less than two evenly thinned points are apart.
FOCUS_REACH = 0.035


def beside_breaks(pieces: Pieces, on_break: Tensor, reach: float = FOCUS_REACH) -> Tensor:
    """(P,) which points lie within `reach` of a point of the same piece that is on a break. (P,) bool -> (P,) bool."""
    each = zip(pieces.exact_clouds(), on_break.cpu().split(pieces.sizes.tolist()), strict=True)
    near = [_beside(cloud, on.numpy(), reach) for cloud, on in each]
    return torch.from_numpy(np.concatenate(near)).to(pieces.points.device)


def _beside(cloud: np.ndarray, on_break: np.ndarray, reach: float) -> np.ndarray:
    if not on_break.any():
        return on_break
    # The margin keeps rounding from deciding when a piece is rotated.
    distance, _ = cKDTree(cloud[on_break]).query(cloud, distance_upper_bound=reach * (1 + 1e-9))
    return np.isfinite(distance)


def thin(pieces: Pieces, budget: int | Sequence[int], focus: Tensor | None = None) -> Pieces:
    """About `budget` points of every puzzle, or of each as many as it says: evenly, or at least every other one among
    those with `focus` (P,).

    Every piece keeps at least `MIN_POINTS`.
    """
    runs = [farthest_points_and_gaps(cloud, len(cloud)) for cloud in pieces.exact_clouds()]
    rows = np.concatenate([run + start for (run, _), start in zip(runs, starts(pieces.sizes).tolist(), strict=True)])
    gaps = np.concatenate([gap for _, gap in runs])
    inside = np.zeros(len(rows), dtype=bool) if focus is None else focus.cpu().numpy()[rows]
    keep = np.concatenate([np.arange(len(run)) < MIN_POINTS for run, _ in runs])
    puzzle = ranges(pieces.counts)[ranges(pieces.sizes)].cpu().numpy()
    for b in range(pieces.num_puzzles):
        here = np.flatnonzero(puzzle == b)  # a run stays within its piece, so these are the places of the puzzle
        most = budget if isinstance(budget, int) else budget[b]
        keep[here[focused_order(gaps[here], inside[here])[:most]]] = True
    kept = torch.from_numpy(np.sort(rows[keep])).to(pieces.points.device)
    return replace(pieces, focus=focus).keep(kept)
