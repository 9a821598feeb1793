"""The processes of a run: those that `torchrun` started, or this one alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from eda.settings import check_choice


@dataclass(frozen=True)
class Ranks:
    """This process among the processes of a run."""

    rank: int
    world: int
    device: torch.device

    def mean(self, values: Tensor) -> Tensor:
        """The mean over all processes."""
        if self.world == 1:
            return values
        total = values.clone()
        dist.all_reduce(total)
        return total / self.world

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process, so that all of them stop at the same step."""
        if self.world == 1:
            return flag
        return bool(self.mean(torch.tensor(float(flag), device=self.device)) > 0)


@contextmanager
def join(device: str | None = None) -> Iterator[Ranks]:
    """Join the group of processes that `torchrun` describes in the environment, if there is one."""
    world, local = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_RANK", "0"))
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    check_choice("device", kind, ("cpu", "cuda"))
    here = torch.device(kind, local) if kind == "cuda" else torch.device(kind)
    if world == 1:
        yield Ranks(0, 1, here)
        return
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    try:
        yield Ranks(dist.get_rank(), world, here)
    finally:
        dist.destroy_process_group()
