"""Pose graph: scans as nodes, relative poses as edges; poses of all nodes that agree with as many edges as possible.

In: edges, each with the probability that it is right. Out: poses by robust least squares over SE(3).

How far an edge is from the poses is a length: the root mean square by which it moves the points of its two scans away
from where they are, if these were balls of one radius. So a turn and a shift count by what they do to the points. The
mean is taken over six points of either scan, which have the spread of such a ball.

Edges may be wrong, so they count less the further off they are, by a Geman-McClure loss that begins nearly quadratic
and becomes sharp step by step (graduated non-convexity, Yang et al. 2020). Most pairs of scans have no edge, so
the equations are sparse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csc_array, eye_array
from scipy.sparse.linalg import spsolve

from eda.registration.icp import Correspondences, two_body_equations
from eda.registration.rigid import act, inverse, move_about

DAMPING = 1e-6  # of a step, relative to the mean of the diagonal: it holds the whole, which no edge does
SUREST = 0.99  # no edge is surer than this
_AXES = np.concatenate([np.eye(3), -np.eye(3)])  # six points with the spread of a ball of radius 1


@dataclass(frozen=True)
class Edges:
    """E relative poses of N scans, each of which has its origin in its middle."""

    source: np.ndarray  # (E,) the scan that an edge brings into the frame of its target
    target: np.ndarray  # (E,)
    T_target_source: np.ndarray  # (E, 4, 4)
    probability: np.ndarray  # (E,) that it is right
    radius: float  # of a scan, the root mean square of the distances of its points from the middle

    @staticmethod
    def of(edges: Sequence[tuple[int, int, np.ndarray, float]], radius: float) -> Edges:
        """From tuples (source, target, T_target_source, probability)."""
        return Edges(
            np.array([edge[0] for edge in edges], dtype=np.int64),
            np.array([edge[1] for edge in edges], dtype=np.int64),
            np.array([edge[2] for edge in edges], dtype=np.float64).reshape(-1, 4, 4),
            np.array([edge[3] for edge in edges], dtype=np.float64),
            radius,
        )

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, rows: np.ndarray) -> Edges:
        return Edges(
            self.source[rows], self.target[rows], self.T_target_source[rows], self.probability[rows], self.radius
        )

    @property
    def strength(self) -> np.ndarray:
        """(E,) -log of the probability that an edge is wrong; strengths of edges that agree add up."""
        return -np.log1p(-self.probability.clip(max=SUREST))

    def within(self, nodes: np.ndarray) -> np.ndarray:
        """(E,) which edges have both ends among some nodes (N,) bool."""
        return nodes[self.source] & nodes[self.target]

    def correspondences(self, poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points of both scans of every edge, at poses (N, 4, 4), and where the edge wants them. (E, 12, 3) each."""
        here, there = poses[self.source], poses[self.target]
        ball = self.radius * _AXES
        goal, back = act(self.T_target_source, ball), act(inverse(self.T_target_source), ball)
        points = np.concatenate([act(here, ball), act(here, back)], axis=1)
        return points, np.concatenate([act(there, goal), act(there, ball)], axis=1)

    def residuals(self, poses: np.ndarray) -> np.ndarray:
        """(E,) how far the edges are from poses (N, 4, 4), as a length."""
        return displacement(self.T_target_source, inverse(poses[self.target]) @ poses[self.source], self.radius)


def displacement(motion: np.ndarray, other: np.ndarray, radius: float) -> np.ndarray:
    """(...) how far two relative poses (..., 4, 4) put the points of two balls apart: the root mean square."""
    turn = np.square(motion[..., :3, :3] - other[..., :3, :3]).sum(axis=(-2, -1)) * radius**2 / 3
    shifts = [np.square(a[..., :3, 3] - b[..., :3, 3]).sum(axis=-1) for a, b in _both_ways(motion, other)]
    return np.sqrt(turn + (shifts[0] + shifts[1]) / 2)


def _both_ways(motion: np.ndarray, other: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    return (motion, other), (inverse(motion), inverse(other))


def optimize(poses: np.ndarray, edges: Edges, tolerance: float, free: np.ndarray, steps: int) -> np.ndarray:
    """Poses (N, 4, 4) moved to where they agree with the edges; only those of `free` (N,) scans move.

    An edge that is further off than the tolerance hardly counts in the end.
    """
    rows = np.flatnonzero(free)
    if not len(edges) or not len(rows):
        return poses
    unknowns = (6 * rows[:, None] + np.arange(6)).ravel()
    widest = max(float(edges.residuals(poses).max()), tolerance)
    for width in np.geomspace(widest, tolerance, steps):
        JTJ, JTr = _equations(poses, edges, float(width))
        JTJ, JTr = JTJ[:, unknowns][unknowns], JTr[unknowns]
        damping = DAMPING * JTJ.diagonal().mean() + 1e-12
        twist = np.zeros((len(poses), 6))
        step = -spsolve(JTJ + damping * eye_array(len(unknowns), format="csc"), JTr, permc_spec="MMD_AT_PLUS_A")
        twist[rows] = step.reshape(-1, 6)
        poses = move_about(poses, poses[:, :3, 3], twist)
    return poses


def _equations(poses: np.ndarray, edges: Edges, width: float) -> tuple[csc_array, np.ndarray]:
    """J^T W J (6 N, 6 N), sparse, and J^T W r (6 N,) in twists of all scans about their middles."""
    points, targets = edges.correspondences(poses)
    weights = edges.probability * np.square(width**2 / (width**2 + np.square(edges.residuals(poses))))
    weight = np.broadcast_to(weights[:, None], points.shape[:2])
    middles = poses[:, :3, 3]
    pairs = Correspondences(points, targets, np.zeros_like(points), weight)
    square, slope = two_body_equations(pairs, middles[edges.source], middles[edges.target], 1.0)
    ends = np.stack([edges.source, edges.target], axis=1)
    unknowns = (6 * ends[:, :, None] + np.arange(6)).reshape(-1, 12)  # of both scans of every edge
    rows, columns = (each.ravel() for each in np.broadcast_arrays(unknowns[:, :, None], unknowns[:, None]))
    size = 6 * len(poses)
    JTJ = coo_array((square.ravel(), (rows, columns)), shape=(size, size)).tocsc()  # edges of one scan add up
    return JTJ, np.bincount(unknowns.ravel(), weights=slope.ravel(), minlength=size)
