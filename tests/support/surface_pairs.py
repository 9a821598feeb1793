"""For tests of surfaces: samples of shapes by formula, pairs that are slightly off, and all points that meet."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from support.rigid_motions import random_se3
from support.soft_matches import drawn, unit
from torch import Tensor

from eda import SE3
from eda.registration.icp import Surface, point_to_plane_icp
from eda.registration.overlap import overlap_features

SPACING = 0.1  # of the surfaces below: 400 points on four unit squares


def exact(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# -- surfaces by formula -----------------------------------------------------------------------------------


def surface_of(points: np.ndarray, normals: np.ndarray) -> Surface:
    return Surface(points, normals, SPACING)


def bumps(seed: int, count: int = 400) -> Surface:
    """A sample of a height field over four unit squares that is like no other part of itself."""
    x, y = np.random.default_rng(seed).uniform(-1, 1, (2, count))
    z = 0.2 * np.sin(3 * x + 1) * np.cos(2 * y) + 0.15 * np.cos(4 * x - 3 * y)
    by_x = 0.6 * np.cos(3 * x + 1) * np.cos(2 * y) - 0.6 * np.sin(4 * x - 3 * y)
    by_y = -0.4 * np.sin(3 * x + 1) * np.sin(2 * y) + 0.45 * np.sin(4 * x - 3 * y)
    normals = np.stack([-by_x, -by_y, np.ones(count)], axis=1)
    return surface_of(np.stack([x, y, z], axis=1), normals / np.linalg.norm(normals, axis=1, keepdims=True))


def corner(seed: int, count: int = 400) -> Surface:
    """A sample of the three faces of a box that meet at the origin."""
    points, face = np.random.default_rng(seed).uniform(0, 1.15, (count, 3)), np.arange(count) % 3
    points[np.arange(count), face] = 0
    return surface_of(points, np.eye(3)[face])


def plane(seed: int, count: int = 400) -> Surface:
    """A sample of two by two in the plane z = 0."""
    points = np.random.default_rng(seed).uniform(-1, 1, (count, 3)) * [1, 1, 0]
    return surface_of(points, np.tile([0.0, 0.0, 1.0], (count, 1)))


def pipe(seed: int, count: int = 600) -> Surface:
    """A sample of a pipe of length 2 and radius 1/2 about the z axis."""
    angle, height = np.random.default_rng(seed).uniform([[0.0], [-1.0]], [[2 * math.pi], [1.0]], (2, count))
    normals = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    return surface_of(normals / 2 + np.array([0, 0, 1]) * height[:, None], normals)


def random_surface(count: int, seed: int, spread: float = 0.3) -> Surface:
    """Points and normals at random: nothing fits, and most is near something."""
    return surface_of(spread * drawn(count, 3, seed=seed).numpy(), unit(drawn(count, 3, seed=seed + 1)).numpy())


def moved(surface: Surface, pose: SE3) -> Surface:
    """In another frame; the pose is one."""
    R, t = pose.rotation.numpy(), pose.translation.numpy()
    return replace(surface, points=surface.points @ R.T + t, normals=surface.normals @ R.T)


def registered(source: Surface, target: Surface, motion: SE3) -> SE3:
    """By ICP, from motions (K,)."""
    return SE3.from_matrix(torch.from_numpy(point_to_plane_icp(source, target, motion.matrix().numpy())))


def overlap(source: Surface, target: Surface, motion: SE3) -> Tensor:
    """The features (K, 12) of motions (K,)."""
    return torch.from_numpy(overlap_features(source, target, motion.matrix().numpy()))


SHAPES: dict[str, Callable[[int], Surface]] = {"bumps": bumps, "corner": corner}
of_both_shapes = pytest.mark.parametrize("shape", SHAPES)

# -- pairs of them -----------------------------------------------------------------------------------------


def slightly(count: int, degrees: float = 5.0, spacings: float = 1.0, seed: int = 0) -> SE3:
    """(K,) motions that turn by so many degrees about any axis and move by so many spacings."""
    turn = math.radians(degrees) * unit(drawn(count, 3, seed=seed))
    twist = torch.cat([turn, torch.zeros(count, 3).double()], dim=1)
    return SE3(SE3.exp(twist).rotation, spacings * SPACING * unit(drawn(count, 3, seed=seed + 1)))


def pair_of(shape: str, count: int = 4) -> tuple[Surface, Surface, SE3, SE3]:
    """Two samples, in frames of their own; motions (K,) that are slightly off, and the true one."""
    poses = random_se3(2, seed=3, spread=2.0)
    true = poses[1] @ poses[0].inverse()
    here, there = (moved(SHAPES[shape](seed), poses[seed]) for seed in (0, 1))
    off = poses[1].reshape(1) @ slightly(count) @ poses[0].inverse().reshape(1)
    return here, there, off, true


def cases() -> dict[str, tuple[Surface, Surface, SE3]]:
    """Also two surfaces of which nothing fits, and one of few points."""
    found = {shape: pair_of(shape, 3)[:3] for shape in SHAPES}
    anywhere = SE3(slightly(3, 60.0).rotation, 0.2 * drawn(3, 3, seed=9))
    return {
        **found,
        "nothing fits": (random_surface(70, 1), random_surface(90, 3), anywhere),
        "few points": (random_surface(4, 5, 0.1), random_surface(6, 7, 0.1), slightly(3, 60.0)),
    }


CASES = list(cases())
in_all_cases = pytest.mark.parametrize("case", CASES)

# -- what meets --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Meeting:
    """A point of one of two pieces, and the nearest of the other, where a motion brings them."""

    gap: float
    first: np.ndarray  # of the two, that of the first piece
    second: np.ndarray
    plane: np.ndarray  # the normal at the nearest
    parallel: float


def meetings(here: Surface, there: Surface, motion: np.ndarray) -> list[Meeting]:
    """Of all points of both: all distances, and the least of each."""
    R, t = motion[:3, :3], motion[:3, 3]
    x, n = here.points @ R.T + t, here.normals @ R.T
    y, m = there.points, there.normals
    distance, found = cdist(x, y), []
    for i in range(len(x)):
        j = int(distance[i].argmin())
        found.append(Meeting(distance[i, j], x[i], y[j], m[j], abs(float(n[i] @ m[j]))))
    for j in range(len(y)):
        i = int(distance[:, j].argmin())
        found.append(Meeting(distance[i, j], x[i], y[j], n[i], abs(float(n[i] @ m[j]))))
    return found


def nearness(one: Meeting, reach: float) -> float:
    """A bell of that width; nothing counts from three spacings on."""
    return math.exp(-((one.gap / (reach * SPACING)) ** 2) / 2) if one.gap < 3 * SPACING else 0.0


def skew(w: np.ndarray) -> np.ndarray:
    return np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
