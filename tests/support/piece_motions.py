"""For tests of metrics: clouds of a few pieces, and motions that shift one or none of them."""

import numpy as np
import torch
from support.lumpy_shapes import lumpy_cloud

from eda import SE3


def shifted(motion: SE3, piece: int, *by: float) -> SE3:
    translation = motion.translation.clone()
    translation[piece] += torch.tensor(by, dtype=torch.float64)
    return SE3(motion.rotation, translation)


def still(count: int) -> SE3:
    return SE3.identity(count, dtype=torch.float64)


def blobs(count: int, size: int = 40) -> list[np.ndarray]:
    clouds = [lumpy_cloud(i, size + i)[0] for i in range(count)]
    return [cloud - cloud.mean(axis=0) for cloud in clouds]
