"""Training: one loop, its config, its checkpoints, and its reports."""

from eda.train.config import DataConfig, OptimizerConfig, TrainConfig, WatchConfig, overridden
from eda.train.loop import Run, train
from eda.train.ranks import Ranks, join
from eda.train.watch import Watcher
from eda.train.writing import WriteError, is_disk_full, writing

__all__ = [
    "DataConfig",
    "OptimizerConfig",
    "Ranks",
    "Run",
    "TrainConfig",
    "WatchConfig",
    "Watcher",
    "WriteError",
    "is_disk_full",
    "join",
    "overridden",
    "train",
    "writing",
]
