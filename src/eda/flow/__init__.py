"""The flow on SE(3)^N: noise, path, loss, solvers. It never sees the network, only `field(poses, tau)`."""

from eda.flow.noise import NOISES, Noise, fit_noise_std, register_noise, sample_noise
from eda.flow.path import Path, rotation_correction
from eda.flow.solver import SOLVERS, Progress, Solver, Table, Trajectory, integrate, register_solver
from eda.flow.times import TAU_SAMPLERS

__all__ = [
    "NOISES",
    "SOLVERS",
    "TAU_SAMPLERS",
    "Noise",
    "Path",
    "Progress",
    "Solver",
    "Table",
    "Trajectory",
    "fit_noise_std",
    "integrate",
    "register_noise",
    "register_solver",
    "rotation_correction",
    "sample_noise",
]
