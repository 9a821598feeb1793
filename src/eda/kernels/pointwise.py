"""Layers on single points by the compiled module, in one pass over memory. `eda.nn.layers` has the definitions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from eda.kernels.cpu import SUFFIX, lanes
from eda.native import library

# Fewer multiplications than this are done sooner than a second thread starts.
_WORK_PER_THREAD = 2_000_000
# A number that is only read and written takes as long as some multiplications.
_WORK_PER_NUMBER = 32


def can_multiply(features: Tensor, weight: Tensor, first_degree: int) -> bool:
    """Whether `product` can serve these."""
    fit = features.shape[1:] == ((len(weight) + first_degree) ** 2, weight.shape[1])
    return fit and _same_kind(features, weight) and _fills_registers(weight)


def product(features: Tensor, weight: Tensor, bias: Tensor | None, first_degree: int) -> Tensor:
    """features[:, row] @ weight[degree of row] for the rows from `first_degree` on, and a bias on the first."""
    features, weight = features.contiguous(), weight.contiguous()
    points, rows, inputs = features.shape
    outputs = weight.shape[2]
    out = features.new_empty(points, rows - first_degree**2, outputs)
    sizes = (points, rows, first_degree, inputs, outputs)
    pointers = (features.data_ptr(), weight.data_ptr(), None if bias is None else bias.data_ptr())
    return _called("eda_product", pointers, sizes, out.numel() * inputs, out)


def can_norm(features: Tensor, gain: Tensor) -> bool:
    """Whether `norm` can serve these."""
    points, rows, channels = features.shape
    fit = math.isqrt(rows) ** 2 == rows and gain.shape in [(channels,), (points, channels)]
    return fit and _same_kind(features, gain) and _fills_registers(gain)


def norm(features: Tensor, gain: Tensor) -> Tensor:
    """features (P, M, C) / sigma * gain, which is (P, C) or (C,)."""
    features, gain = features.contiguous(), gain.contiguous()
    out = torch.empty_like(features)
    sizes = (gain.shape[1] if gain.ndim == 2 else 0, *features.shape)
    return _called("eda_norm", (features.data_ptr(), gain.data_ptr()), sizes, _WORK_PER_NUMBER * out.numel(), out)


def can_gate(features: Tensor, toward: Tensor) -> bool:
    """Whether `gelu` can serve these."""
    points, rows, channels = features.shape
    fit = math.isqrt(rows) ** 2 == rows and toward.shape == (points, rows - 1, channels)
    return fit and _same_kind(features, toward) and _fills_registers(features)


def gelu(features: Tensor, toward: Tensor) -> Tensor:
    """F Phi(<F, unit(W F)>) of features (P, M, C) and W F (P, M - 1, C)."""
    features, toward = features.contiguous(), toward.contiguous()
    points, rows, channels = features.shape
    degrees = math.isqrt(rows)
    sizes, work = (points, rows, degrees, channels), _WORK_PER_NUMBER * features.numel()
    gates = features.new_empty(points, degrees, channels)
    _called("eda_projection", (features.data_ptr(), toward.data_ptr()), sizes, work, gates)
    gates, out = torch.special.ndtr(gates), torch.empty_like(features)
    return _called("eda_gate", (features.data_ptr(), gates.data_ptr()), sizes, work, out)


def _same_kind(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.device == b.device


def _fills_registers(tensor: Tensor) -> bool:
    return tensor.shape[-1] % lanes(tensor.dtype) == 0


def _called(name: str, pointers: tuple[int | None, ...], sizes: tuple[int, ...], work: int, out: Tensor) -> Tensor:
    """`out`, written by a compiled function."""
    threads = max(1, min(torch.get_num_threads(), work // _WORK_PER_THREAD))
    function = getattr(library(), f"{name}_{SUFFIX[out.dtype]}")
    if function(*pointers, *sizes, threads, out.data_ptr()):
        raise MemoryError(f"a layer on {len(out)} points ran out of memory")
    return out
