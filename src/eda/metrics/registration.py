"""Registration of two scans, as 3DMatch measures it: recall, and the errors of those that succeed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from eda.lie import SE3, so3

# Metres: the benchmark's bound on the RMSE of true correspondences, and how near points of two scans must lie to be
# seen by both, one cell of the usual grid of 5 cm.
SUCCESS_RMSE, OVERLAP_RADIUS = 0.2, 0.05


@dataclass(frozen=True)
class PairErrors:
    """What became of one pair."""

    rmse: float  # of true correspondences
    degrees: float  # RRE
    distance: float  # RTE

    @property
    def succeeded(self) -> bool:
        """Whether the pair counts for the registration recall RR; RRE and RTE are means over those that do."""
        return self.rmse <= SUCCESS_RMSE


def pair_errors(
    predicted: SE3, solution: SE3, source: np.ndarray, target: np.ndarray, information: np.ndarray | None = None
) -> PairErrors:
    """Errors of float64 motions () that map a source cloud (n, 3) into the frame of a target cloud (m, 3), in metres.

    The RMSE is by the 6 x 6 information matrix of the pair (`gt.info`, in the source's frame) where there is one, else
    over the points of the source that the target saw too, and over all of them where the two do not overlap.
    """
    residual = solution.inverse() @ predicted
    source = np.asarray(source, dtype=np.float64)
    if information is not None:
        rmse = information_rmse(residual, information)
    else:
        seen = overlap_mask(solution.act(torch.from_numpy(source)).numpy(), target)
        points = torch.from_numpy(source[seen] if seen.any() else source)
        rmse = float((residual.act(points) - points).square().sum(dim=1).mean().sqrt())
    degrees = torch.rad2deg(so3.angle(predicted.rotation @ solution.rotation.mT))
    distance = torch.linalg.vector_norm(predicted.translation - solution.translation)
    return PairErrors(rmse, float(degrees), float(distance))


def overlap_mask(source: np.ndarray, target: np.ndarray, radius: float = OVERLAP_RADIUS) -> np.ndarray:
    """(n,) which points of a source, already in its place, have a point of the target within the radius."""
    distance, _ = cKDTree(target).query(source)
    return distance <= radius


def information_rmse(residual: SE3, information: np.ndarray) -> float:
    """The benchmark's estimate of the RMSE over true correspondences from their 6 x 6 information matrix.

    residual () is true^-1 predicted, a motion in the source's frame; x = (t, vector part of its unit quaternion) gives
    sqrt(x^T A x / A_00), since A_00 counts the correspondences. It is exact to first order in the angle.
    """
    quaternion = Rotation.from_matrix(residual.rotation.numpy()).as_quat()
    vector = quaternion[:3] * (1 if quaternion[3] >= 0 else -1)
    x = np.concatenate([residual.translation.numpy(), vector])
    return float(np.sqrt(x @ information @ x / information[0, 0]))
