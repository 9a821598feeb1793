"""The equivariant attention layer, Appendix G: linear maps per node around the edge operator."""

import math

import torch
from torch import Tensor, nn

from eda.kernels import Edges, edge_attention, free_attention
from eda.nn.chunks import in_chunks
from eda.nn.layers import DegreeLinear


class EquivariantAttention(nn.Module):
    """Receivers attend to their neighbours. See `eda.kernels` for the algebra.

    W_Q and W_K of the paper appear only as the product W_Q W_K^T, so it is one map here, `query`. `value` mixes the
    senders' channels, so that each head, which owns some channels, sees all of them (`mix_senders=False` leaves it out
    where the channels are a mixture already); W_V is `output`. A `free` layer is not equivariant.
    """

    def __init__(
        self,
        max_degree: int,
        channels: int,
        num_heads: int,
        num_knots: int,
        *,
        mix_senders: bool = True,
        free: bool = False,
    ) -> None:
        super().__init__()
        degrees = max_degree + 1
        self.num_heads = num_heads
        self._edge_attention = free_attention if free else edge_attention
        # A logit sums (L+1) M C / H products; this gain keeps its standard deviation near 0.1 at the start, so that
        # attention begins almost uniform and does not magnify rounding.
        gain = 0.1 / math.sqrt(degrees**3 * channels / num_heads)
        self.query = DegreeLinear(max_degree, channels, degrees * channels, bias=False, gain=gain)
        self.value = DegreeLinear(max_degree, channels, channels) if mix_senders else nn.Identity()
        self.key_radial = nn.Parameter(_initial_radial(num_knots, max_degree, channels))
        self.value_radial = nn.Parameter(_initial_radial(num_knots, max_degree, channels))
        self.output = DegreeLinear(max_degree, degrees * channels, channels)

    def forward(self, receivers: Tensor, senders: Tensor, edges: Edges) -> Tensor:
        """receivers (U, M, C), senders (S, M, C) -> (U, M, C)."""
        values = self.value(senders)
        return in_chunks(lambda rows: self._attend(receivers[rows], values, edges[rows]), len(receivers))

    def _attend(self, receivers: Tensor, values: Tensor, edges: Edges) -> Tensor:
        queries = self.query(receivers).unflatten(-1, (-1, receivers.shape[-1]))
        message = self._edge_attention(values, queries, edges, self.key_radial, self.value_radial, self.num_heads)
        return self.output(message.flatten(-2))


def _initial_radial(num_knots: int, max_degree: int, channels: int) -> Tensor:
    """Control values (T, 2L+1, C) of random smooth functions of the length: variance one at every length."""
    rough = torch.randn(num_knots, 2 * max_degree + 1, channels)
    first, last = rough[:2].mean(0, keepdim=True), rough[-2:].mean(0, keepdim=True)
    smooth = torch.cat([first, rough.unfold(0, 3, 1).mean(-1), last])
    return smooth / smooth.std(dim=0, keepdim=True)
