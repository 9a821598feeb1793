"""The state of a run on disk: weights, their average, the optimiser and the step, in one safetensors file.

It is written atomically and the previous one is kept, so neither a kill nor a full disk loses the last good state.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialize
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from eda.atomic import write_atomically
from eda.errors import InputError

LAST, PREVIOUS = "state.safetensors", "state.before.safetensors"

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def save_state(
    folder: Path,
    model: nn.Module,
    average: AveragedModel,
    optimizer: torch.optim.Optimizer,
    progress: Mapping[str, int],
) -> None:
    """Write the state; `progress` holds the step and the number of batches used."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"average.{name}": tensor for name, tensor in average.state_dict().items()}
    for index, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": moments[name] for name in _MOMENTS}
    # Cloned, because safetensors refuses tensors that share memory.
    content = serialize({k: t.detach().cpu().clone().contiguous() for k, t in tensors.items()}, _header(progress))
    last = folder / LAST
    if last.is_file():
        os.replace(last, folder / PREVIOUS)
    write_atomically(last, content)


def _header(progress: Mapping[str, int]) -> dict[str, str]:
    return {"format": "eda-training", "progress": json.dumps(dict(progress))}


def load_state(
    folder: Path, model: nn.Module, average: AveragedModel, optimizer: torch.optim.Optimizer
) -> dict[str, int] | None:
    """Restore the last good state. Returns its progress, or None where nothing was saved yet."""
    files = [folder / name for name in (LAST, PREVIOUS) if (folder / name).is_file()]
    damaged: list[Path] = []
    for path in files:
        try:
            tensors, progress = _read(path)
        except (SafetensorError, OSError, KeyError, ValueError):
            damaged.append(path)
            continue
        _restore(path, tensors, model, average, optimizer)
        for file in damaged:
            file.unlink()  # or the next save would replace the good one by it
        return progress
    if files:
        raise InputError(f"{folder}: the saved state is damaged; delete {LAST} and {PREVIOUS} to start again")
    return None


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, int]]:
    with safe_open(path, framework="pt") as file:
        progress = json.loads((file.metadata() or {})["progress"])
        return {name: file.get_tensor(name) for name in file.keys()}, progress  # noqa: SIM118


def _restore(
    path: Path,
    tensors: Mapping[str, Tensor],
    model: nn.Module,
    average: AveragedModel,
    optimizer: torch.optim.Optimizer,
) -> None:
    try:
        model.load_state_dict(_under("model.", tensors))
        average.load_state_dict(_under("average.", tensors))
    except RuntimeError as error:
        raise InputError(f"{path}: belongs to a network of another shape; choose another folder") from error
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _under("optimizer.", tensors).items():
        index, moment = name.split(".")
        moments.setdefault(int(index), {})[moment] = tensor
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
