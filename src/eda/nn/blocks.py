"""The two blocks of the network (Sec. 5): going down a level, and relating pieces."""

from torch import Tensor, nn

from eda.graph import Level
from eda.kernels import Edges
from eda.nn.attention import EquivariantAttention
from eda.nn.layers import AdaptiveNorm, EquivariantNorm, FeedForward, Time
from eda.nn.network_config import NetworkConfig


def _attention(config: NetworkConfig, *, mix_senders: bool = True) -> EquivariantAttention:
    return EquivariantAttention(
        config.max_degree,
        config.channels,
        config.num_heads,
        config.num_knots,
        mix_senders=mix_senders,
        free=config.free_network,
    )


def _feed_forward(config: NetworkConfig) -> FeedForward:
    return FeedForward(config.max_degree, config.channels, config.expansion)


class _AsIs(nn.Module):
    """In place of a norm, for features that have the same norm at every point."""

    def forward(self, features: Tensor, time: Time | None = None) -> Tensor:
        return features


class DownBlock(nn.Module):
    """Farthest points attend to the finer points around them, then to each other.

    The first block of a network sees the input features. Their norm is the same at all points and their channels are
    learned mixtures of the few input directions, so neither a norm nor a mixing of senders would add anything; at the
    finest level these would be a fifth of the network's work.
    """

    def __init__(self, config: NetworkConfig, *, first: bool) -> None:
        super().__init__()

        def norm() -> nn.Module:
            if config.time_in_encoder:
                return AdaptiveNorm(config.channels, config.channels)
            return EquivariantNorm(config.channels)

        self.norm_down, self.down = _AsIs() if first else norm(), _attention(config, mix_senders=not first)
        self.norm_within, self.within = norm(), _attention(config)
        self.norm_feed, self.feed = norm(), _feed_forward(config)

    def forward(
        self,
        fine: Tensor,
        level: Level,
        down: Edges,
        within: Edges,
        fine_time: Time | None,
        time: Time | None,
    ) -> Tensor:
        """Features of the level below (P, M, C) -> of this level (P', M, C)."""
        coarse = fine[level.parent]
        # The receivers are normed again: that is cheaper than to choose them twice and scatter two gradients.
        coarse = coarse + self.down(self.norm_down(coarse, time), self.norm_down(fine, fine_time), down)
        normed = self.norm_within(coarse, time)
        coarse = coarse + self.within(normed, normed, within)
        return coarse + self.feed(self.norm_feed(coarse, time))


class CrocoBlock(nn.Module):
    """Self-attention inside the pieces, cross-attention between them, feed-forward."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.norm_within, self.within = AdaptiveNorm(config.channels, config.channels), _attention(config)
        self.norm_across, self.across = AdaptiveNorm(config.channels, config.channels), _attention(config)
        self.norm_feed, self.feed = AdaptiveNorm(config.channels, config.channels), _feed_forward(config)

    def forward(self, features: Tensor, within: Edges, across: Edges, time: Time) -> Tensor:
        """(T, M, C) -> (T, M, C)."""
        return self.look_across(self.look_inside(features, within, time), across, time)

    def look_inside(self, features: Tensor, within: Edges, time: Time) -> Tensor:
        """Tokens attend to those of their own piece. (T, M, C) -> (T, M, C)."""
        normed = self.norm_within(features, time)
        return features + self.within(normed, normed, within)

    def look_across(self, features: Tensor, across: Edges, time: Time) -> Tensor:
        """Tokens attend to those of other pieces, and what they saw is digested. (T, M, C) -> (T, M, C)."""
        normed = self.norm_across(features, time)
        features = features + self.across(normed, normed, across)
        return features + self.feed(self.norm_feed(features, time))
