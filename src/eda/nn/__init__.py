"""The network f: layers, attention, blocks, and `EdaNetwork`, eq. (5)."""

from eda.nn.arrangements import Arrangements, Search
from eda.nn.config import NetworkConfig
from eda.nn.layers import Time
from eda.nn.matching import matching_loss
from eda.nn.motions import judging_loss
from eda.nn.network import EdaNetwork, Tokens
from eda.nn.pairs import Pairs

__all__ = [
    "Arrangements",
    "EdaNetwork",
    "NetworkConfig",
    "Pairs",
    "Search",
    "Time",
    "Tokens",
    "judging_loss",
    "matching_loss",
]
