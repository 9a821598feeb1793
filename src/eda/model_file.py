"""A model on disk: one safetensors file with the weights, and a header with the config and calibrations as JSON.

Nothing in a file is ever executed, and nothing here knows what the config means: `Eda.load` does.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from eda.atomic import write_atomically
from eda.errors import InputError
from eda.tensor_file import tensor_file_bytes, with_metadata

FILE_VERSION = 2  # 1: the config names no regime, and there are no calibrations

MAX_TENSORS = 100_000  # of a file: ten times as many as the largest network has
MIN_LIMIT = 1_000  # tensors that the config of any file may ask for before they are compared with the file


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds: the config as plain values, and the weights in float32, all of them finite."""

    path: Path
    version: int
    config: Any
    calibration: Any  # None: the file has none
    weights: dict[str, Tensor]

    def check_shapes(self, expected: Mapping[str, Tensor]) -> None:
        """Raises `InputError` unless the weights have exactly these names and shapes."""
        wanted = {name: tensor.shape for name, tensor in expected.items()}
        found = {name: tensor.shape for name, tensor in self.weights.items()}
        wrong = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        if wrong:
            raise InputError(
                f"{self.path}: weights and config do not belong together ({len(wrong)} differ, e.g. {wrong[0]})"
            )

    @contextmanager
    def limit_network(self) -> Iterator[None]:
        """While a network is built without memory: stop with an `InputError` once it is far larger than the file.

        So a small file cannot ask for much work. What is only a little too large is left to `check_shapes`.
        """
        most = max(MIN_LIMIT, 2 * len(self.weights))
        builder, names = threading.get_ident(), set[tuple[int, str]]()

        def count(module: nn.Module, name: str, weight: nn.Parameter | None) -> None:
            if weight is None or threading.get_ident() != builder:
                return
            names.add((id(module), name))
            if len(names) > most:
                raise InputError(
                    f"{self.path}: weights and config do not belong together: the config asks for more than "
                    f"{most:,} tensors, but there are {len(self.weights):,}"
                )

        handle = register_module_parameter_registration_hook(count)
        try:
            yield
        finally:
            handle.remove()


def write_model_file(
    path: Path,
    config: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    dtype: torch.dtype | None = None,
    calibration: Mapping[str, Any] | None = None,
) -> None:
    """Write the file as a whole or not at all; floating point weights in another precision, if one is given."""
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist")
    metadata = {"format": "eda", "version": str(FILE_VERSION), "config": json.dumps(config, sort_keys=True)}
    if calibration is not None:
        metadata["calibration"] = json.dumps(calibration, sort_keys=True)
    cast = {name: _cast(tensor.detach(), dtype) for name, tensor in weights.items()}
    _check_finite(cast, f"{path}: not saved")
    write_atomically(path, tensor_file_bytes(cast, metadata))


def read_model_file(path: Path) -> ModelFile:
    """Read a file written by `write_model_file`. Raises `InputError` for anything else, and for a damaged one."""
    metadata, weights = _read(path)
    header = _header_of(metadata, path)
    _check_finite(weights, f"{path}: not loaded")
    return ModelFile(path, header["version"], header["config"], header.get("calibration"), weights)


def read_header(path: Path) -> dict[str, Any]:
    """The entries of a model file's header as plain values: `version`, `config` and, if there is one, `calibration`."""
    return _header_of(_read(path, ())[0], path)


def rewrite_header(path: Path, entries: Mapping[str, Any]) -> None:
    """Set entries of a model file's header. The bytes of the weights stay the same."""
    metadata, _ = _read(path, ())
    _header_of(metadata, path)  # raises for what is not a model
    metadata |= {name: json.dumps(values, sort_keys=True) for name, values in entries.items()}
    write_atomically(path, with_metadata(path.read_bytes(), metadata))


def _read(path: Path, names: Collection[str] | None = None) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata of a safetensors file, and its tensors in float32: all of them, or those with some names."""
    if not path.is_file():
        raise InputError(f"{path}: {'a folder, not a model file' if path.is_dir() else 'no such model file'}")
    try:
        with safe_open(path, framework="pt") as file:
            stored = file.keys()
            if len(stored) > MAX_TENSORS:
                raise InputError(f"{path}: {len(stored):,} tensors, but a model file may have {MAX_TENSORS:,}")
            wanted = stored if names is None else names
            return file.metadata() or {}, {name: _cast(file.get_tensor(name), torch.float32) for name in wanted}
    except SafetensorError as error:
        raise InputError(f"{path}: not a model, or an incomplete one ({error}); fetch it again") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error})") from error


def _cast(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    """In another precision; counters and other whole numbers stay what they are."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _header_of(metadata: Mapping[str, str], path: Path) -> dict[str, Any]:
    if metadata.get("format") != "eda":
        raise InputError(f"{path}: a safetensors file, but not an Eda model")
    try:
        version = int(metadata["version"])
        header = {"version": version, "config": json.loads(metadata["config"])}
        if "calibration" in metadata:
            header["calibration"] = json.loads(metadata["calibration"])
    except (KeyError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: the header of this Eda model is damaged ({type(error).__name__}: {error})"
        ) from error
    if version < 1:
        raise InputError(f"{path}: the header of this Eda model is damaged (file version {version})")
    if version > FILE_VERSION:
        raise InputError(
            f"{path}: written by a newer Eda (file version {version}, this one reads up to {FILE_VERSION}); "
            f"upgrade eda-assembly"
        )
    return header


def _check_finite(weights: Mapping[str, Tensor], what: str) -> None:
    broken = [name for name, tensor in weights.items() if not tensor.isfinite().all()]
    if broken:
        raise InputError(f"{what}: weights with NaN or infinite entries, e.g. {broken[0]}")
