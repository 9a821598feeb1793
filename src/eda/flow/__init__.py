"""The flow on SE(3)^N: noise, path, loss, solvers. It never sees the network, only `field(poses, tau)`."""

from eda.flow.noise import fit_noise_std, sample_noise
from eda.flow.path import Path, rotation_correction
from eda.flow.solver import SOLVERS, Progress, Trajectory, integrate
from eda.flow.times import TAU_SAMPLERS

__all__ = [
    "SOLVERS",
    "TAU_SAMPLERS",
    "Path",
    "Progress",
    "Trajectory",
    "fit_noise_std",
    "integrate",
    "rotation_correction",
    "sample_noise",
]
