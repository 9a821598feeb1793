"""Docking: relative poses from geometry alone, whether or not a sample of the flow has them.

In: evidence. Out: relative poses that put a place of one break onto a place of another; of all these, those whose
breaks and outer surfaces then fit best. They are rough, as samples are: refinement reaches some 30 degrees.

    edges   where a break meets the outer surface: two directions, so two edges fix the whole pose
    faces   anywhere on a break: one direction, so every angle of a grid about it is tried
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.fragment import Fragment
from eda.assembly.proposals.proposer import Pair, PairProposer, Problem, Proposals
from eda.budget import Budget
from eda.registration.patches import Patch, closeness
from eda.registration.rigid import act, inverse
from eda.registration.suppression import keep_distinct_poses

MIN_PROPOSALS = 24  # for a pair, however many pairs share them


@dataclass(frozen=True)
class DockingConfig:
    """How finely to search."""

    edges: int = 64  # places on the edge of each break
    edge_radius: float = 0.12  # of the neighbourhood whose mean normals stand for such a place, in units of the size
    bend: float = 0.5  # how far the outer surface may bend where two edges meet: a difference of cosines
    places: int = 8  # on the break of a piece that are put onto the other's
    other_places: int = 30  # that they are put onto
    angles: int = 12
    patch_radius: float = 0.25  # of the neighbourhood whose mean normal stands for a place
    probes: tuple[int, int] = (24, 80)  # points asked how they came to lie: at first, and of what is then left
    num_candidates: int = 600  # that the last probes are asked of
    radius: float = 0.15  # how near to the other's break is near
    num_poses: int = 160  # at most, of a pair
    min_distance: float = 0.3  # two proposals are one if no point lies further apart


@dataclass(frozen=True)
class Docking:
    """Proposes dockings of break against break."""

    config: DockingConfig
    total: int  # proposals, shared by all pairs

    def propose(self, problem: Problem, budget: Budget) -> PairProposer:
        """The best dockings of every pair; all of them are rough."""
        kept = max(MIN_PROPOSALS, self.total // len(problem.evidence.pairs))
        return lambda pair: Proposals(rough=docking_poses(problem.evidence, pair, self.config)[:kept])


def docking_poses(evidence: Evidence, pair: Pair, config: DockingConfig | None = None) -> np.ndarray:
    """Poses of piece i in the frame of piece j, the most promising first. -> (M, 4, 4), M <= config.num_poses."""
    config = config or DockingConfig()
    two = evidence.of_pair(*pair)
    mine, theirs = two.patches
    faces = _places(mine[0], config.places, config), _places(theirs[0], config.other_places, config)
    poses = np.concatenate([_dock_edges(two, config), _dock_faces(*faces, config)])
    few, many = config.probes
    merit = closeness(mine, theirs, poses, few, config.radius)
    poses = poses[np.argsort(-merit, kind="stable")[: 2 * config.num_candidates]]
    merit = closeness(mine, theirs, poses, many, config.radius)
    merit -= _penetration(two.fragments[0], two.fragments[1], poses, few, config.radius)
    poses = poses[np.argsort(-merit, kind="stable")[: config.num_candidates]]
    return keep_distinct_poses(poses, two.fragments[0].corners, config.min_distance, config.num_poses)


# -- edges -------------------------------------------------------------------------------------------------------------


def _dock_edges(two: Evidence, config: DockingConfig) -> np.ndarray:
    """Every edge of one piece onto every edge of the other, if the outer surface then goes on without a bend."""
    (mine, my_bend), (theirs, their_bend) = (_edges(two, side, config) for side in (0, 1))
    a, b = np.nonzero(np.abs(my_bend[:, None] + their_bend) < config.bend)
    # z is opposed, x the same: half a turn about x
    return theirs[b] @ np.diag([1.0, -1.0, -1.0, 1.0]) @ inverse(mine[a])


def _edges(two: Evidence, side: int, config: DockingConfig) -> tuple[np.ndarray, np.ndarray]:
    """Frames (m, 4, 4) where a break meets the outer surface, z out of the break and x out of the surface as far as it
    is across z; and the cosines (m,) between the two directions.
    """
    broken, beside = two.patches[side]
    breaks, surface = cKDTree(broken.points), cKDTree(beside.points)
    distance, neighbor = surface.query(broken.points)
    chosen = np.flatnonzero(distance < 2 * two.fragments[side].spacing)[: config.edges]
    frames, bends = np.tile(np.eye(4), (len(chosen), 1, 1)), np.zeros(len(chosen))
    for k, row in enumerate(chosen):
        z = _mean_normal(broken, breaks, broken.points[row], broken.normals[row], config.edge_radius)
        x = _mean_normal(beside, surface, broken.points[row], beside.normals[neighbor[row]], config.edge_radius)
        bends[k] = x @ z
        frames[k, :3, :3] = _frame(z, x)
        frames[k, :3, 3] = broken.points[row]
    usable = np.abs(bends) < 0.9  # else there is no edge to speak of
    return frames[usable], bends[usable]


def _mean_normal(patch: Patch, tree: cKDTree, point: np.ndarray, normal: np.ndarray, radius: float) -> np.ndarray:
    """Of the points around one that look to the same side as a normal. -> (3,) unit vector."""
    around = [k for k in tree.query_ball_point(point, radius) if patch.normals[k] @ normal > 0]
    # Where no point is likely to be of its kind, all count alike.
    mean = np.maximum(patch.weights[around], 1e-6) @ patch.normals[around] if around else normal
    return mean / max(float(np.linalg.norm(mean)), 1e-12)


# -- faces -------------------------------------------------------------------------------------------------------------


def _places(patch: Patch, count: int, config: DockingConfig) -> np.ndarray:
    """Frames (m, 4, 4) on a patch: at its first points, which cover it evenly, z along the mean normal around."""
    likely = np.flatnonzero(patch.weights >= 0.5)
    chosen = (likely if len(likely) else np.arange(len(patch.weights)))[:count]
    tree = cKDTree(patch.points)
    frames = np.tile(np.eye(4), (len(chosen), 1, 1))
    for frame, row in zip(frames, chosen, strict=True):
        z = _mean_normal(patch, tree, patch.points[row], patch.normals[row], config.patch_radius)
        frame[:3, :3] = _frame(z, np.eye(3)[np.abs(z).argmin()])
        frame[:3, 3] = patch.points[row]
    return frames


def _frame(z: np.ndarray, towards: np.ndarray) -> np.ndarray:
    """A rotation whose third column is a unit vector, and whose first is another one as far as it is across that."""
    x = towards - (towards @ z) * z
    x /= max(float(np.linalg.norm(x)), 1e-12)
    return np.stack([x, np.cross(z, x), z], axis=1)


def _dock_faces(mine: np.ndarray, theirs: np.ndarray, config: DockingConfig) -> np.ndarray:
    """Every frame of one piece onto every frame of the other, face to face, at every angle."""
    angles = 2 * np.pi * np.arange(config.angles) / config.angles
    docked = np.zeros((config.angles, 4, 4))  # a turn about z, then upside down
    docked[:, 0, 0], docked[:, 0, 1] = np.cos(angles), -np.sin(angles)
    docked[:, 1, 0], docked[:, 1, 1] = np.sin(angles), np.cos(angles)
    docked[:, 2, 2] = docked[:, 3, 3] = 1
    docked[:, 1:3] *= -1
    every = theirs[:, None, None] @ docked[None, :, None] @ inverse(mine)[None, None]
    return every.reshape(-1, 4, 4)


def _penetration(piece: Fragment, other: Fragment, poses: np.ndarray, probes: int, radius: float) -> np.ndarray:
    """(M,) the share of points that come to lie deep inside the other piece."""
    points = act(poses, piece.points[:probes])
    _, index = other.tree.query(points.reshape(-1, 3))
    height = ((points.reshape(-1, 3) - other.points[index]) * other.normals[index]).sum(axis=1)
    return (height.reshape(points.shape[:2]) < -radius / 2).mean(axis=1)
