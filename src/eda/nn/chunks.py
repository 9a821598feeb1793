"""Large inputs, some rows at a time."""

from collections.abc import Callable

import torch
from torch import Tensor

# Rows at a time: the temporaries of a layer, several times as large as features, then stay in the cache.
CHUNK = 512


def in_chunks(layer: Callable[[slice], Tensor], rows: int) -> Tensor:
    """`layer` of all rows, which must not depend on each other; in pieces where no gradient needs the temporaries."""
    if torch.is_grad_enabled() or rows <= CHUNK:
        return layer(slice(0, rows))
    return torch.cat([layer(slice(start, start + CHUNK)) for start in range(0, rows, CHUNK)])
