"""Layers on single points by the compiled module, in one pass over memory. `eda.nn.layers` has the definitions."""

from __future__ import annotations

import torch
from torch import Tensor

from eda.kernels.cpu import SUFFIX, lanes
from eda.native import library

# Fewer multiplications than this are done sooner than a second thread starts.
_WORK_PER_THREAD = 2_000_000


def can_multiply(features: Tensor, weight: Tensor) -> bool:
    """Whether `product` can serve these."""
    fit = features.ndim == 3 and features.shape[2] == weight.shape[1]
    return fit and _same_kind(features, weight) and weight.shape[2] % lanes(features.dtype) == 0


def product(features: Tensor, weight: Tensor, bias: Tensor | None, first_degree: int) -> Tensor:
    """features[:, row] @ weight[degree of row] for the rows from `first_degree` on, and a bias on the first."""
    features, weight = features.contiguous(), weight.contiguous()
    points, rows, inputs = features.shape
    outputs = weight.shape[2]
    out = features.new_empty(points, rows - first_degree**2, outputs)
    call = getattr(library(), f"eda_product_{SUFFIX[features.dtype]}")
    failed = call(
        features.data_ptr(), weight.data_ptr(), None if bias is None else bias.data_ptr(),
        points, rows, first_degree, inputs, outputs, _threads(out.numel() * inputs), out.data_ptr(),
    )  # fmt: skip
    return _done(out, failed)


def can_norm(features: Tensor, gain: Tensor) -> bool:
    """Whether `norm` can serve these."""
    fit = features.ndim == 3 and gain.shape in [features.shape[2:], (len(features), features.shape[2])]
    return fit and _same_kind(features, gain) and gain.shape[-1] % lanes(features.dtype) == 0


def norm(features: Tensor, gain: Tensor) -> Tensor:
    """features (P, M, C) / sigma * gain, which is (P, C) or (C,)."""
    features, gain = features.contiguous(), gain.contiguous()
    out = torch.empty_like(features)
    call = getattr(library(), f"eda_norm_{SUFFIX[features.dtype]}")
    stride = gain.shape[1] if gain.ndim == 2 else 0
    threads = _threads(32 * out.numel())  # memory is slower than multiplications
    return _done(
        out, call(features.data_ptr(), gain.data_ptr(), stride, *features.shape, threads, out.data_ptr())
    )


def _same_kind(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.device == b.device


def _threads(work: int) -> int:
    return max(1, min(torch.get_num_threads(), work // _WORK_PER_THREAD))


def _done(out: Tensor, failed: int) -> Tensor:
    if failed:
        raise MemoryError(f"a layer on {len(out)} points ran out of memory")
    return out
