"""For tests of models on disk: files with any header, settings and weights."""

import dataclasses
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from support.lumpy_shapes import TINY

from eda import EdaConfig
from eda.model_file import FILE_VERSION

NAME = "model.safetensors"
WEIGHT = "network.head.output.weight"


def network(**options: object) -> EdaConfig:
    return dataclasses.replace(TINY, network=dataclasses.replace(TINY.network, **options))


def settings(**changes: object) -> dict:
    return {**dataclasses.asdict(TINY), **changes}


def network_settings(**changes: object) -> dict:
    return settings(network={**dataclasses.asdict(TINY.network), **changes})


def header(values: object = None, /, **changes: str) -> dict[str, str]:
    """The metadata of a good file, with other values in its config or other entries."""
    values = dataclasses.asdict(TINY) if values is None else values
    return {"format": "eda", "version": str(FILE_VERSION), "config": json.dumps(values), **changes}


def written(path: Path, weights: dict[str, torch.Tensor], metadata: dict[str, str] | None) -> Path:
    save_file(weights, path, metadata)
    return path
