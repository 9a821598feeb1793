"""Refinement: poses that are roughly right, moved until the pieces fit.

Gauss-Newton over all pieces at once, on correspondences that are found anew in every step, within a radius that
shrinks. A correspondence of x on piece i with y on piece j has the residual e = x - y, weighed fully along the normal
and little across it, so that surfaces slide until their relief and their outlines agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eda.assembly.contact import NORMAL_WEIGHT, Patch
from eda.assembly.evidence import Evidence
from eda.assembly.motion import act, inverse, moved_about, turn


@dataclass(frozen=True)
class RefineConfig:
    """How far to look, how hard to pull, and in how many steps."""

    first_radius: float = 0.6  # in units of the puzzle's size
    last_radius: float = 2.0  # in units of the spacing of the points
    steps: int = 14
    first_slide: float = 0.3  # weight across the normal, relative to that along it, at the first radius
    last_slide: float = 0.03  # at the last
    most_points: int = 60  # of a patch that look for a counterpart
    damping: float = 0.02  # relative to the mean of the diagonal


@dataclass(frozen=True)
class Pull:
    """n correspondences between pieces i and j in each of K assemblies, in the frame of the whole."""

    points: np.ndarray  # (K, n, 3) on i
    targets: np.ndarray  # (K, n, 3) on j
    normals: np.ndarray  # (K, n, 3) the direction that weighs fully
    weights: np.ndarray  # (K, n)


def refine(
    evidence: Evidence, poses: np.ndarray, placed: np.ndarray | None = None, config: RefineConfig | None = None
) -> np.ndarray:
    """Assemblies (K, N, 4, 4), each moved to the best fit nearby of its pieces `placed` (K, N). -> (K, N, 4, 4)."""
    config = config or RefineConfig()
    placed = np.ones(poses.shape[:2], dtype=bool) if placed is None else placed
    last = min(config.last_radius * evidence.spacing, config.first_radius)
    radii = np.geomspace(config.first_radius, last, config.steps)
    slides = np.geomspace(config.first_slide, config.last_slide, config.steps)
    for radius, slide in zip(radii, slides, strict=True):
        poses = _step(evidence, poses, placed, float(radius), float(slide), config)
    return poses


def _step(
    evidence: Evidence, poses: np.ndarray, placed: np.ndarray, radius: float, slide: float, config: RefineConfig
) -> np.ndarray:
    count, num_pieces = poses.shape[:2]
    centers = np.stack([act(poses[:, i], f.center[None])[:, 0] for i, f in enumerate(evidence.fragments)], axis=1)
    hessian, gradient = np.zeros((count, num_pieces, num_pieces, 6, 6)), np.zeros((count, num_pieces, 6))
    for i in range(num_pieces):
        for j in range(num_pieces):
            near = np.flatnonzero(placed[:, i] & placed[:, j] & _near(evidence, centers, i, j, radius))
            if i == j or not len(near):
                continue
            for mine, theirs in zip(evidence.patches[i], evidence.patches[j], strict=True):
                pull = pull_between(mine, theirs, poses[near, i], poses[near, j], radius, config.most_points)
                square, slope = normal_equations(pull, centers[near, i], centers[near, j], slide)
                for a, rows in ((i, slice(0, 6)), (j, slice(6, 12))):
                    gradient[near, a] += slope[:, rows]
                    hessian[near, a, i] += square[:, rows, :6]
                    hessian[near, a, j] += square[:, rows, 6:]
    return moved_about(poses, centers, _solved(hessian, gradient, config.damping))


def _near(evidence: Evidence, centers: np.ndarray, i: int, j: int, radius: float) -> np.ndarray:
    """(K,) in which assemblies the spheres around two pieces come near each other."""
    reach = evidence.fragments[i].radius + evidence.fragments[j].radius + radius
    return np.square(centers[:, i] - centers[:, j]).sum(axis=1) < reach**2


def pull_between(
    mine: Patch, theirs: Patch, pose: np.ndarray, other_pose: np.ndarray, radius: float, most_points: int
) -> Pull:
    """Points of a patch and their nearest counterparts on another's, at poses (K, 4, 4) of the two pieces."""
    sign = -1 if mine.facing else 1
    relative = inverse(other_pose) @ pose
    chosen = slice(max(most_points, 1))
    points, normals = act(relative, mine.points[chosen]), turn(relative, mine.normals[chosen])
    query = np.concatenate([points, NORMAL_WEIGHT * normals], axis=2).reshape(-1, 6)
    distance, index = theirs.tree.query(query, distance_upper_bound=float(np.hypot(radius, NORMAL_WEIGHT)))
    index = np.minimum(index, theirs.tree.n - 1).reshape(points.shape[:2])  # nothing near: infinite distance
    targets, target_normals = theirs.points[index], theirs.normals[index]
    apart = np.square(points - targets).sum(axis=2) / radius**2
    robust = np.square(np.clip(1 - apart, 0, None)) * np.isfinite(distance).reshape(apart.shape)  # Tukey's
    agreeing = np.clip(sign * (normals * target_normals).sum(axis=2), 0, None)
    # The mean normal instead of either one: exact for curved surfaces too, as in symmetric ICP.
    middle = target_normals + sign * normals
    middle /= np.maximum(np.linalg.norm(middle, axis=2, keepdims=True), 1e-9)
    weights = robust * agreeing * mine.weights[chosen] * theirs.weights[index]
    return Pull(act(other_pose, points), act(other_pose, targets), turn(other_pose, middle), weights)


def normal_equations(
    pull: Pull, centers: np.ndarray, other_centers: np.ndarray, slide: float
) -> tuple[np.ndarray, np.ndarray]:
    """Of the sum of weights * ((e . n)^2 + slide |e|^2) in twists of both pieces about their centers (K, 3).

    -> (K, 12, 12), half the Hessian with the normals held, and (K, 12), half the gradient.
    """
    offset, arm = pull.points - pull.targets, pull.points - centers[:, None]
    other_arm = pull.targets - other_centers[:, None]
    root, axes = np.sqrt(pull.weights)[..., None], np.eye(3) * np.sqrt(slide)
    residuals, rows = [], []
    for direction in (pull.normals * root, *(axis * root for axis in axes)):
        residuals.append((offset * direction).sum(axis=2))
        turns = _cross(arm, direction), -_cross(other_arm, direction)
        rows.append(np.concatenate([turns[0], direction, turns[1], -direction], axis=2))
    # `direction` carries the root of the weight, and so does the residual
    columns = np.concatenate(rows, axis=1)
    transposed = columns.swapaxes(1, 2)
    return transposed @ columns, (transposed @ np.concatenate(residuals, axis=1)[..., None])[..., 0]


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a x b along the last axis; numpy's own takes three times as long."""
    (ax, ay, az), (bx, by, bz) = np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0)
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)


def _solved(hessian: np.ndarray, gradient: np.ndarray, damping: float) -> np.ndarray:
    """Damped steps (K, N, 6). Damping also keeps the whole in its place, which no residual sees."""
    count, num_pieces = gradient.shape[:2]
    size = 6 * num_pieces
    square = hessian.swapaxes(2, 3).reshape(count, size, size)
    strength = damping * np.einsum("kii->k", square) / size + 1e-9
    square = square + strength[:, None, None] * np.eye(size)
    return -np.linalg.solve(square, gradient.reshape(count, size, 1)).reshape(count, num_pieces, 6)
