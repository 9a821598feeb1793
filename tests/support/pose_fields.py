"""For tests of pieces that follow arrangements: their ways and distances one by one, and what weighs arrangements."""

import itertools

import numpy as np
import torch
from scipy.spatial.transform import Rotation
from support.arrangements import pair_matrix, pairwise
from support.rigid_motions import transform_points
from support.soft_matches import model_of
from torch import nn

from eda import SE3
from eda.nn.pose_field import PoseField
from eda.registration.arrangements import Arrangements


def pieces_of(arrangements: Arrangements) -> list[range]:
    """The pieces of every puzzle."""
    begins = [0, *itertools.accumulate(arrangements.counts.tolist())]
    return [range(a, b) for a, b in itertools.pairwise(begins)]


def way_of(arrangements: Arrangements, poses: SE3, pieces: range, h: int) -> dict[int, np.ndarray]:
    """(w, u) of all pieces that are placed: scipy turns the whole into the mean of what they would turn it into."""
    here, there = poses.matrix().numpy(), arrangements.poses.matrix().numpy()[:, h]
    placed = [i for i in pieces if arrangements.placed[i, h]]
    turn = Rotation.from_matrix(np.stack([here[i, :3, :3] @ there[i, :3, :3].T for i in placed])).mean().as_matrix()
    now = {i: transform_points(here[i], arrangements.centers[i].numpy()) for i in placed}
    then = {i: turn @ transform_points(there[i], arrangements.centers[i].numpy()) for i in placed}
    middle = {name: np.mean(list(of.values()), axis=0) for name, of in (("now", now), ("then", then))}
    way = {}
    for i in placed:
        w = Rotation.from_matrix(turn @ there[i, :3, :3] @ here[i, :3, :3].T).as_rotvec()
        way[i] = np.concatenate([w, then[i] - middle["then"] - now[i] + middle["now"]])
    return way


def far_of(arrangements: Arrangements, poses: SE3, q: int, h: int) -> tuple[float, float]:
    """Of two pieces alone, each of which would go half of the way."""
    i, j = int(arrangements.first[q]), int(arrangements.second[q])
    here, there = poses.matrix().numpy()[[i, j]]
    *_, turned, moved = pairwise(pair_matrix(arrangements, q, h), here, there, arrangements.centers[[i, j]].numpy())
    return float(turned), float(moved)


@torch.no_grad()
def path_of(none: float | None = None, complementary: bool = False) -> PoseField:
    """With `none`, all arrangements weigh the same, and the rest that."""
    path = model_of(complementary=complementary).network.motions
    if none is not None:
        for weighing in (path.judge, path.beside) if complementary else (path.judge,):
            nn.init.zeros_(weighing[-1].weight)
            nn.init.zeros_(weighing[-1].bias)
        nn.init.constant_(path.none, none)
    return path
