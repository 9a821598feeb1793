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
    return TrainConfig(
        EdaConfig(NetworkConfig(), noise_std=0.4, num_points=10_000, regime="fracture"), OptimizerConfig(), data
    )


def threedmatch() -> TrainConfig:
    """The paper's 3DMatch and 3DLoMatch: pairs of indoor scans, cropped by chance."""
    data = DataConfig(points_per_batch=160_000, augmentation=_CROPPED)
    return TrainConfig(EdaConfig(_SCANS, noise_std=0.2, num_points=10_000, regime="scan"), OptimizerConfig(), data)


def threedzeromatch() -> TrainConfig:
    """The paper's 3DZeroMatch: pairs of one room that do not overlap."""
    config = threedmatch()
    return replace(config, model=replace(config.model, noise_std=0.8))


def kitti3() -> TrainConfig:
    """The paper's KITTI with runs of 2 to 3 lidar views."""
    data = DataConfig(points_per_batch=160_000, max_pieces=(3,), augmentation=_CROPPED)
    return TrainConfig(EdaConfig(_SCANS, noise_std=0.8, num_points=15_000, regime="scan"), OptimizerConfig(), data)


def kitti4() -> TrainConfig:
    """The paper's KITTI with runs of 2 to 4 lidar views."""
    config = kitti3()
    model, data = replace(config.model, num_points=20_000), replace(config.data, max_pieces=(4,))
    return replace(config, model=model, data=data)


def fracture_small() -> TrainConfig:
    """Fractures of 2 to 8 pieces on a CPU: places that fit are matched, and arrangements that fit them are weighed."""
    network = NetworkConfig(
        num_levels=2,
        num_blocks=1,
        num_neighbors=24,
        cross_neighbors=10,
        channels=32,
        time_in_encoder=False,
        break_head=True,
        match_width=64,
        match_mates=True,
        spacing=0.057,
    )
    return TrainConfig(
        EdaConfig(network, noise_std=0.5, tau_sampler="uniform", boldness=16.0, num_points=1600, regime="fracture"),
        OptimizerConfig(steps=4_000, lr=3e-3, final_lr=0.02, warmup=100, weight_decay=0.01, ema=0.995),
        DataConfig(points_per_batch=12_800, draws=4, max_pieces=(8,)),
        WatchConfig(checkpoint_every=100),
    )


def scan_small() -> TrainConfig:
    """Pairs of indoor scans on a CPU, by normals of unknown sign; crops, mirror images and noise make many of few."""
    network = NetworkConfig(
        num_levels=2,
        num_blocks=2,
        num_neighbors=32,
        cross_neighbors=None,
        channels=32,
        time_in_encoder=False,
        normals="unoriented",
        match_width=64,
        spacing=0.07,
    )
    return TrainConfig(
        EdaConfig(network, noise_std=0.64, tau_sampler="uniform", boldness=6.0, num_points=1000, regime="scan"),
        OptimizerConfig(steps=3_600, lr=3e-3, final_lr=0.02, warmup=100, weight_decay=0.01, ema=0.995),
        DataConfig(
            points_per_batch=8_000, draws=4, augmentation=Augmentation(keep=0.65, mirror=0.5, noise=0.02, tilt=0.1)
        ),
        WatchConfig(checkpoint_every=100, validate_every=500, validation_puzzles=72),
    )


def ablation() -> TrainConfig:
    """Eda itself, for the ablation: a network that learns a handful of pairs by heart in a minute on one core."""
    network = NetworkConfig(
        num_levels=2,
        num_blocks=2,
        num_neighbors=6,
        cross_neighbors=None,
        channels=16,
        time_in_encoder=False,
        spacing=0.12,
    )
    return TrainConfig(
        EdaConfig(network, noise_std=0.5, num_points=200),
        OptimizerConfig(steps=2_000, lr=8e-3, final_lr=0.02, warmup=100, weight_decay=0.0, ema=0.99),
        DataConfig(points_per_batch=800, draws=8, max_pieces=(2,)),
        WatchConfig(validate_every=250, validation_puzzles=16, validation_steps=4),
    )


def _without(letters: str) -> TrainConfig:
    """The ablation's recipe with parts of the theory taken out: r, h, e as in the paper."""
    config = ablation()
    network = replace(config.model.network, free_network="e" in letters)
    model = replace(config.model, network=network, no_correction="r" in letters, body_twist="h" in letters)
    return replace(config, model=model)


def ablation_r() -> TrainConfig:
    """Eda-(r): paths end in the solution, turned at random, instead of the nearest turn r*."""
    return _without("r")


def ablation_rh() -> TrainConfig:
    """Eda-(r, h): and the network predicts the twist in the piece's own frame, which it cannot see."""
    return _without("rh")


def ablation_re() -> TrainConfig:
    """Eda-(r, e): a network with as many weights that is not equivariant."""
    return _without("re")


def ablation_rhe() -> TrainConfig:
    """Eda-(r, h, e): nothing of the theory."""
    return _without("rhe")


RECIPES: dict[str, Callable[[], TrainConfig]] = {
    "breaking-bad": breaking_bad,
    "3dmatch": threedmatch,
    "3dzeromatch": threedzeromatch,
    "kitti-3": kitti3,
    "kitti-4": kitti4,
    "fracture-small": fracture_small,
    "scan-small": scan_small,
    "ablation": ablation,
    "ablation-r": ablation_r,
    "ablation-rh": ablation_rh,
    "ablation-re": ablation_re,
    "ablation-rhe": ablation_rhe,
}
