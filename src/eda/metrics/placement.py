"""Where every piece came to lie: the errors of the Breaking Bad benchmark and of those that follow it.

In: poses (N,) of pieces whose origins are their centroids, predicted and true, and the clouds of the pieces in their
own frames. These errors see a motion of the whole, so put the prediction into the frame of the truth first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from eda.lie import SE3

# A part is in place below this Chamfer distance, in the units of the data: Breaking Bad's objects are about 1 long.
PART_THRESHOLD = 0.01


def largest_piece(clouds: Sequence[np.ndarray]) -> int:
    """The anchor: the piece with most points, and the widest of those with as many."""
    return max(range(len(clouds)), key=lambda i: (len(clouds[i]), float(np.var(clouds[i], axis=0).sum())))


def align_on(predicted: SE3, solution: SE3, anchor: int) -> SE3:
    """The predicted assembly, moved as a whole so that one piece lies exactly where it should."""
    return solution[anchor] @ predicted[anchor].inverse() @ predicted


def euler_rmse(predicted: SE3, solution: SE3) -> np.ndarray:
    """RMSE(R) of every piece, in degrees: over the three Euler angles, R = Rx Ry Rz as in Jigsaw and its followers.

    It is what the benchmark prints and depends on the axes; the pairwise error does not.
    """
    ours, true = (
        Rotation.from_matrix(poses.rotation.detach().cpu().double().numpy()).as_euler("XYZ", degrees=True)
        for poses in (predicted, solution)
    )
    difference = np.abs(ours - true)
    return np.sqrt(np.square(np.minimum(difference, 360 - difference)).mean(axis=1))


def translation_rmse(predicted: SE3, solution: SE3) -> np.ndarray:
    """RMSE(T) of every piece: over the three coordinates, so a distance divided by sqrt 3."""
    difference = (predicted.translation - solution.translation).detach().cpu().double().numpy()
    return np.sqrt(np.square(difference).mean(axis=1))


def chamfer(first: np.ndarray, second: np.ndarray) -> float:
    """The sum of the two mean *squared* distances to the nearest point of the other cloud."""
    return _between(cKDTree(first), cKDTree(second))


def _between(first: cKDTree, second: cKDTree) -> float:
    return _mean_square(second, first.data) + _mean_square(first, second.data)


def part_accuracy(
    predicted: SE3, solution: SE3, clouds: Sequence[np.ndarray], is_placed: np.ndarray | None = None
) -> float:
    """PA: the share of pieces whose placed and true clouds have a Chamfer distance below 0.01.

    Pieces without a place, `is_placed` (N,) False, are not in place.
    """
    pairs = zip(move_clouds(clouds, predicted), move_clouds(clouds, solution), strict=True)
    in_place = np.array([chamfer(ours, true) < PART_THRESHOLD for ours, true in pairs])
    return float(np.mean(in_place if is_placed is None else in_place & is_placed))


def matched_part_accuracy(
    predicted: SE3, solution: SE3, clouds: Sequence[np.ndarray], is_placed: np.ndarray | None = None
) -> float:
    """PA of Rectified Point Flow: pieces may stand in for each other, as many as possible."""
    ours, true = ([cKDTree(cloud) for cloud in move_clouds(clouds, poses)] for poses in (predicted, solution))
    in_place = np.array([[_between(a, b) < PART_THRESHOLD for b in true] for a in ours])
    in_place = in_place if is_placed is None else in_place & is_placed[:, None]
    return float(in_place[linear_sum_assignment(in_place, maximize=True)].mean())


def pieces_in_place(
    predicted: SE3, solution: SE3, clouds: Sequence[np.ndarray], is_placed: np.ndarray, size: float
) -> np.ndarray:
    """(N,) the pieces in place when the assembly is laid onto the placed piece for which these are most.

    In place: a Chamfer distance below 0.01 in units of the puzzle's size. No anchor is singled out, and the threshold
    does not depend on the units of the data.
    """
    best = np.zeros(len(clouds), dtype=bool)
    trees = [cKDTree(cloud / size) for cloud in clouds]
    for anchor in np.flatnonzero(is_placed):
        off = solution.inverse() @ align_on(predicted, solution, int(anchor))  # in the frame of each piece
        off = SE3(off.rotation, off.translation / size)
        there, back = (move_clouds([tree.data for tree in trees], poses) for poses in (off, off.inverse()))
        errors = [_mean_square(tree, a) + _mean_square(tree, b) for tree, a, b in zip(trees, there, back, strict=True)]
        best = max(best, (np.array(errors) < PART_THRESHOLD) & is_placed, key=np.sum)
    return best


def _mean_square(tree: cKDTree, points: np.ndarray) -> float:
    return float(np.square(tree.query(points)[0]).mean())


def shape_chamfer(predicted: SE3, solution: SE3, clouds: Sequence[np.ndarray]) -> float:
    """CD: the Chamfer distance between the assembled whole and the true one; all points weigh the same."""
    return chamfer(np.concatenate(move_clouds(clouds, predicted)), np.concatenate(move_clouds(clouds, solution)))


def move_clouds(clouds: Sequence[np.ndarray], poses: SE3) -> list[np.ndarray]:
    """Every cloud moved by its pose, in float64."""
    rotation = poses.rotation.detach().cpu().double().numpy()
    translation = poses.translation.detach().cpu().double().numpy()
    return [cloud @ r.T + t for cloud, r, t in zip(clouds, rotation, translation, strict=True)]
