"""What a network is made of. The defaults are the paper's (Sec. 6.1); what it leaves open is marked `ours`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from eda.errors import InputError
from eda.settings import check_choice, check_positive, check_switch, check_whole

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
    break_head: bool = False  # ours: also say which points lie on a break surface
    pair_width: int = 0  # ours: width of the network that matches pieces by invariants; 0: there is none
    pair_level: int = 1  # ours: the level of the encoder whose points it matches
    pair_layers: int = 2  # ours: times that these look at their own piece and at the others
    match_width: int = 0  # ours: width of the network that finds places which two pieces share; 0: there is none
    match_level: int = 1  # ours: the level of the encoder whose points are these places
    match_layers: int = 3  # ours: times that these look at their own piece and at the others
    match_mates: bool = False  # ours: places match that fit each other, as along a break, not those that look alike
    spacing: float = 0.03  # ours: typical distance of points at the finest level, in units of the puzzle's size
    free_network: bool = False  # ablation (e): D_K of edge attention is replaced by a map that breaks equivariance

    def __post_init__(self) -> None:
        check_whole("num_levels", self.num_levels, 1, 16)
        check_whole("num_blocks", self.num_blocks, 1, 256)
        check_whole("num_neighbors", self.num_neighbors, 1, 4096)
        if self.cross_neighbors is not None:
            check_whole("cross_neighbors (or None for all)", self.cross_neighbors, 1, 4096)
        check_whole("max_degree", self.max_degree, 1, 12)  # at least 1: the output is a vector
        check_whole("channels", self.channels, 1, 8192)
        check_whole("num_heads", self.num_heads, 1, 8192)
        check_whole("expansion", self.expansion, 1, 64)
        check_whole("num_knots", self.num_knots, 4, 4096)  # at least 4: a cubic spline
        check_whole("pair_width (a multiple of 4, or 0 for none)", self.pair_width, 0, 8192)
        check_whole("pair_level", self.pair_level, 1, 16)
        check_whole("pair_layers", self.pair_layers, 0, 64)
        check_whole("match_width (a multiple of 4, or 0 for none)", self.match_width, 0, 8192)
        check_whole("match_level", self.match_level, 1, 16)
        check_whole("match_layers", self.match_layers, 0, 64)
        check_switch("time_in_encoder", self.time_in_encoder)
        check_switch("break_head", self.break_head)
        check_switch("match_mates", self.match_mates)
        check_switch("free_network", self.free_network)
        check_positive("ratio", self.ratio)
        check_positive("spacing", self.spacing)
        check_choice("normals", self.normals, get_args(Normals))
        if self.ratio >= 1:
            raise InputError(f"ratio must be below 1, got {self.ratio}")
        if self.channels % self.num_heads:
            raise InputError(f"{self.channels} channels do not split into {self.num_heads} heads")
        for part in ("pair", "match"):
            width, level = getattr(self, f"{part}_width"), getattr(self, f"{part}_level")
            if width % 4:
                raise InputError(f"a {part}_width of {width} does not split into 4 heads")
            if width and level > self.num_levels:
                raise InputError(f"{part}_level is {level}, but there are {self.num_levels} levels")
        if self.match_width and self.time_in_encoder:
            raise InputError("places are matched once for all times: match_width needs time_in_encoder=False")
        if self.match_mates and self.normals == "unoriented":
            raise InputError("places that fit each other face each other: match_mates needs normals that point outward")
        if self.normals == "unoriented" and self.max_degree < 2:
            raise InputError("unoriented normals live in degree 2: max_degree must be at least 2")

    @property
    def normal_degrees(self) -> range:
        """The degrees in which a normal may be seen: the even ones do not change when it is flipped."""
        return range(
            0, self.max_degree + 1, {"oriented": 1, "unoriented": 2, "absent": self.max_degree + 1}[self.normals]
        )

    @property
    def without_pairs(self) -> NetworkConfig:
        """The same network without the path between pairs."""
        return self._without("pair_")

    @property
    def without_matches(self) -> NetworkConfig:
        """The same network without the path that matches places."""
        return self._without("match_")

    def _without(self, path: str) -> NetworkConfig:
        defaults: dict[str, Any] = {f.name: f.default for f in fields(self) if f.name.startswith(path)}
        return replace(self, **defaults)

    def reach(self, level: int) -> float:
        """The unit of length of edges at a level: the points' distance grows as their number shrinks on a surface."""
        return self.spacing * self.ratio ** (-level / 2)
