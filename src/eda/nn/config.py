"""What a network is made of. The defaults are the paper's (Sec. 6.1); what it leaves open is marked `ours`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from eda.errors import InputError

Normals = Literal["oriented", "unoriented", "absent"]


@dataclass(frozen=True)
class NetworkConfig:
    """A network's shape; two networks with equal configs have weights of equal shapes."""

    num_levels: int = 4  # downsampling layers
    ratio: float = 0.25  # of points that a downsampling layer keeps
    num_blocks: int = 2  # Croco blocks
    num_neighbors: int = 10  # k inside a piece
    cross_neighbors: int | None = 10  # k across pieces; None: all points of the other pieces
    max_degree: int = 2  # l_max
    channels: int = 64  # d
    num_heads: int = 4
    time_in_encoder: bool = True  # the paper's; False: the encoder does not see tau and runs once per puzzle (ours)
    normals: Normals = "oriented"  # ours: the paper does not say what the input features are
    expansion: int = 2  # ours: hidden channels of a feed-forward layer, in multiples of `channels`
    num_knots: int = 16  # ours: control values of a radial function
    spacing: float = 0.03  # ours: typical distance of points at the finest level, in units of the puzzle's size

    def __post_init__(self) -> None:
        for name in ("num_levels", "num_blocks", "num_neighbors", "channels", "num_heads", "expansion"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.cross_neighbors is not None and self.cross_neighbors < 1:
            raise InputError(f"cross_neighbors must be at least 1, or None for all, got {self.cross_neighbors}")
        if not 0 < self.ratio < 1:
            raise InputError(f"ratio must lie between 0 and 1, got {self.ratio}")
        if self.max_degree < 1:
            raise InputError(f"max_degree must be at least 1 (the output is a vector), got {self.max_degree}")
        if self.channels % self.num_heads:
            raise InputError(f"{self.channels} channels do not split into {self.num_heads} heads")
        if self.num_knots < 4:
            raise InputError(f"a cubic spline needs at least 4 knots, got {self.num_knots}")
        if not self.spacing > 0:
            raise InputError(f"spacing must be positive, got {self.spacing}")
        if self.normals not in get_args(Normals):
            raise InputError(f"normals must be one of {get_args(Normals)}, got {self.normals!r}")
        if self.normals == "unoriented" and self.max_degree < 2:
            raise InputError("unoriented normals live in degree 2: max_degree must be at least 2")

    def reach(self, level: int) -> float:
        """The unit of length of edges at a level: the points' distance grows as their number shrinks on a surface."""
        return self.spacing * self.ratio ** (-level / 2)
