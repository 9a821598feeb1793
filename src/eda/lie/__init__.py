"""Rotations, rigid motions and the representations of rotations.

`so3` works on tensors of 3 x 3 matrices. `SE3` is the rigid motion that the rest of the package uses. `wigner` computes
the matrices by which a rotation acts on equivariant features. `frames` gives every edge a rotation.
"""

from eda.lie import so3
from eda.lie.se3 import SE3

__all__ = ["SE3", "so3"]
