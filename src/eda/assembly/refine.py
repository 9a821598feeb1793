"""Refinement: poses that are roughly right, moved until the pieces fit.

Gauss-Newton over all pieces at once, on correspondences that are found anew in every step, within a radius that
shrinks. A correspondence of x on piece i with y on piece j has the residual e = x - y, weighed fully along the normal
and little across it, so that surfaces slide until their relief and their outlines agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eda.assembly.contact import Patch, counterpart
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
    evidence: Evidence,
    poses: np.ndarray,
    placed: np.ndarray | None = None,
    config: RefineConfig | None = None,
    part: slice = slice(None),
) -> np.ndarray:
    """Assemblies (K, N, 4, 4), each moved to the best fit nearby of its pieces `placed` (K, N). -> (K, N, 4, 4).

    `part` are those of the steps that are taken.
    """
    config = config or RefineConfig()
    placed = np.ones(poses.shape[:2], dtype=bool) if placed is None else placed
    last = min(config.last_radius * evidence.spacing, config.first_radius)
    radii = np.geomspace(config.first_radius, last, config.steps)
    slides = np.geomspace(config.first_slide, config.last_slide, config.steps)
    for radius, slide in zip(radii[part], slides[part], strict=True):
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
    moved = moved_about(poses, centers, _solved(hessian, gradient, config.damping))
    return np.where(placed[..., None, None], moved, poses)  # a motion of zero may round


def _near(evidence: Evidence, centers: np.ndarray, i: int, j: int, radius: float) -> np.ndarray:
    """(K,) in which assemblies the spheres around two pieces come near each other."""
    reach = evidence.fragments[i].radius + evidence.fragments[j].radius + radius
    return np.square(centers[:, i] - centers[:, j]).sum(axis=1) < reach**2


def pull_between(
    mine: Patch, theirs: Patch, pose: np.ndarray, other_pose: np.ndarray, radius: float, most_points: int
) -> Pull:
    """Points of a patch and their nearest counterparts on another's, at poses (K, 4, 4) of the two pieces."""
    relative = inverse(other_pose) @ pose
    chosen = slice(max(most_points, 1))
    points, normals = act(relative, mine.points[chosen]), turn(relative, mine.normals[chosen])
    index, target_normals = counterpart(mine, points, normals, theirs)
    targets = theirs.points[index]
    apart = np.square(points - targets).sum(axis=2) / radius**2
    robust = np.square(np.clip(1 - apart, 0, None))  # Tukey's
    agreeing = np.clip((normals * target_normals).sum(axis=2), 0, None)
    # The mean normal instead of either one: exact for curved surfaces too, as in symmetric ICP.
    middle = target_normals + normals
    middle /= np.maximum(np.linalg.norm(middle, axis=2, keepdims=True), 1e-9)
    weights = robust * agreeing * mine.weights[chosen] * theirs.weights[index]
    return Pull(act(other_pose, points), act(other_pose, targets), turn(other_pose, middle), weights)


def normal_equations(
    pull: Pull, centers: np.ndarray, other_centers: np.ndarray, slide: float
) -> tuple[np.ndarray, np.ndarray]:
    """Of the sum of weights * ((e . n)^2 + slide |e|^2) in twists of both pieces about their centers (K, 3).

    -> (K, 12, 12), half the Hessian with the normals held, and (K, 12), half the gradient.
    """
    arm, other_arm = pull.points - centers[:, None], pull.targets - other_centers[:, None]
    apart = (centers - other_centers)[:, :, None]
    # along the normals: one row a point
    rows = np.concatenate([_cross(arm, pull.normals), pull.normals], axis=2)
    other_rows = np.concatenate([_cross(other_arm, pull.normals), pull.normals], axis=2)
    rows = np.concatenate([rows, -other_rows], axis=2)
    weighted = (rows * pull.weights[..., None]).swapaxes(1, 2)
    along = ((pull.points - pull.targets) * pull.normals).sum(axis=2, keepdims=True)
    # in all directions: e and its slopes are linear in m = (1, arm, other arm), so the moments of m say it all
    m = np.concatenate([np.ones((*arm.shape[:2], 1)), arm, other_arm], axis=2)
    moments = (m * pull.weights[..., None]).swapaxes(1, 2) @ m
    offset = np.concatenate([apart, *np.broadcast_to([[np.eye(3)], [-np.eye(3)]], (2, len(m), 3, 3))], axis=2)
    square = (moments.reshape(-1, 49) @ _SQUARES).reshape(-1, 12, 12)
    slope = (offset @ moments).swapaxes(1, 2).reshape(-1, 21) @ _SLOPES.reshape(21, 12)
    return weighted @ rows + slide * square, (weighted @ along)[..., 0] + slide * slope


def _slopes() -> np.ndarray:
    """(7, 3, 12) the slopes of e = x - y in the twists of both pieces, for each of m = (1, arm, other arm)."""
    slopes = np.zeros((7, 3, 12))
    slopes[0, :, 3:6], slopes[0, :, 9:] = np.eye(3), -np.eye(3)
    for axis, unit in enumerate(np.eye(3)):
        slopes[1 + axis, :, :3] = np.cross(np.eye(3), unit).T  # a turn w moves the point by w x arm
        slopes[4 + axis, :, 6:9] = -np.cross(np.eye(3), unit).T
    return slopes


_SLOPES = _slopes()
_SQUARES = np.einsum("qia,rib->qrab", _SLOPES, _SLOPES).reshape(49, 144)


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
