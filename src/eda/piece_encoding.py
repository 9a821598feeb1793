"""Encoding: pieces as a network has encoded them, which does not depend on their poses.

All samples of an assembly share it, and the break head too: encoder, correspondences and hypotheses run once.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor, nn

from eda.graph import Pyramid
from eda.nn import EdaNetwork, Tokens
from eda.pieces import Pieces
from eda.registration.rigid_groups import PinnedPieces


class Encoding:
    """What is computed of some pieces, each part when it is first used. Make one with `Eda.encode`."""

    def __init__(
        self, network: nn.Module, pieces: Pieces, pyramid: Pyramid, merged: PinnedPieces | None = None
    ) -> None:
        self._network = network
        self.pieces = pieces  # those that are encoded: of pinned ones, the one that they make
        self.pyramid = pyramid
        self.merged = merged  # None: there are no pins

    @cached_property
    @torch.no_grad()
    def levels(self) -> list[Tensor]:
        """The features of every level, at tau = 1 if the encoder sees the time."""
        assert isinstance(self._network, EdaNetwork)
        return self._network.descend(self.pyramid, self.pieces.points.new_ones(self.pieces.num_puzzles))

    @cached_property
    @torch.no_grad()
    def tokens(self) -> Tokens | None:
        """What the flow starts from; None if the encoder sees the time, and so has to run for every tau, and of
        a network from outside, which encodes by itself."""
        network = self._network
        if not isinstance(network, EdaNetwork) or network.config.time_in_encoder or network.config.free_network:
            return None
        return network.encode(self.pyramid, None, levels=self.levels)
