"""The distributions of tau in training, by name."""

from collections.abc import Callable

import torch
from torch import Tensor


def uniform(count: int, generator: torch.Generator | None = None) -> Tensor:
    """tau ~ U[0, 1]. -> (count,)."""
    return torch.rand(count, generator=generator, device=generator.device if generator else None)


def logit_normal(count: int, generator: torch.Generator | None = None) -> Tensor:
    """tau = sigmoid(z), z ~ N(0, 1): more of the middle of the path, as in the paper (Sec. 6.1). -> (count,)."""
    return torch.sigmoid(torch.randn(count, generator=generator, device=generator.device if generator else None))


def start(count: int, generator: torch.Generator | None = None) -> Tensor:
    """tau = 0: noise alone, so that what is learned is a regression of poses in one step. -> (count,)."""
    return torch.zeros(count, device=generator.device if generator else None)


TAU_SAMPLERS: dict[str, Callable[[int, torch.Generator | None], Tensor]] = {
    "logit_normal": logit_normal,
    "uniform": uniform,
    "start": start,
}
