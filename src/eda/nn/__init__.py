"""The network f: layers, attention, blocks, and `EdaNetwork`, eq. (5)."""

from eda.nn.arrangements import Arrangements
from eda.nn.config import NetworkConfig, upgraded_settings
from eda.nn.layers import Time
from eda.nn.matching import matching_loss
from eda.nn.motions import judging_loss
from eda.nn.network import EdaNetwork, Tokens

__all__ = [
    "Arrangements",
    "EdaNetwork",
    "NetworkConfig",
    "Time",
    "Tokens",
    "judging_loss",
    "matching_loss",
    "upgraded_settings",
]
