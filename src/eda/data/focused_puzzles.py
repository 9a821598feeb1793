"""Training puzzles with a focus: as a model sees them in use, after it has looked for breaks (`eda/focus.py`).

In: an example with break labels. Out: a puzzle in fewer points, about half of them where the breaks are taken to be. A
break head makes mistakes, so the labels get some here too: patches of the outer surface that count as a break, and
patches of a break that are overlooked.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import cKDTree

from eda.data.example import Example
from eda.focus import FOCUS_REACH, beside_breaks, thin
from eda.lie import SE3
from eda.pieces import Pieces, Puzzle, center_poses

MOST_MISTAKES = 3  # patches of each kind in a puzzle
PATCH_RADIUS = (0.05, 0.2)  # in units of the puzzle's size


def focused_puzzle(example: Example, budget: int, rng: np.random.Generator) -> Puzzle:
    """About `budget` points of an example in a focus that a break head might have given it."""
    assert example.on_break is not None
    dense = dense_pieces(example, budget)
    on_break = torch.from_numpy(mistake_breaks(dense, example.on_break, rng))
    reach = FOCUS_REACH * rng.uniform(0.5, 1.5)
    return puzzle_of(example, thin(dense, budget, beside_breaks(dense, on_break, reach)))


def puzzle_of(example: Example, pieces: Pieces) -> Puzzle:
    """The puzzle of some pieces in the frames of `dense_pieces`."""
    eye = SE3.identity(pieces.num_pieces, dtype=torch.float64)
    own = torch.from_numpy(example.own)
    return Puzzle(pieces, center_poses(pieces.from_user(eye), pieces, own).to(pieces.points.dtype))


def dense_pieces(example: Example, budget: int) -> Pieces:
    """All points of an example, in the frames and the unit of its even choice of `budget` points."""
    few = example.downsample(budget)
    pieces = Pieces.from_clouds(few.clouds(), few.clouds(few.normals) if few.normals is not None else None)
    return pieces.resample(example.clouds(), None if example.normals is None else example.clouds(example.normals))


def mistake_breaks(pieces: Pieces, on_break: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Break labels (P,) with some patches that are wrong, around points drawn from all pieces. -> (P,)."""
    seen, first = on_break.copy(), 0
    centers = {kind: rng.integers(len(on_break), size=rng.integers(MOST_MISTAKES + 1)) for kind in (False, True)}
    for cloud in pieces.exact_clouds():
        tree, rows = cKDTree(cloud), range(first, first + len(cloud))
        for kind, chosen in centers.items():
            for center in chosen[(chosen >= rows.start) & (chosen < rows.stop)]:
                patch = tree.query_ball_point(cloud[center - first], rng.uniform(*PATCH_RADIUS))
                seen[first + np.array(patch)] = kind
        first = rows.stop
    return seen if seen.any() else on_break
