"""The network f: layers, attention, blocks, and `EdaNetwork`, eq. (5)."""

from eda.nn.correspondences import matching_loss
from eda.nn.layers import Time
from eda.nn.network import EdaNetwork, Paths, Relation, Tokens
from eda.nn.network_config import NetworkConfig, upgrade_settings
from eda.nn.pose_field import hypothesis_loss
from eda.nn.synchronising_field import arrangement_loss

__all__ = [
    "EdaNetwork",
    "NetworkConfig",
    "Paths",
    "Relation",
    "Time",
    "Tokens",
    "arrangement_loss",
    "hypothesis_loss",
    "matching_loss",
    "upgrade_settings",
]
