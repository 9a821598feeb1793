"""The state of a run on disk: weights, their average, the optimiser and the step, in one safetensors file.

It is written atomically and the previous one is kept, so neither a kill nor a full disk loses the last good state. A
checksum of the whole file tells a damaged state from a good one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as deserialize
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from eda.atomic import write_atomically
from eda.errors import InputError
from eda.tensor_file import tensor_file_bytes
from eda.train.writing import writing

LAST, PREVIOUS = "state.safetensors", "state.before.safetensors"

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")

_FORMAT = "eda-training-2"
_FORMAT_WITHOUT_CHECKSUM = "eda-training"  # of states that an older Eda wrote; they are read as they are
_CHECKSUM = b'"checksum":"'
_ZEROS = b"0" * 2 * hashlib.sha256().digest_size  # in place of the checksum while it is computed


@dataclass(frozen=True)
class RestoredState:
    """What `load_state` found."""

    progress: dict[str, int]  # the step, and the number of batches used
    damaged: tuple[Path, ...]  # newer states that were passed over


def save_state(
    folder: Path,
    model: nn.Module,
    average: AveragedModel,
    optimizer: torch.optim.Optimizer,
    progress: Mapping[str, int],
) -> None:
    """Write the state; `progress` holds the step and the number of batches used. Raises `WriteError`."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"average.{name}": tensor for name, tensor in average.state_dict().items()}
    for index, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": moments[name] for name in _MOMENTS}
    header = {"format": _FORMAT, "progress": json.dumps(dict(progress), sort_keys=True), "checksum": _ZEROS.decode()}
    with writing(folder / LAST):
        write_atomically(folder / LAST, _with_checksum(tensor_file_bytes(tensors, header)), backup=folder / PREVIOUS)


def _with_checksum(content: bytes) -> bytes:
    """The file with its checksum in place of the zeros."""
    at, view = _checksum_place(content), memoryview(content)
    return b"".join([view[: at.start], _checksum(content, at), view[at.stop :]])


def _checksum_place(content: bytes) -> slice:
    """Where the checksum is in a file, between its quotes. Raises `ValueError` if there is none."""
    start = content.index(_CHECKSUM) + len(_CHECKSUM)
    return slice(start, start + len(_ZEROS))


def _checksum(content: bytes, at: slice) -> bytes:
    """The sha256 of a file in which the checksum itself, at this place, is zeros."""
    view = memoryview(content)
    digest = hashlib.sha256(view[: at.start])
    digest.update(_ZEROS)
    digest.update(view[at.stop :])
    return digest.hexdigest().encode()


def load_state(
    folder: Path, model: nn.Module, average: AveragedModel, optimizer: torch.optim.Optimizer
) -> RestoredState | None:
    """Restore the last good state. Returns None where nothing was saved yet."""
    files = [folder / name for name in (LAST, PREVIOUS) if (folder / name).is_file()]
    damaged: list[Path] = []
    for path in files:
        try:
            tensors, progress = _read(path)
        except (SafetensorError, OSError, KeyError, ValueError, TypeError, RecursionError):
            damaged.append(path)
            continue
        _restore(path, tensors, model, average, optimizer)
        return RestoredState(progress, tuple(damaged))
    if files:
        raise InputError(f"{folder}: the saved state is damaged; delete {LAST} and {PREVIOUS} to start again")
    return None


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, int]]:
    """The tensors and the progress of a state. Raises one of several errors for a file that is damaged."""
    content = path.read_bytes()
    header: dict[str, Any] = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    if header["format"] not in (_FORMAT, _FORMAT_WITHOUT_CHECKSUM):
        raise ValueError(f"not a state: {header['format']!r}")
    if header["format"] == _FORMAT:
        at = _checksum_place(content)
        if content[at] != _checksum(content, at):
            raise ValueError("not what was written")
    progress = json.loads(header["progress"])
    return deserialize(content), {name: int(progress[name]) for name in ("step", "used")}


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
