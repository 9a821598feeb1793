"""The gap of a joint: how far apart two surfaces are where they touch.

Breaks that belong together are as close as their points allow, over all of their contact. What only happens to touch is
close in some places and open in others.
"""

from __future__ import annotations

import numpy as np

from eda.assembly.contact.fracture_contact import OPPOSED, REACH, TOUCHED
from eda.assembly.contact.fragment import Fragment
from eda.registration.rigid import act, inverse

LEAST_CONTACTS = 4  # of one side: fewer say nothing
WIDEST = 2.0  # spacings: what is wider counts like this, and so does what does not touch


def joint_gap(piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> float:
    """The mean gap, in spacings, of a piece at a pose (4, 4) in the frame of another; alike in the two."""
    sides = _gaps(piece, other, relative, spacing), _gaps(other, piece, inverse(relative), spacing)
    means = [side.mean() for side in sides if len(side) >= LEAST_CONTACTS]
    return float(np.mean(means)) if means else WIDEST


def _gaps(piece: Fragment, other: Fragment, relative: np.ndarray, spacing: float) -> np.ndarray:
    """(M,) of the points of a piece that touch the other: how far that lies above and below them, as a mean."""
    points, reach = act(relative[None], piece.points)[0], REACH * spacing
    low, high = other.points.min(axis=0) - reach, other.points.max(axis=0) + reach
    row = np.flatnonzero(((points > low) & (points < high)).all(axis=1))
    normals = piece.normals[row] @ relative[:3, :3].T
    distance, index = other.tree.query(points[row], k=range(1, min(TOUCHED, len(other.points)) + 1))
    offset, theirs = points[row, None] - other.points[index], other.normals[index]
    apart = np.abs((offset * theirs).sum(axis=2)) + np.abs((offset * normals[:, None]).sum(axis=2))
    touches = (distance < reach) & ((normals[:, None] * theirs).sum(axis=2) < OPPOSED)
    gap = np.where(touches, apart / (2 * spacing), np.inf).min(axis=1)
    return gap[np.isfinite(gap)].clip(max=WIDEST)
