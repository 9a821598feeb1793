"""Refinement: poses that are roughly right, moved until the pieces fit.

Gauss-Newton over all pieces at once, on correspondences that are found anew in every step, within a radius that
shrinks. Of a correspondence the residual x - y weighs fully along the normal and little across it, so that surfaces
slide until their relief and their outlines agree (`registration/icp.py` has the equations).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eda.assembly.contact.evidence import Evidence
from eda.registration.icp import gauss_newton_step, two_body_equations
from eda.registration.patches import find_correspondences
from eda.registration.rigid import act, move_about


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
    JTJ, JTr, centers = linearize(evidence, poses, placed, radius, config, slide)
    # Damping also keeps the whole in its place, which no residual sees.
    damping = config.damping * np.einsum("kii->k", JTJ) / JTJ.shape[1] + 1e-9
    twist = gauss_newton_step(JTJ, JTr, damping).reshape(*poses.shape[:2], 6)
    moved = move_about(poses, centers, twist)
    return np.where(placed[..., None, None], moved, poses)  # a motion of zero may round


def linearize(
    evidence: Evidence,
    poses: np.ndarray,
    placed: np.ndarray,
    radius: float,
    config: RefineConfig,
    slide: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """J^T W J (K, 6 N, 6 N) and J^T W r (K, 6 N) of the twists of all pieces about their centers, and these (K, N, 3).

    `slide` is the weight across the normal; if it is not given, the one of the last step.
    """
    slide = config.last_slide if slide is None else slide
    centers = np.stack([act(poses[:, i], f.center[None])[:, 0] for i, f in enumerate(evidence.fragments)], axis=1)
    count, num_pieces = poses.shape[:2]
    JTJ, JTr = np.zeros((count, num_pieces, num_pieces, 6, 6)), np.zeros((count, num_pieces, 6))
    for i in range(num_pieces):
        for j in range(num_pieces):
            near = np.flatnonzero(placed[:, i] & placed[:, j] & _is_near(evidence, centers, i, j, radius))
            if i == j or not len(near):
                continue
            for mine, theirs in zip(evidence.patches[i], evidence.patches[j], strict=True):
                pairs = find_correspondences(mine, theirs, poses[near, i], poses[near, j], radius, config.most_points)
                square, slope = two_body_equations(pairs, centers[near, i], centers[near, j], slide)
                for a, rows in ((i, slice(0, 6)), (j, slice(6, 12))):
                    JTr[near, a] += slope[:, rows]
                    JTJ[near, a, i] += square[:, rows, :6]
                    JTJ[near, a, j] += square[:, rows, 6:]
    size = 6 * num_pieces
    return JTJ.swapaxes(2, 3).reshape(count, size, size), JTr.reshape(count, size), centers


def _is_near(evidence: Evidence, centers: np.ndarray, i: int, j: int, radius: float) -> np.ndarray:
    """(K,) in which assemblies the spheres around two pieces come near each other."""
    reach = evidence.fragments[i].radius + evidence.fragments[j].radius + radius
    return np.square(centers[:, i] - centers[:, j]).sum(axis=1) < reach**2
