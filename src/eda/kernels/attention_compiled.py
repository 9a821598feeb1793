"""Edge attention by the compiled module, as a torch operator with its own backward.

`attention_reference` has the algebra.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from eda.errors import InputError
from eda.kernels.compiled import SUFFIX, check_tensor, describe, is_built_for, lanes, thread_count
from eda.lie.wigner import stretch_table
from eda.native import MISFIT, check_result, library

MAX_DEGREE = 3

# Fewer edges times channels than this are done sooner than a second thread starts.
_WORK_PER_THREAD = 20_000


def can_attend(features: Tensor) -> bool:
    """Whether the compiled module can serve these features (S, M, C)."""
    rows = features.shape[1]
    degree = math.isqrt(rows) - 1
    return 1 <= degree <= MAX_DEGREE and (degree + 1) ** 2 == rows and is_built_for(features)


@lru_cache(maxsize=8)
def _stretches(max_degree: int) -> np.ndarray:
    tables = [stretch_table(l).ravel() for l in range(1, max_degree)]
    return np.concatenate(tables) if tables else np.zeros(1)


def _call(name: str, inputs: list[Tensor], num_heads: int, channels: int, outputs: list[Tensor]) -> None:
    """Call a compiled function on contiguous tensors: the six inputs of the operator, then those it reads or writes."""
    features, queries, _, neighbors, key_radial, _ = inputs
    degree, padded = math.isqrt(features.shape[1]) - 1, features.shape[2]
    threads = thread_count(neighbors.numel() * padded, _WORK_PER_THREAD)
    stretch = _stretches(degree)
    result = getattr(library(), f"{name}_{SUFFIX[features.dtype]}")(
        *[tensor.data_ptr() for tensor in inputs],
        stretch.ctypes.data,
        len(queries), len(features), neighbors.shape[1], degree, channels, padded, num_heads, len(key_radial),
        threads,
        *[tensor.data_ptr() for tensor in outputs],
    )  # fmt: skip
    if result == MISFIT:
        raise InputError(
            f"neighbors: expected rows of {len(features)} senders, or -1 for none, got {int(neighbors.min())} to "
            f"{int(neighbors.max())}"
        )
    check_result(result, f"edge attention over {neighbors.numel()} edges")


def _check(
    features: Tensor, queries: Tensor, vectors: Tensor, neighbors: Tensor, key: Tensor, value: Tensor, num_heads: int
) -> None:
    """Raise for arguments that do not fit. Whether neighbours are senders is checked where they are read."""
    for name, tensor, axes in (("features", features, 3), ("neighbors", neighbors, 2), ("key_radial", key, 3)):
        if tensor.ndim != axes:
            raise InputError(f"{name}: expected {axes} axes, got {describe(tensor)}")
    if not can_attend(features):
        raise InputError(f"features: expected degrees 1 to {MAX_DEGREE} of floats on the CPU, got {describe(features)}")
    (senders, rows, channels), (receivers, k), dtype = features.shape, neighbors.shape, features.dtype
    degree = math.isqrt(rows) - 1
    table = (len(key), 2 * degree + 1, channels)
    check_tensor("features", features, (senders, rows, channels), dtype)
    check_tensor("queries", queries, (receivers, rows, degree + 1, channels), dtype)
    check_tensor("vectors", vectors, (receivers, k, 3), dtype)
    check_tensor("neighbors", neighbors, (receivers, k), torch.int64)
    check_tensor("key_radial", key, table, dtype)
    check_tensor("value_radial", value, table, dtype)
    if len(key) < 4 or not 1 <= num_heads <= channels or channels % num_heads:
        raise InputError(f"{len(key)} knots (at least 4) and {channels} channels in {num_heads} heads do not fit")


def _padding(channels: int, dtype: torch.dtype) -> int:
    """The number of channels to add to fill whole registers."""
    return -channels % lanes(dtype)


def forward(
    features: Tensor,
    queries: Tensor,
    vectors: Tensor,
    neighbors: Tensor,
    key_radial: Tensor,
    value_radial: Tensor,
    num_heads: int,
) -> tuple[Tensor, Tensor]:
    """`attention_reference.edge_attention` on the tensors of the edges. -> the output, and the attention (U, k, H).

    This is the bare function. `edge_attention` is the operator around it, which autograd and torch.compile can see.
    """
    _check(features, queries, vectors, neighbors, key_radial, value_radial, num_heads)
    channels = features.shape[2]
    padding = _padding(channels, features.dtype)
    inputs = _padded_inputs(features, queries, vectors, neighbors, key_radial, value_radial, padding)
    out = torch.empty_like(inputs[1])
    attention = features.new_empty(*neighbors.shape, num_heads)
    _call("eda_attention_forward", inputs, num_heads, channels, [out, attention])
    return out[..., :channels].contiguous(), attention


edge_attention = torch.library.custom_op("eda::edge_attention", forward, mutates_args=())


def _padded_inputs(
    features: Tensor,
    queries: Tensor,
    vectors: Tensor,
    neighbors: Tensor,
    key: Tensor,
    value: Tensor,
    padding: int,
) -> list[Tensor]:
    wide = [F.pad(tensor, (0, padding)) if padding else tensor for tensor in (features, queries, key, value)]
    return [t.contiguous() for t in (wide[0], wide[1], vectors, neighbors, wide[2], wide[3])]


def _check_devices(*tensors: Tensor) -> None:
    """Raise where tensors without memory are mixed with others: torch would return memory that nobody has written."""
    if len({tensor.device for tensor in tensors}) > 1:
        raise InputError(f"tensors on one device expected, got {', '.join(describe(tensor) for tensor in tensors)}")


@edge_attention.register_fake
def _(features: Tensor, queries: Tensor, vectors: Tensor, neighbors: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    *tables, num_heads = rest
    _check_devices(features, queries, vectors, neighbors, *tables)
    return queries.new_empty(queries.shape), features.new_empty(*neighbors.shape, num_heads)


@torch.library.custom_op("eda::edge_attention_backward", mutates_args=())
def edge_attention_backward(
    gradient: Tensor,
    attention: Tensor,
    features: Tensor,
    queries: Tensor,
    vectors: Tensor,
    neighbors: Tensor,
    key_radial: Tensor,
    value_radial: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of features, queries and both radial tables."""
    if attention.ndim != 3:
        raise InputError(f"attention: expected 3 axes, got {describe(attention)}")
    num_heads = attention.shape[2]
    _check(features, queries, vectors, neighbors, key_radial, value_radial, num_heads)
    check_tensor("gradient", gradient, queries.shape, features.dtype)
    check_tensor("attention", attention, (*neighbors.shape, num_heads), features.dtype)
    channels = features.shape[2]
    padding = _padding(channels, features.dtype)
    inputs = _padded_inputs(features, queries, vectors, neighbors, key_radial, value_radial, padding)
    d_out = (F.pad(gradient, (0, padding)) if padding else gradient).contiguous()
    results = [
        torch.zeros_like(inputs[0]),
        torch.empty_like(inputs[1]),
        *(torch.zeros_like(t) for t in inputs[4:]),
    ]
    _call("eda_attention_backward", inputs, num_heads, channels, [attention.contiguous(), d_out, *results])
    d_features, d_queries, d_key, d_value = (result[..., :channels].contiguous() for result in results)
    return d_features, d_queries, d_key, d_value


@edge_attention_backward.register_fake
def _(gradient: Tensor, attention: Tensor, features: Tensor, queries: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
    _check_devices(gradient, attention, features, queries, *rest)
    return tuple(tensor.new_empty(tensor.shape) for tensor in (features, queries, *rest[-2:]))


def _save_inputs(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    features, queries, vectors, neighbors, key_radial, value_radial, _ = inputs
    ctx.save_for_backward(output[1], features, queries, vectors, neighbors, key_radial, value_radial)


def _backward(ctx: Any, gradient: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    d_features, d_queries, d_key, d_value = edge_attention_backward(gradient, *ctx.saved_tensors)
    return d_features, d_queries, None, None, d_key, d_value, None


edge_attention.register_autograd(_backward, setup_context=_save_inputs)
