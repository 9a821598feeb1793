"""Iterative closest points: correspondences -> residuals -> normal equations -> a Gauss-Newton step.

For a point x of the source, its closest point y of the target and a unit normal n:

    r = (x - y) . n                            residual
    J = [(x - c) x n, n]                       its Jacobian in a twist (w, t) of the source about c
    (J^T W J + damping I) xi = -J^T W r        step

Two callers share these equations, and differ in what they move. `point_to_plane_icp` brings one surface onto another,
from many hypotheses at once: a surface that was seen twice. `assembly.search.refine` moves all pieces of an assembly at
once; there both ends of a correspondence move, and residuals across the normal count a little (`two_body_equations`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.spatial import cKDTree

from eda.lie import SE3, so3
from eda.registration.rigid import act, inverse, move_about, rotate

# In units of the spacing of a surface's points:
RADII = (1.7, 1.7, 1.0, 1.0, 1.0, 1.0)  # of the Gaussian weights of correspondences, step by step
MAX_DISTANCE = 3.0  # of a correspondence
DAMPING = 1e-3  # per correspondence: what keeps a motion where no residual sees it

# -- the equations -----------------------------------------------------------------------------------------------------


def plane_jacobian(arms: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """J of x . n in twists about c, for arms x - c and normals n (K, n, 3). -> (K, n, 6)."""
    return np.concatenate([_cross(arms, normals), normals], axis=2)


def normal_equations(jacobian: np.ndarray, residuals: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """J^T W J (K, m, m) and J^T W r (K, m), from J (K, n, m), r (K, n) and the diagonal of W (K, n)."""
    weighted = (jacobian * weights[..., None]).swapaxes(1, 2)
    return weighted @ jacobian, (weighted @ residuals[..., None])[..., 0]


def gauss_newton_step(JTJ: np.ndarray, JTr: np.ndarray, damping: np.ndarray) -> np.ndarray:
    """xi of (J^T W J + damping I) xi = -J^T W r. (K, m, m), (K, m), (K,) -> (K, m)."""
    damped = JTJ + damping[:, None, None] * np.eye(JTJ.shape[1])
    return -np.linalg.solve(damped, JTr[..., None])[..., 0]


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a x b along the last axis; numpy's own takes three times as long."""
    (ax, ay, az), (bx, by, bz) = np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0)
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)


# -- both ends of a correspondence move --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Correspondences:
    """n correspondences between a piece and another in each of K assemblies, in the frame of the whole."""

    points: np.ndarray  # (K, n, 3) x, on the piece
    targets: np.ndarray  # (K, n, 3) y, on the other
    normals: np.ndarray  # (K, n, 3) n, the direction that weighs fully
    weights: np.ndarray  # (K, n)


def two_body_equations(
    pairs: Correspondences, centers: np.ndarray, other_centers: np.ndarray, slide: float
) -> tuple[np.ndarray, np.ndarray]:
    """J^T W J (K, 12, 12) and J^T W r (K, 12) of both pieces' twists, each about its own center (K, 3).

    They are half the Hessian and half the gradient of the sum of weights * ((e . n)^2 + slide |e|^2), e = x - y, with
    the normals held. A little weight across the normals lets surfaces slide until their outlines agree.
    """
    arm, other_arm = pairs.points - centers[:, None], pairs.targets - other_centers[:, None]
    jacobian = np.concatenate([plane_jacobian(arm, pairs.normals), -plane_jacobian(other_arm, pairs.normals)], axis=2)
    residuals = ((pairs.points - pairs.targets) * pairs.normals).sum(axis=2)
    JTJ, JTr = normal_equations(jacobian, residuals, pairs.weights)
    # in all directions: e and its Jacobian are linear in m = (1, x - c, y - c'), so the moments of m say it all
    m = np.concatenate([np.ones((*arm.shape[:2], 1)), arm, other_arm], axis=2)
    moments = (m * pairs.weights[..., None]).swapaxes(1, 2) @ m
    apart = (centers - other_centers)[:, :, None]
    offset = np.concatenate([apart, *np.broadcast_to([[np.eye(3)], [-np.eye(3)]], (2, len(m), 3, 3))], axis=2)
    square = (moments.reshape(-1, 49) @ _SQUARES).reshape(-1, 12, 12)
    slope = (offset @ moments).swapaxes(1, 2).reshape(-1, 21) @ _JACOBIANS.reshape(21, 12)
    return JTJ + slide * square, JTr + slide * slope


