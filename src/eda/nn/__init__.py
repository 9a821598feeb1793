"""The network f: layers, attention, blocks, and `EdaNetwork`, eq. (5)."""

from eda.nn.config import NetworkConfig
from eda.nn.layers import Time
from eda.nn.matching import matching_loss
from eda.nn.network import EdaNetwork, Tokens
from eda.nn.pairs import Pairs
from eda.nn.proposals import Motions

__all__ = ["EdaNetwork", "Motions", "NetworkConfig", "Pairs", "Time", "Tokens", "matching_loss"]
