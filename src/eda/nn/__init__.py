"""The network f: layers, attention, blocks, and `EdaNetwork`, eq. (5)."""

from eda.nn.config import NetworkConfig
from eda.nn.layers import Time
from eda.nn.network import EdaNetwork, Tokens
from eda.nn.pairs import Pairs

__all__ = ["EdaNetwork", "NetworkConfig", "Pairs", "Time", "Tokens"]
