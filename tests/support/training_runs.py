"""For tests of training: runs in one process that nobody watches, and whether two of them end in the same bits."""

from pathlib import Path

import torch
from torch import Tensor

from eda.train import Ranks, Run, TrainConfig, Watcher, train

ALONE = Ranks(0, 1, torch.device("cpu"))


class Killed(BaseException):
    """Ends a run at once, as a kill does."""


def silent(config: TrainConfig) -> Watcher:
    return Watcher(config, None, lambda line: None)


def trained(config: TrainConfig, folder: Path, watcher: Watcher | None = None) -> Run:
    folder.mkdir(exist_ok=True)
    return train(config, folder, ALONE, watcher or silent(config))


def numbers(run: Run) -> list[Tensor]:
    """All that training changes: the weights, their average, the optimiser."""
    states = run.optimizer.state_dict()["state"]
    moments = [states[index][name] for index in sorted(states) for name in sorted(states[index])]
    return [*run.model.state_dict().values(), *run.average.state_dict().values(), *moments]


def assert_same_bits(a: Run, b: Run) -> None:
    assert (a.step, a.used) == (b.step, b.used)
    for x, y in zip(numbers(a), numbers(b), strict=True):
        assert torch.equal(x, y)
