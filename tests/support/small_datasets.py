"""For tests: small labelled puzzles made from a seed, datasets of them on disk, and a tiny run that learns from one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from support.lumpy_shapes import TINY_NETWORK, lumpy_cloud

from eda.data import OUTER, Dataset, Example, Plan, build

if TYPE_CHECKING:
    from eda.train import TrainConfig


def lumpy_example(seed: int = 0, num_pieces: int = 3, size: int = 40, *, normals: bool = True) -> Example:
    """Blobs side by side; the points of a piece that look along x lie on a break with the next piece."""
    clouds, directions, contact = [], [], []
    for piece in range(num_pieces):
        points, outward = lumpy_cloud(100 * seed + piece, size + 5 * piece)
        clouds.append(points + np.array([2.0 * piece, 0.3 * seed, 0.0]))
        directions.append(outward)
        contact.append(np.where(outward[:, 0] > 0.3, (piece + 1) % num_pieces, OUTER))
    return Example.from_clouds(f"lumps {seed}", clouds, directions if normals else None, contact)


def dataset_of(folder: Path, examples: Sequence[Example], shard_size: int = 4) -> Dataset:
    """A dataset of these examples, in this order."""
    plan = Plan(lambda item: [examples[item]], len(examples), {"made": "for a test"}, shard_size=shard_size)
    return build(plan, folder).dataset


def tiny_run(dataset: Path, *, steps: int = 20, **settings: object) -> TrainConfig:
    """A run on a dataset: a network as small as can be, two puzzles a batch; `settings` are of the optimiser."""
    from eda.model_config import EdaConfig
    from eda.train import DataConfig, OptimizerConfig, TrainConfig, WatchConfig

    network = replace(TINY_NETWORK, num_levels=1, max_degree=1, break_head=True)
    return TrainConfig(
        model=EdaConfig(network, noise_std=0.5, num_points=60),
        optimizer=OptimizerConfig(**{"steps": steps, "lr": 1e-3, "warmup": 3, **settings}),
        data=DataConfig(train=str(dataset), points_per_batch=120),
        watch=WatchConfig(log_every=1, checkpoint_every=3),
        seed=3,
    )


def command_of(config: TrainConfig) -> list[str]:
    """The words after `eda train` that lead to this config: a recipe of which every setting is changed."""

    def leaves(values: dict, prefix: str) -> Iterator[str]:
        for name, value in values.items():
            if isinstance(value, dict):
                yield from leaves(value, f"{prefix}{name}.")
            elif name not in ("train", "validation"):
                yield f"{prefix}{name}={value!r}"

    settings = [word for leaf in leaves(asdict(config), "") for word in ("--set", leaf)]
    return ["fracture-small", "--data", config.data.train, "--device", "cpu", *settings]
