"""Recipes: a training run is a function that returns its whole config.

The paper's recipes need a GPU and its datasets (`eda prepare`). Those that end in "-small" take a few hours on a CPU,
on data that `eda fracture` and `eda rooms` make. Every setting can be changed with `--set`.

Sec. 6.1 of the paper gives the network, AdamW at 1e-4, the average at 0.99, the logit-normal tau, and no more. What a
recipe adds to that is ours:

| addition | where | in the paper's recipes | in the small ones | why |
|---|---|---|---|---|
| number of steps | `optimizer.steps` | 200,000 | 2,000 to 4,000 | the paper has "at most 5 days" on 3 A100 |
| linear warm-up | `optimizer.warmup` | 1,000 steps | 100 steps | the first steps of AdamW are large |
| cosine decay | `optimizer.final_lr` | down to 0 | down to 2 % | the end of a short run is less noisy |
| learning rate | `optimizer.lr` | 1e-4, the paper's | 3e-3, ablation 8e-3 | small networks, short runs |
| average of the weights | `optimizer.ema` | 0.99, the paper's | 0.995, ablation 0.99 | a shorter run averages more |
| weight decay | `optimizer.weight_decay` | 0.01 | 0.01, ablation 0 | AdamW's default in torch |
| gradient clipping | `optimizer.clip` | norm 1 | norm 1 | rare batches have large gradients |
| batch size | `data.points_per_batch` | 160,000 points, 8 to 16 puzzles | 4 to 8 puzzles | not in the paper |
| points per puzzle | `model.num_points` | 10,000 to 20,000 | 200 to 1,600 | not in the paper |
| spread of the noise | `model.noise_std` | 0.2 to 0.8 | 0.5 and 0.64 | omega is not in the paper |
| normals | `network.normals` | outward; none on scans | outward; of unknown sign on scans | not in the paper |
| random crops | `data.augmentation.keep` | scans: keep 70 % | scans: keep 65 % | few scans, any overlap |
| mirrors, noise, tilt | `data.augmentation` | none | scans only | few scans |
| several draws per encoding | `data.draws` | 1 | 4, ablation 8 | the encoder is most of the cost |
| encoder without time | `network.time_in_encoder` | with time, the paper's | without | one encoding per puzzle |
| uniform tau | `model.tau_sampler` | logit-normal, the paper's | uniform; ablation the paper's | more of both ends |
| points a piece | `model.points_per_piece` | none | fractures 350 | many pieces have many joints |
| points near breaks | `model.focus` | none | fractures | a break is a small part of a surface |
| correspondences, breaks | `network.match_width`, `break_head` | none | yes | see docs/paper.md |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eda.data.augment import Augmentation
from eda.model_config import EdaConfig
from eda.nn import NetworkConfig
from eda.registry import register
from eda.train import DataConfig, OptimizerConfig, TrainConfig, WatchConfig

# The defaults of the configs are the paper's (Sec. 6.1). The normals of scans have no reliable sign.
_SCANS = NetworkConfig(normals="absent")
_CROPPED = Augmentation(keep=0.7)

# A network small enough to overfit a handful of pairs in a minute.
_ABLATION = NetworkConfig(
    num_levels=2,
    num_blocks=2,
    num_neighbors=6,
    cross_neighbors=None,
    channels=16,
    time_in_encoder=False,
    spacing=0.12,
)


def breaking_bad() -> TrainConfig:
    """The paper's Breaking Bad: everyday objects in 2 to 8 pieces."""
    data = DataConfig(points_per_batch=160_000)
    return TrainConfig(
        EdaConfig(NetworkConfig(), noise_std=0.4, num_points=10_000, regime="fracture"), OptimizerConfig(), data
    )


def threedmatch() -> TrainConfig:
    """The paper's 3DMatch and 3DLoMatch: pairs of indoor scans, randomly cropped."""
    data = DataConfig(points_per_batch=160_000, augmentation=_CROPPED)
    return TrainConfig(EdaConfig(_SCANS, noise_std=0.2, num_points=10_000, regime="scan"), OptimizerConfig(), data)


