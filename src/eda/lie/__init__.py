"""Rotations, rigid motions and the representations of rotations.

`so3` works on plain tensors of 3 x 3 matrices, `SE3` is the rigid motion that the rest of the package passes around,
`wigner` turns a rotation into the matrices that act on equivariant features, and `frames` turns edges into rotations.
"""

from eda.lie import so3
from eda.lie.se3 import SE3

__all__ = ["SE3", "so3"]
