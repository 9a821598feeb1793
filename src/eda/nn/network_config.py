"""What a network is made of. The defaults are the paper's (Sec. 6.1); what it leaves open is marked `ours`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from eda.errors import InputError
from eda.settings import check_choice, check_positive, check_switch, check_whole

Normals = Literal["oriented", "unoriented", "absent"]
# Which places of two pieces correspond: those that show the same surface, or those that fit, as along a break.
MatchingKind = Literal["overlap", "complementary"]
# How correspondences become velocities: by a search over arrangements, or by synchronising soft fits of pairs.
PoseFieldKind = Literal["search", "synchronising"]


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
    match_width: int = 0  # ours: width of the network that finds correspondences between pieces; 0: there is none
    match_level: int = 1  # ours: the level of the encoder whose points are matched
    match_layers: int = 3  # ours: rounds of attention inside the own piece and across pieces
    matching: MatchingKind = "overlap"  # ours: which places of two pieces correspond
    pose_field: PoseFieldKind = "search"  # ours: what follows from correspondences
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
        check_whole("match_width (a multiple of 4, or 0 for none)", self.match_width, 0, 8192)
        check_whole("match_level", self.match_level, 1, 16)
        check_whole("match_layers", self.match_layers, 0, 64)
        check_switch("time_in_encoder", self.time_in_encoder)
        check_switch("break_head", self.break_head)
        check_switch("free_network", self.free_network)
        check_positive("ratio", self.ratio)
        check_positive("spacing", self.spacing)
        check_choice("normals", self.normals, get_args(Normals))
        check_choice("matching", self.matching, get_args(MatchingKind))
        check_choice("pose_field", self.pose_field, get_args(PoseFieldKind))
        if self.ratio >= 1:
            raise InputError(f"ratio must be below 1, got {self.ratio}")
        if self.channels % self.num_heads:
            raise InputError(f"{self.channels} channels do not split into {self.num_heads} heads")
        if self.match_width % 4:
            raise InputError(f"a match_width of {self.match_width} does not split into 4 heads")
        if self.match_width and self.match_level > self.num_levels:
            raise InputError(f"match_level is {self.match_level}, but there are {self.num_levels} levels")
        if self.match_width and self.time_in_encoder:
            raise InputError("places are matched once for all times: match_width needs time_in_encoder=False")
        if self.is_complementary and self.normals == "unoriented":
            raise InputError('complementary places face each other: matching="complementary" needs outward normals')
        if self.normals == "unoriented" and self.max_degree < 2:
            raise InputError("unoriented normals live in degree 2: max_degree must be at least 2")

    @property
    def normal_degrees(self) -> range:
        """The degrees in which a normal may be seen: the even ones do not change when it is flipped."""
        return range(
            0, self.max_degree + 1, {"oriented": 1, "unoriented": 2, "absent": self.max_degree + 1}[self.normals]
        )

    @property
    def is_complementary(self) -> bool:
        """Whether places match that fit each other, not those that show the same surface."""
        return self.matching == "complementary"

    @property
    def without_matches(self) -> NetworkConfig:
        """The same network without the path that matches places."""
        of_matches = [f for f in fields(self) if f.name.startswith("match") or f.name == "pose_field"]
        defaults: dict[str, Any] = {f.name: f.default for f in of_matches}
        return replace(self, **defaults)

    def reach(self, level: int) -> float:
        """The unit of length of edges at a level: the points' distance grows as their number shrinks on a surface."""
        return self.spacing * self.ratio ** (-level / 2)


def upgrade_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a network that an older Eda may have written, in the words of this one. Raises `InputError`."""
    current = dict(settings)
    gone = {name: current.pop(name) for name in ("pair_width", "pair_level", "pair_layers") if name in current}
    if gone.get("pair_width", 0):
        raise InputError(
            f"pair_width is {gone['pair_width']!r}, but Eda has no network of pairs of pieces any more: train a model "
            "without it (match_width does what it was for), or use the Eda that wrote this one"
        )
    if "match_mates" in current:
        fits = current.pop("match_mates")
        check_switch("match_mates", fits)
        current.setdefault("matching", "complementary" if fits else "overlap")
    return current
