"""For tests of the assembler: a block in slices, whose cuts are known in closed form; and motions to disturb it."""

import numpy as np
from scipy.spatial.transform import Rotation
from support.rigid_motions import random_motion_of_size

from eda.assembly import Evidence, Fragment
from eda.assembly.contact.detail import Detail
from eda.registration.rigid import act

SIZE = np.array([1.8, 0.9, 0.7])  # of the block, cut across its length


def cut(place: int, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The relief of a cut over (y, z), and its slopes in y and z; every cut has another one, without symmetry."""
    a, b = 5 + place, 7 - place
    height = 0.09 * np.sin(a * y + place) + 0.07 * np.cos(b * z + 0.5 * a * y)
    slope_y = 0.09 * a * np.cos(a * y + place) - 0.035 * a * np.sin(b * z + 0.5 * a * y)
    return height, slope_y, -0.07 * b * np.sin(b * z + 0.5 * a * y)


def slices(num_pieces: int, density: float = 260.0, seed: int = 0) -> list[Fragment]:
    """The block in assembled position, cut into slices along x. Points per unit area, drawn for every face anew."""
    rng = np.random.default_rng(seed)
    edges = np.linspace(0, SIZE[0], num_pieces + 1)
    return [_slice(edges, k, density, rng) for k in range(num_pieces)]


def _slice(edges: np.ndarray, k: int, density: float, rng: np.random.Generator) -> Fragment:
    faces = [_end(edges, k + side, side, density, rng) for side in (0, 1)]
    for axis in (1, 2):
        faces += [_side(edges, k, axis, side, density, rng) for side in (0, 1)]
    points, normals, broken = (np.concatenate(parts) for parts in zip(*faces, strict=True))
    return Fragment(points, normals, broken)


def _end(edges: np.ndarray, number: int, side: int, density: float, rng: np.random.Generator) -> tuple:
    """The cut with this number, or the end of the block where there is none; side 1: towards larger x."""
    y, z = (rng.random((2, int(density * SIZE[1] * SIZE[2]))).T * SIZE[1:]).T
    inner = 0 < number < len(edges) - 1
    height, slope_y, slope_z = cut(number, y, z) if inner else np.zeros((3, len(y)))
    normals = np.stack([np.ones_like(y), -slope_y, -slope_z], axis=1) * (1 if side else -1)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return np.stack([edges[number] + height, y, z], axis=1), normals, np.full(len(y), float(inner))


def _side(edges: np.ndarray, k: int, axis: int, side: int, density: float, rng: np.random.Generator) -> tuple:
    """The part of a long face (y or z at its least or largest) that lies between two cuts."""
    points = rng.random((int(density * SIZE[0] * SIZE[3 - axis]), 3)) * SIZE
    points[:, axis] = side * SIZE[axis]
    low, high = (edges[n] + (cut(n, *points[:, 1:].T)[0] if 0 < n < len(edges) - 1 else 0) for n in (k, k + 1))
    points = points[(points[:, 0] > low) & (points[:, 0] < high)]
    normals = np.zeros_like(points)
    normals[:, axis] = 2 * side - 1
    return points, normals, np.zeros(len(points))


def taken_apart(fragments: list[Fragment], seed: int = 0) -> tuple[Evidence, np.ndarray]:
    """The pieces in frames of their own, each turned at random, and the poses (N, 4, 4) that put them back."""
    apart, poses = _in_own_frames(fragments, seed)
    return Evidence.of(apart), poses


def finely_taken_apart(
    fragments: list[Fragment], most_points: int, seed: int = 0
) -> tuple[Evidence, Detail, np.ndarray]:
    """The same with evidence of at most so many points of a piece, and all of its points as detail."""
    apart, poses = _in_own_frames(fragments, seed)
    detail = Detail(tuple(f.points for f in apart), tuple(f.normals for f in apart))
    return Evidence.of(apart, most_points=most_points), detail, poses


def _in_own_frames(fragments: list[Fragment], seed: int) -> tuple[list[Fragment], np.ndarray]:
    rng = np.random.default_rng(seed)
    poses = np.stack([random_motion_of_size(rng, 180.0, 1.0) for _ in fragments])
    apart = [
        Fragment(act(np.linalg.inv(g), f.points), f.normals @ g[:3, :3], f.break_probability)
        for g, f in zip(poses, fragments, strict=True)
    ]
    return apart, poses


def disturbed(poses: np.ndarray, degrees: float, distance: float, seed: int = 0) -> np.ndarray:
    """Every piece (N, 4, 4) turned about its own assembled place and shifted."""
    rng = np.random.default_rng(seed)
    moved = poses.copy()
    for pose in moved:
        error = random_motion_of_size(rng, degrees, distance)
        pose[:3, :3] = error[:3, :3] @ pose[:3, :3]
        pose[:3, 3] += error[:3, 3]
    return moved


def errors(poses: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """The largest angle in degrees and distance between relative poses to the first piece and the true ones."""
    found, wanted = (np.linalg.inv(g[0]) @ g for g in (poses, true))
    turns = Rotation.from_matrix(found[:, :3, :3] @ wanted[:, :3, :3].swapaxes(1, 2)).magnitude()
    return float(np.rad2deg(turns.max())), float(np.linalg.norm(found[:, :3, 3] - wanted[:, :3, 3], axis=1).max())
