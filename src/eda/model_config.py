"""EdaConfig: everything a model is, apart from its weights. It is what a model file carries in its header."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eda.errors import InputError
from eda.flow import NOISES, TAU_SAMPLERS
from eda.nn import NetworkConfig, upgrade_settings
from eda.nn.protocol import CustomNetwork
from eda.point_budget import PointBudget
from eda.regime import REGIMES, Regime
from eda.registry import look_up
from eda.settings import check_choice, check_positive, check_switch, check_whole


@dataclass(frozen=True)
class EdaConfig:
    """Everything a model is, apart from its weights."""

    network: NetworkConfig | CustomNetwork = field(default_factory=NetworkConfig)
    noise: str = "haar_gaussian"  # P_0, by its name in `eda.flow.NOISES`; the default is the paper's (Sec. 4.2)
    noise_std: float = 0.4  # sqrt(omega) of P_0 in units of the puzzle's size; `fit_noise_std` fits it to data
    tau_sampler: str = "logit_normal"
    translation_weight: float = 1.0  # 1: the paper's Frobenius norm
    break_weight: float = 0.3  # of the break head's cross-entropy, where the network has one
    match_weight: float = 1.0  # of the cross-entropy of matched places, where the network matches any
    judge_weight: float = 1.0  # of the cross-entropy of judged motions, where the network proposes any
    boldness: float = 1.0  # the inverse temperature at which arrangements are sampled (nn/pose_field.py)
    num_points: int = 5000  # of a puzzle in training, and so what a puzzle is best thinned to in use
    points_per_piece: int = 0  # at least so many for each piece of a puzzle
    focus: bool = False  # half of these points on and beside the breaks that the break head finds (eda/focus.py)
    no_correction: bool = False  # ablation (r): the path ends in r g~_1 with a random r instead of r*
    body_twist: bool = False  # ablation (h): what f predicts is meant in the piece's own frame, which it cannot see
    regime: Regime = "fracture"  # the kind of pieces that it is for

    def __post_init__(self) -> None:
        look_up(NOISES, "noise", self.noise)
        check_positive("noise_std", self.noise_std)
        check_choice("tau_sampler", self.tau_sampler, tuple(TAU_SAMPLERS))
        check_positive("translation_weight", self.translation_weight)
        check_positive("break_weight", self.break_weight)
        check_positive("match_weight", self.match_weight)
        check_positive("judge_weight", self.judge_weight)
        check_positive("boldness", self.boldness)
        check_whole("num_points", self.num_points, 1, 2**40)
        check_whole("points_per_piece", self.points_per_piece, 0, 2**40)
        check_switch("focus", self.focus)
        if self.focus and not (isinstance(self.network, NetworkConfig) and self.network.break_head):
            raise InputError("a focus needs breaks to be found: focus=True needs a network with break_head=True")
        check_switch("no_correction", self.no_correction)
        check_switch("body_twist", self.body_twist)
        check_choice("regime", self.regime, REGIMES)

    @property
    def budget(self) -> PointBudget:
        """To how many points a puzzle is thinned."""
        return PointBudget(self.num_points, self.points_per_piece)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> EdaConfig:
        """From plain values, as read from JSON. Raises `InputError` for a key that is not known."""
        settings = _only_fields(EdaConfig, values)
        network = settings.pop("network", {})
        kind = network_config_kind(network)
        if kind is NetworkConfig and isinstance(network, Mapping):
            network = upgrade_settings(network)
        return EdaConfig(network=kind(**_only_fields(kind, network)), **settings)


def network_config_kind(values: Any) -> type[NetworkConfig] | type[CustomNetwork]:
    """Which of the two configs of a network some plain values are: only that of a network from outside has a name."""
    return CustomNetwork if isinstance(values, Mapping) and "name" in values else NetworkConfig


def _only_fields(kind: type, values: Any) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise InputError(f"expected a table of settings for {kind.__name__}, got {type(values).__name__}")
    unknown = sorted(set(values) - {f.name for f in dataclasses.fields(kind)})
    if unknown:
        raise InputError(f"unknown settings {', '.join(map(repr, unknown))} for {kind.__name__}")
    return dict(values)