def threedzeromatch() -> TrainConfig:
    """The paper's 3DZeroMatch: pairs of scans of one room that do not overlap."""
    config = threedmatch()
    return replace(config, model=replace(config.model, noise_std=0.8))


def kitti3() -> TrainConfig:
    """The paper's Eda-3 on KITTI: sequences of 2 to 3 lidar scans."""
    data = DataConfig(points_per_batch=160_000, max_pieces=(3,), augmentation=_CROPPED)
    return TrainConfig(EdaConfig(_SCANS, noise_std=0.8, num_points=15_000, regime="scan"), OptimizerConfig(), data)


def kitti4() -> TrainConfig:
    """The paper's Eda-4 on KITTI: sequences of 2 to 4 lidar scans."""
    config = kitti3()
    model, data = replace(config.model, num_points=20_000), replace(config.data, max_pieces=(4,))
    return replace(config, model=model, data=data)


def fracture_small() -> TrainConfig:
    """Fractures in 2 to 8 pieces, on a CPU in hours; with break surfaces and correspondences."""
    network = NetworkConfig(
        num_levels=2,
        num_blocks=1,
        num_neighbors=24,
        cross_neighbors=10,
        channels=32,
        time_in_encoder=False,
        break_head=True,
        match_width=64,
        matching="complementary",
        pose_field="synchronising",
        spacing=0.057,
    )
    return TrainConfig(
        EdaConfig(
            network,
            noise_std=0.5,
            tau_sampler="uniform",
            num_points=1600,
            points_per_piece=350,
            focus=True,
            regime="fracture",
        ),
        OptimizerConfig(steps=4_000, lr=3e-3, final_lr=0.02, warmup=100, weight_decay=0.01, ema=0.995),
        DataConfig(points_per_batch=12_800, draws=4, max_pieces=(8,)),
        WatchConfig(checkpoint_every=100),
    )


def scan_small() -> TrainConfig:
    """Pairs of indoor scans, on a CPU in hours; normals of unknown sign, heavy augmentation."""
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
    """All of Eda, to compare the other ablations with: overfits a few pairs in a minute on one core."""
    return TrainConfig(
        EdaConfig(_ABLATION, noise_std=0.5, num_points=200),
        OptimizerConfig(steps=2_000, lr=8e-3, final_lr=0.02, warmup=100, weight_decay=0.0, ema=0.99),
        DataConfig(points_per_batch=800, draws=8, max_pieces=(2,)),
        WatchConfig(validate_every=250, validation_puzzles=16, validation_steps=4),
    )


def _without(letters: str) -> TrainConfig:
    """The recipe `ablation` without some parts of the theory: r, h, e as in the paper (Sec. 6.4)."""
    config = ablation()
    network = replace(_ABLATION, free_network="e" in letters)
    model = replace(config.model, network=network, no_correction="r" in letters, body_twist="h" in letters)
    return replace(config, model=model)


def ablation_r() -> TrainConfig:
    """Eda-(r): without the rotation correction r*; the solution is turned at random instead."""
    return _without("r")


def ablation_rh() -> TrainConfig:
    """Eda-(r, h): also with the canonical path, whose twist is in the frame of the piece."""
    return _without("rh")


def ablation_re() -> TrainConfig:
    """Eda-(r, e): without r*, and with a network of as many weights that is not equivariant."""
    return _without("re")


def ablation_rhe() -> TrainConfig:
    """Eda-(r, h, e): none of the three."""
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


def register_recipe(name: str, recipe: Callable[[], TrainConfig]) -> None:
    """Give a recipe a name for `eda train`; the first line of its docstring is what `eda train list` shows.

    Raises `InputError` where the name is taken.
    """
    register(RECIPES, "recipe", name, recipe)
