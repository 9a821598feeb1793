"""Detail: all points of the pieces, of which those near joints are looked at closely.

The evidence covers every piece evenly with a few points, which is enough to propose and to tell most wrong assemblies
from right ones. How exactly two pieces fit is seen only by many points where they meet. So the work grows with the
area of the breaks, not with the size of the pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.fragment import Fragment
from eda.cloud import farthest_points
from eda.registration.rigid import act, relative_poses

# A point is near a joint if another piece comes this near to it, in units of the spacing of the evidence.
NEAR = 2.5
# Points of a piece near its joints: as many are kept, chosen among so many times more.
MOST_POINTS, DENSER = 4000, 6


@dataclass(frozen=True)
class Detail:
    """All points of N pieces, in the frames of their evidence."""

    points: tuple[np.ndarray, ...]  # N of (m_i, 3)
    normals: tuple[np.ndarray, ...]  # N of (m_i, 3) outward unit vectors

    def near_joints(self, evidence: Evidence, poses: np.ndarray, placed: np.ndarray) -> Evidence:
        """The evidence with as many points as there are, up to `MOST_POINTS`, where any of the assemblies
        (K, N, 4, 4) of the pieces `placed` (K, N) has a joint, and the points it has everywhere else.
        """
        near = _near_joints(evidence, poses, placed)
        fragments = [
            _with_detail(fragment, rows, points, normals)
            for fragment, rows, points, normals in zip(evidence.fragments, near, self.points, self.normals, strict=True)
        ]
        most = max(len(fragment.points) for fragment in fragments)
        return Evidence.of(fragments, evidence.rules, most_points=most)


def _near_joints(evidence: Evidence, poses: np.ndarray, placed: np.ndarray) -> list[np.ndarray]:
    """N of (n_i,) bool: which points of each fragment come near another one in any of the assemblies."""
    near, reach = [np.zeros(len(f.points), dtype=bool) for f in evidence.fragments], NEAR * evidence.spacing
    for i, j in evidence.pairs:
        both = placed[:, i] & placed[:, j]
        piece, other = evidence.fragments[i], evidence.fragments[j]
        for T_j_i in relative_poses(poses[both], (i, j)):
            moved = act(T_j_i, piece.points)
            distance, _ = other.tree.query(moved, distance_upper_bound=reach)
            near[i] |= np.isfinite(distance)
            if np.isfinite(distance).any():
                distance, _ = cKDTree(moved).query(other.points, distance_upper_bound=reach)
                near[j] |= np.isfinite(distance)
    return near


def _with_detail(fragment: Fragment, near: np.ndarray, points: np.ndarray, normals: np.ndarray) -> Fragment:
    """A fragment whose points `near` (n,) are replaced by all points (m, 3) of the piece that lie around them."""
    _, around = fragment.tree.query(points)
    rows = np.flatnonzero(near[around])
    if len(rows) > MOST_POINTS:
        # a step through the rows is a choice at random: clouds were drawn or shuffled
        rows = rows[:: -(-len(rows) // (DENSER * MOST_POINTS))]
        rows = rows[farthest_points(points[rows], min(len(rows), MOST_POINTS))]
    if len(rows) <= near.sum():
        return fragment
    rest = ~near
    return Fragment(
        np.concatenate([points[rows], fragment.points[rest]]),
        np.concatenate([normals[rows], fragment.normals[rest]]),
        np.concatenate([fragment.break_probability[around[rows]], fragment.break_probability[rest]]),
    )
