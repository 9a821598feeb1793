"""An ordinary transformer, on invariants: places of pieces look at their own piece and at the others."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from eda.graph import Across


class Attention(nn.Module):
    """A layer: who may look at whom is a mask."""

    def __init__(self, width: int, num_heads: int = 4) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm, self.norm_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.look, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, places: Tensor, visible: Tensor) -> Tensor:
        """places (B, S, width), visible (B, S, S) -> (B, S, width). Who sees nobody hears nothing."""
        query, key, value = self.look(self.norm(places)).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        anyone = visible.any(-1, keepdim=True)
        seen = scaled_dot_product_attention(query, key, value, attn_mask=(visible | ~anyone)[:, None])
        places = places + self.output(seen.transpose(1, 2).flatten(2)) * anyone
        return places + self.feed(self.norm_feed(places))


def look_around(places: Tensor, across: Across, inside: Iterable[nn.Module], others: Iterable[nn.Module]) -> Tensor:
    """Places (T, width) that look at their own piece and at the other pieces, layer by layer. -> (T, width)."""
    same = ~across.foreign & across.present[:, None]
    puzzles = places[across.rows]
    for own, other in zip(inside, others, strict=True):
        puzzles = other(own(puzzles, same), across.foreign)
    return puzzles[across.present]
