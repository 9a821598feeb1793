"""When the compiled module may be used, and what its functions need to know about tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import torch
from torch import Tensor

from eda.errors import InputError
from eda.native import library

# The ending of a compiled function's name, by precision.
SUFFIX = {torch.float32: "f32", torch.float64: "f64"}

_allowed = True


@contextmanager
def reference_only() -> Iterator[None]:
    """Within this context all kernels run in plain torch: for comparisons."""
    global _allowed
    before, _allowed = _allowed, False
    try:
        yield
    finally:
        _allowed = before


def is_allowed() -> bool:
    """Whether the compiled module may be used at all: outside of `reference_only`."""
    return _allowed


def is_built_for(tensor: Tensor) -> bool:
    """Whether the compiled module exists and has functions for this device and precision."""
    return tensor.is_cpu and tensor.dtype in SUFFIX and tensor.layout == torch.strided and _is_built()


@torch.compiler.assume_constant_result
def _is_built() -> bool:
    return library() is not None


def has_memory(tensor: Tensor) -> bool:
    """Whether there is memory to read: fake tensors, and those of a compiler that traces, have none."""
    return type(tensor) in (Tensor, torch.nn.Parameter) and not torch.compiler.is_compiling()


def check_tensor(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Raise for a tensor that is not what compiled code takes it for: it would read and write beyond its memory."""
    if tensor.shape != shape or tensor.dtype != dtype or not tensor.is_cpu or tensor.layout != torch.strided:
        raise InputError(f"{name}: expected {tuple(shape)} of {dtype} on the CPU, got {describe(tensor)}")


def describe(tensor: Tensor) -> str:
    """Shape, precision and device of a tensor in words, for messages."""
    layout = "" if tensor.layout == torch.strided else f" ({tensor.layout})"
    return f"{tuple(tensor.shape)} of {tensor.dtype} on {tensor.device}{layout}"


def lanes(dtype: torch.dtype) -> int:
    """The number of channels that fill a register."""
    return _lanes(library(), dtype.itemsize)


@lru_cache(maxsize=4)
def _lanes(compiled: ctypes.CDLL, itemsize: int) -> int:
    return compiled.eda_lanes(itemsize)


def thread_count(work: int, work_per_thread: int) -> int:
    """The number of threads to use: starting one must cost less than its share of the work."""
    return max(1, min(torch.get_num_threads(), work // work_per_thread))
