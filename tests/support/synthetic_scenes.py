"""For tests of many scans: views of one room, and a registration that knows the answer, or is wrong on purpose."""

import itertools
from collections.abc import Callable

import numpy as np
from scipy.spatial.transform import Rotation
from support.pose_graphs import random_poses
from support.room_scans import room

from eda.assembly import Clouds
from eda.assembly.scenes import PairCache, PairJoint, Scene
from eda.registration.rigid import act, inverse


def views(count: int, radius: float, points: int = 14_000) -> list[np.ndarray]:
    """Discs of a room along a zigzag, in place, that share no point."""
    whole, rng = room(0, points), np.random.default_rng(0)
    owner = rng.integers(3, size=len(whole))
    middles = np.stack([np.linspace(0.6, 3.4, count), 1.5 + 0.7 * (-1.0) ** np.arange(count)], axis=1)
    near = [np.linalg.norm(whole[:, :2] - middle, axis=1) < radius for middle in middles]
    return [whole[near[k] & (owner == k % 3)] for k in range(count)]


def moved_anywhere(clouds: list[np.ndarray], seed: int = 1) -> tuple[list[np.ndarray], np.ndarray]:
    """Clouds turned and moved, and the motions (N, 4, 4) that bring them back."""
    motions = random_poses(len(clouds), np.random.default_rng(seed))
    return [act(motion, cloud) for motion, cloud in zip(motions, clouds, strict=True)], inverse(motions)


def small_scans(count: int) -> tuple[Clouds, np.ndarray]:
    """Little scans that nothing looks at, and the motions (N, 4, 4) that bring them to where they belong."""
    rng = np.random.default_rng(3)
    clouds = [rng.standard_normal((30, 3)) + rng.normal(0, 5, 3) for _ in range(count)]
    normals = [cloud / np.linalg.norm(cloud, axis=1, keepdims=True) for cloud in clouds]
    return Clouds.of(clouds, normals), random_poses(count, rng)


class KnownPairs:
    """Registers scans by the motions that they were made with; counts how often, and may stop."""

    def __init__(self, truth: np.ndarray, connects: Callable[[int, int], bool] = lambda i, j: True) -> None:
        self.truth, self.connects = truth, connects
        self.calls: list[tuple[int, int]] = []
        self.stop_at: int | None = None

    def __call__(self, i: int, j: int) -> tuple[PairJoint, ...]:
        if len(self.calls) == self.stop_at:
            raise KeyboardInterrupt
        self.calls.append((i, j))
        if not self.connects(i, j):
            return ()
        return (PairJoint(inverse(self.truth[j]) @ self.truth[i], 0.999),)


def scene_of(
    clouds: Clouds, register: KnownPairs, cache: PairCache, pins: dict[int, np.ndarray] | None = None
) -> Scene:
    return Scene(clouds, None, register, "settings", cache, pins or {})


def off(poses: np.ndarray, truth: np.ndarray, clouds: list[np.ndarray]) -> tuple[float, float]:
    """The largest turn in degrees, and shift at the middle of a cloud, of any pose relative to any other."""
    degrees, shifts = [], []
    for i, j in itertools.permutations(range(len(poses)), 2):
        wrong = inverse(inverse(truth[j]) @ truth[i]) @ inverse(poses[j]) @ poses[i]
        middle = clouds[i].mean(axis=0)[None]
        degrees.append(np.degrees(Rotation.from_matrix(wrong[:3, :3]).magnitude()))
        shifts.append(np.linalg.norm(act(wrong, middle) - middle))
    return float(max(degrees)), float(max(shifts))
