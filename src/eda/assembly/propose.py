"""Proposals from geometry alone: where a piece could dock on another, whether or not a sample had it there.

In: evidence. Out: relative poses that put a place on one break onto a place on another, face to face, turned by every
angle of a grid; of all these, those whose breaks then lie near each other. They are rough, as samples are: refinement
reaches some 30 degrees, and the grid is finer than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from eda.assembly.contact import NORMAL_WEIGHT, Patch
from eda.assembly.evidence import Evidence
from eda.assembly.fragment import Fragment
from eda.assembly.motion import act, inverse, turn


@dataclass(frozen=True)
class ProposeConfig:
    """How fine to look."""

    places: int = 8  # on the break of a piece that are put onto the other's
    other_places: int = 30  # that they are put onto
    angles: int = 12
    patch_radius: float = 0.25  # of the neighbourhood whose mean normal stands for a place, in units of the size
    probes: tuple[int, int] = (24, 60)  # points asked how they came to lie: at first, and of what is then left
    left: int = 400
    radius: float = 0.2  # how near to the other's break is near
    kept: int = 48  # of all proposals of a pair
    apart: float = 0.3  # two proposals are one if no point lies further apart


def propose(evidence: Evidence, pair: tuple[int, int], config: ProposeConfig | None = None) -> np.ndarray:
    """Poses of piece i in the frame of piece j, the most promising first. -> (M, 4, 4), M <= config.kept."""
    config = config or ProposeConfig()
    i, j = pair
    mine, theirs = evidence.patches[i][0], evidence.patches[j][0]
    poses = _dockings(_places(mine, config.places, config), _places(theirs, config.other_places, config), mine, config)
    for probes in config.probes:
        merit = _closeness(mine, theirs, poses, probes, config.radius)
        merit -= _overlap(evidence.fragments[i], evidence.fragments[j], poses, probes, config.radius)
        poses = poses[np.argsort(-merit, kind="stable")[: config.left]]
    return _spread(poses, evidence.fragments[i].corners, config)


def _places(patch: Patch, count: int, config: ProposeConfig) -> np.ndarray:
    """Frames (m, 4, 4) on a patch: at its first points, which cover it evenly, z along the mean normal around."""
    likely = np.flatnonzero(patch.weights >= 0.5)
    chosen = (likely if len(likely) else np.arange(len(patch.weights)))[:count]
    tree = cKDTree(patch.points)
    frames = np.tile(np.eye(4), (len(chosen), 1, 1))
    for frame, row in zip(frames, chosen, strict=True):
        around = tree.query_ball_point(patch.points[row], config.patch_radius)
        around = [k for k in around if patch.normals[k] @ patch.normals[row] > 0]
        normal = patch.weights[around] @ patch.normals[around]
        frame[:3, :3] = _frame(normal)
        frame[:3, 3] = patch.points[row]
    return frames


def _frame(normal: np.ndarray) -> np.ndarray:
    """A rotation whose third column is along a vector."""
    z = normal / max(float(np.linalg.norm(normal)), 1e-12)
    x = np.cross(z, np.eye(3)[np.abs(z).argmin()])
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


def _dockings(mine: np.ndarray, theirs: np.ndarray, patch: Patch, config: ProposeConfig) -> np.ndarray:
    """Every frame of one piece onto every frame of the other, face to face, at every angle."""
    angles = 2 * np.pi * np.arange(config.angles) / config.angles
    docked = np.zeros((config.angles, 4, 4))  # a turn about z, then upside down
    docked[:, 0, 0], docked[:, 0, 1] = np.cos(angles), -np.sin(angles)
    docked[:, 1, 0], docked[:, 1, 1] = np.sin(angles), np.cos(angles)
    docked[:, 2, 2] = docked[:, 3, 3] = 1
    if patch.facing:
        docked[:, 1:3] *= -1
    every = theirs[:, None, None] @ docked[None, :, None] @ inverse(mine)[None, None]
    return every.reshape(-1, 4, 4)


def _closeness(mine: Patch, theirs: Patch, poses: np.ndarray, probes: int, radius: float) -> np.ndarray:
    """(M,) how much of one break comes to lie near the other, with normals that agree."""
    chosen = slice(probes)
    points, normals = act(poses, mine.points[chosen]), turn(poses, mine.normals[chosen])
    query = np.concatenate([points, NORMAL_WEIGHT * normals], axis=2).reshape(-1, 6)
    distance, index = theirs.tree.query(query, distance_upper_bound=radius)
    weight = np.append(theirs.weights, 0)[index].reshape(points.shape[:2]) * mine.weights[chosen]
    near = np.where(np.isfinite(distance), 1 - distance / radius, 0).reshape(weight.shape)
    return (near * weight).sum(axis=1) / mine.weights[chosen].sum()


def _overlap(piece: Fragment, other: Fragment, poses: np.ndarray, probes: int, radius: float) -> np.ndarray:
    """(M,) the share of points that come to lie deep inside the other piece."""
    points = act(poses, piece.points[:probes])
    _, index = other.tree.query(points.reshape(-1, 3))
    height = ((points.reshape(-1, 3) - other.points[index]) * other.normals[index]).sum(axis=1)
    return (height.reshape(points.shape[:2]) < -radius / 2).mean(axis=1)


def _spread(poses: np.ndarray, corners: np.ndarray, config: ProposeConfig) -> np.ndarray:
    """The first few that differ from those before them."""
    places = act(poses, corners)
    kept: list[int] = []
    for k in range(len(poses)):
        if len(kept) == config.kept:
            break
        if not kept or np.square(places[kept] - places[k]).sum(axis=2).max(axis=1).min() > config.apart**2:
            kept.append(k)
    return poses[kept]
