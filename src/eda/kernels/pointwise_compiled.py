"""Layers on single points by the compiled module, in one pass over memory.

`pointwise_reference` has the definitions.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from eda.errors import InputError
from eda.kernels.compiled import SUFFIX, check_tensor, describe, is_built_for, lanes, thread_count
from eda.native import check_result, library

# Fewer multiplications than this are done sooner than a second thread starts.
_WORK_PER_THREAD = 2_000_000
# Reading and writing one number takes as long as this many multiplications.
_WORK_PER_NUMBER = 32


def can_multiply(features: Tensor, weight: Tensor, bias: Tensor | None, first_degree: int) -> bool:
    """Whether `degree_product` can serve these arguments."""
    if not (features.ndim == weight.ndim == 3 and first_degree >= 0):
        return False
    degrees, inputs, outputs = weight.shape
    fit = features.shape[1:] == ((degrees + first_degree) ** 2, inputs)
    if bias is not None:  # it belongs to degree 0
        fit = fit and first_degree == 0 < degrees and bias.shape == (outputs,) and _same_kind(bias, weight)
    return fit and _same_kind(features, weight) and _fills_registers(weight)


def degree_product(features: Tensor, weight: Tensor, bias: Tensor | None, first_degree: int) -> Tensor:
    """features[:, row] @ weight[degree of row] for the rows from `first_degree` on, plus a bias on the first row."""
    if not can_multiply(features, weight, bias, first_degree):
        raise _misfit("degree_product", features, weight, bias)
    features, weight, bias = features.contiguous(), weight.contiguous(), None if bias is None else bias.contiguous()
    points, rows, inputs = features.shape
    outputs = weight.shape[2]
    out = features.new_empty(points, rows - first_degree**2, outputs)
    sizes = (points, rows, first_degree, inputs, outputs)
    return _call("eda_product", (features, weight, bias), sizes, out, inputs)


def can_norm(features: Tensor, gain: Tensor) -> bool:
    """Whether `equivariant_norm` can serve these tensors."""
    if not _has_degrees(features):
        return False
    points, _, channels = features.shape
    fit = gain.shape in [(channels,), (points, channels)]
    return fit and _same_kind(features, gain) and _fills_registers(gain)


def equivariant_norm(features: Tensor, gain: Tensor) -> Tensor:
    """F / sigma times a gain, which is (P, C) or (C,). (P, M, C) -> (P, M, C)."""
    if not can_norm(features, gain):
        raise _misfit("equivariant_norm", features, gain)
    features, gain = features.contiguous(), gain.contiguous()
    return _Norm.apply(features, gain) if torch.is_grad_enabled() else _norm(features, gain)


def _norm(features: Tensor, gain: Tensor) -> Tensor:
    return _call("eda_norm", (features, gain), _norm_sizes(features, gain), torch.empty_like(features))


def _norm_sizes(features: Tensor, gain: Tensor) -> tuple[int, ...]:
    return (gain.shape[1] if gain.ndim == 2 else 0, *features.shape)


class _Norm(torch.autograd.Function):
    """`_norm` with its gradients."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, gain: Tensor) -> Tensor:
        ctx.save_for_backward(features, gain)
        return _norm(features, gain)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, Tensor]:
        features, gain = ctx.saved_tensors
        check_tensor("gradient", d_out, features.shape, features.dtype)
        d_gain = gain.new_empty(len(features), gain.shape[-1])
        inputs = (features, gain, d_out.contiguous(), d_gain)
        sizes = _norm_sizes(features, gain)
        d_features = _call("eda_norm_backward", inputs, sizes, torch.empty_like(features))
        return d_features, d_gain if gain.ndim == 2 else d_gain.sum(0)


def can_gate(features: Tensor, toward: Tensor) -> bool:
    """Whether `equivariant_gelu` can serve these tensors."""
    if not _has_degrees(features):
        return False
    points, rows, channels = features.shape
    fit = toward.shape == (points, rows - 1, channels)
    return fit and _same_kind(features, toward) and _fills_registers(features)


def equivariant_gelu(features: Tensor, toward: Tensor) -> Tensor:
    """F Phi(<F, unit(W F)>) of features (P, M, C) and W F of the degrees above 0, (P, M - 1, C). -> (P, M, C)."""
    if not can_gate(features, toward):
        raise _misfit("equivariant_gelu", features, toward)
    features, toward = features.contiguous(), toward.contiguous()
    return _Gelu.apply(features, toward) if torch.is_grad_enabled() else _gelu(features, toward)[0]


def _gelu(features: Tensor, toward: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The activation (P, M, C), and per degree its projections and gates, (P, degrees, C) each."""
    sizes = _gate_sizes(features)
    projection = _call("eda_projection", (features, toward), sizes, features.new_empty(sizes[0], *sizes[2:]))
    gates = torch.special.ndtr(projection)
    return _call("eda_gate", (features, gates), sizes, torch.empty_like(features)), projection, gates


def _gate_sizes(features: Tensor) -> tuple[int, ...]:
    points, rows, channels = features.shape
    return points, rows, math.isqrt(rows), channels


class _Gelu(torch.autograd.Function):
    """`_gelu` with its gradients."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, toward: Tensor) -> Tensor:
        out, projection, gates = _gelu(features, toward)
        ctx.save_for_backward(features, toward, projection, gates)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, Tensor]:
        features, toward, projection, gates = ctx.saved_tensors
        check_tensor("gradient", d_out, features.shape, features.dtype)
        density = projection.square().mul_(-0.5).exp_().mul_(1 / math.sqrt(2 * math.pi))
        d_toward = torch.empty_like(toward)
        inputs = (features, toward, projection, gates, density, d_out.contiguous(), d_toward)
        d_features = _call("eda_gate_backward", inputs, _gate_sizes(features), torch.empty_like(features))
        return d_features, d_toward


def _has_degrees(features: Tensor) -> bool:
    """Whether features are (P, M, C) with the rows of whole degrees."""
    return features.ndim == 3 and math.isqrt(features.shape[1]) ** 2 == features.shape[1] > 0


def _same_kind(a: Tensor, b: Tensor) -> bool:
    """Whether the compiled module can read both, as numbers of one precision."""
    return a.dtype == b.dtype and b.is_cpu and b.layout == torch.strided and is_built_for(a)


def _misfit(name: str, *tensors: Tensor | None) -> InputError:
    given = ", ".join("none" if tensor is None else describe(tensor) for tensor in tensors)
    return InputError(f"the compiled {name} cannot take these tensors together: {given}")


def _fills_registers(tensor: Tensor) -> bool:
    return tensor.shape[-1] % lanes(tensor.dtype) == 0


def _call(
    name: str,
    inputs: tuple[Tensor | None, ...],
    sizes: tuple[int, ...],
    out: Tensor,
    work_per_number: int = _WORK_PER_NUMBER,
) -> Tensor:
    """Call a compiled function on contiguous tensors. -> `out`, which it has written."""
    threads = thread_count(out.numel() * work_per_number, _WORK_PER_THREAD)
    pointers = [None if tensor is None else tensor.data_ptr() for tensor in inputs]
    function = getattr(library(), f"{name}_{SUFFIX[out.dtype]}")
    check_result(function(*pointers, *sizes, threads, out.data_ptr()), f"{name} on {len(out)} points")
    return out
