"""Recipes: a run is a function that returns its whole config.

Those of the paper need a GPU and its datasets (`eda prepare`); those that end in "-small" were made for a few hours
on a CPU and for data that `eda fracture` makes. Anything may be changed with `--set`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eda.data.augment import Augmentation
from eda.model import EdaConfig
from eda.nn import NetworkConfig
from eda.train import DataConfig, OptimizerConfig, TrainConfig, WatchConfig

# Sec. 6.1: AdamW 1e-4, EMA 0.99, batches of 16 puzzles. Scans have no normals that could be trusted.
_SCANS = NetworkConfig(normals="absent")
_CROPPED = Augmentation(keep=0.7)


def breaking_bad() -> TrainConfig:
    """The paper's everyday objects of Breaking Bad, 2 to 8 pieces, at most 2,500 points a piece."""
    data = DataConfig(points_per_batch=160_000)
    return TrainConfig(EdaConfig(NetworkConfig(), noise_std=0.4, num_points=10_000), OptimizerConfig(), data)


def threedmatch() -> TrainConfig:
    """The paper's 3DMatch and 3DLoMatch: pairs of indoor scans, cropped by chance."""
    data = DataConfig(points_per_batch=160_000, augmentation=_CROPPED)
    return TrainConfig(EdaConfig(_SCANS, noise_std=0.2, num_points=10_000), OptimizerConfig(), data)


def threedzeromatch() -> TrainConfig:
    """The paper's 3DZeroMatch: pairs of one room that do not overlap."""
    config = threedmatch()
    return replace(config, model=replace(config.model, noise_std=0.8))


def kitti3() -> TrainConfig:
    """The paper's KITTI with runs of 2 to 3 lidar views."""
    data = DataConfig(points_per_batch=160_000, max_pieces=(3,), augmentation=_CROPPED)
    return TrainConfig(EdaConfig(_SCANS, noise_std=0.8, num_points=15_000), OptimizerConfig(), data)


def kitti4() -> TrainConfig:
    """The paper's KITTI with runs of 2 to 4 lidar views."""
    config = kitti3()
    model, data = replace(config.model, num_points=20_000), replace(config.data, max_pieces=(4,))
    return replace(config, model=model, data=data)


def fracture_small() -> TrainConfig:
    """Fractures of 2 to 8 pieces on a CPU: a small network whose encoder runs once for several draws."""
    network = NetworkConfig(
        num_levels=3,
        num_blocks=2,
        num_neighbors=8,
        cross_neighbors=None,
        channels=32,
        time_in_encoder=False,
        break_head=True,
        spacing=0.08,
    )
    return TrainConfig(
        EdaConfig(network, noise_std=0.5, num_points=800),
        OptimizerConfig(steps=40_000, lr=2e-3, final_lr=0.02, warmup=500, weight_decay=0.01, ema=0.999),
        DataConfig(points_per_batch=6_400, draws=4, max_pieces=(2, 2, 4, 8)),
        WatchConfig(),
    )


RECIPES: dict[str, Callable[[], TrainConfig]] = {
    "breaking-bad": breaking_bad,
    "3dmatch": threedmatch,
    "3dzeromatch": threedzeromatch,
    "kitti-3": kitti3,
    "kitti-4": kitti4,
    "fracture-small": fracture_small,
}