def _jacobians() -> np.ndarray:
    """(7, 3, 12) the Jacobian of e = x - y in the twists of both pieces, for each of m = (1, x - c, y - c')."""
    jacobians = np.zeros((7, 3, 12))
    jacobians[0, :, 3:6], jacobians[0, :, 9:] = np.eye(3), -np.eye(3)
    for axis, unit in enumerate(np.eye(3)):
        jacobians[1 + axis, :, :3] = np.cross(np.eye(3), unit).T  # a turn w moves the point by w x arm
        jacobians[4 + axis, :, 6:9] = -np.cross(np.eye(3), unit).T
    return jacobians


_JACOBIANS = _jacobians()
_SQUARES = np.einsum("qia,rib->qrab", _JACOBIANS, _JACOBIANS).reshape(49, 144)

# -- two surfaces ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Surface:
    """The points of a piece in its own frame."""

    points: np.ndarray  # (m, 3)
    normals: np.ndarray  # (m, 3) of any sign; zero where there are none, and then ICP moves nothing
    spacing: float  # typical distance of the points

    @cached_property
    def tree(self) -> cKDTree:
        """To look for the closest point."""
        return cKDTree(self.points)

    def closest(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distance (...) and row (...) of the closest point; infinite, and any row, where none is near enough."""
        distance, row = self.tree.query(points, distance_upper_bound=MAX_DISTANCE * self.spacing)
        return distance, np.where(np.isfinite(distance), row, 0)


@dataclass(frozen=True)
class SurfaceCorrespondences:
    """Every point of two surfaces with the closest point of the other, both ways: n = m + m', at K relative poses.

    In the frame of the target. Normals are lines: their sign does not matter.
    """

    distance: np.ndarray  # (K, n) between the two; infinite where there is no point near enough
    middle: np.ndarray  # (K, n, 3) between the two
    normals: np.ndarray  # (K, n, 3) at the closest point
    residuals: np.ndarray  # (K, n) (x - y) . n, x on the source and y on the target
    parallel: np.ndarray  # (K, n) |cosine| between the normals of the two

    @staticmethod
    def between(source: Surface, target: Surface, T_target_source: np.ndarray) -> SurfaceCorrespondences:
        """Correspondences at relative poses (K, 4, 4)."""
        points, normals = act(T_target_source, source.points), rotate(T_target_source, source.normals)
        distance, row = target.closest(points)
        back_distance, back_row = source.closest(act(inverse(T_target_source), target.points))
        back, every = np.arange(len(points))[:, None], (len(points), *target.points.shape)
        x = np.concatenate([points, points[back, back_row]], axis=1)
        y = np.concatenate([target.points[row], np.broadcast_to(target.points, every)], axis=1)
        closest = np.concatenate([target.normals[row], normals[back, back_row]], axis=1)
        own = np.concatenate([normals, np.broadcast_to(target.normals, every)], axis=1)
        return SurfaceCorrespondences(
            distance=np.concatenate([distance, back_distance], axis=1),
            middle=(x + y) / 2,
            normals=closest,
            residuals=((x - y) * closest).sum(axis=2),
            parallel=np.abs((closest * own).sum(axis=2)),
        )

    def nearness(self, radius: float) -> np.ndarray:
        """(K, n) a Gaussian of the distance: one where the two coincide."""
        return np.exp(-np.square(self.distance) / (2 * radius**2))

    def jacobian(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The weighted mean (K, 3) of all correspondences, and J (K, n, 6) of the residuals in twists about it.

        Taken at the middle of each correspondence, which makes it symmetric in the two surfaces.
        """
        total = np.maximum(weights.sum(axis=1), 1e-12)[:, None]
        center = (weights[..., None] * self.middle).sum(axis=1) / total
        return center, plane_jacobian(self.middle - center[:, None], self.normals)


def point_to_plane_icp(source: Surface, target: Surface, T_target_source: np.ndarray) -> np.ndarray:
    """Relative poses (K, 4, 4) after some steps by which the surfaces come to lie in each other's planes."""
    T = T_target_source
    for radius in RADII:
        pairs = SurfaceCorrespondences.between(source, target, T)
        weights = pairs.nearness(radius * source.spacing) * pairs.parallel**2
        center, jacobian = pairs.jacobian(weights)
        JTJ, JTr = normal_equations(jacobian, pairs.residuals, weights)
        twist = gauss_newton_step(JTJ, JTr, DAMPING * (1 + weights.sum(axis=1)))
        T = move_about(T, center, _screw(twist))
    return SE3.from_matrix(torch.from_numpy(T)).polish().matrix().numpy()


def _screw(twist: np.ndarray) -> np.ndarray:
    """(w, V(w) t): the shift that goes with the rotation where both happen at once, as in exp of SE(3). (K, 6)."""
    w = torch.from_numpy(np.ascontiguousarray(twist[:, :3]))
    return np.concatenate([twist[:, :3], (so3.left_jacobian(w).numpy() @ twist[:, 3:, None])[..., 0]], axis=1)
