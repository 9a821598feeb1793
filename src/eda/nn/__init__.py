"""The network f: layers, attention, blocks, and `EdaNetwork`, eq. (5)."""

from eda.nn.correspondences import matching_loss
from eda.nn.layers import Time
from eda.nn.network import EdaNetwork, Paths, Relation, Tokens
from eda.nn.network_config import NetworkConfig, upgrade_settings
from eda.nn.pose_field import hypothesis_loss
from eda.nn.synchronisation_loss import synchronisation_loss

__all__ = [
    "EdaNetwork",
    "NetworkConfig",
    "Paths",
    "Relation",
    "Time",
    "Tokens",
    "hypothesis_loss",
    "matching_loss",
    "synchronisation_loss",
    "upgrade_settings",
]
