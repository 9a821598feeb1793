"""The kernels by the fastest implementation that fits: the compiled module, or the definitions in plain torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from eda.kernels import attention_compiled, attention_reference, pointwise_compiled, pointwise_reference
from eda.kernels.compiled import has_memory, is_allowed
from eda.kernels.edges import Edges


def edge_attention(
    features: Tensor, queries: Tensor, edges: Edges, key_radial: Tensor, value_radial: Tensor, num_heads: int
) -> Tensor:
    """The attention of receivers to their neighbours. `attention_reference` has the definition and the shapes."""
    if is_allowed() and attention_compiled.can_attend(features):
        # Calling the operator takes 0.2 ms, which counts for the few tokens of a puzzle in sampling.
        bare = has_memory(features) and not torch.is_grad_enabled()
        attend = attention_compiled.forward if bare else attention_compiled.edge_attention
        return attend(features, queries, edges.vectors, edges.neighbors, key_radial, value_radial, num_heads)[0]
    return attention_reference.edge_attention(features, queries, edges, key_radial, value_radial, num_heads)


def free_attention(
    features: Tensor, queries: Tensor, edges: Edges, key_radial: Tensor, value_radial: Tensor, num_heads: int
) -> Tensor:
    """`edge_attention` with the same number of parameters, but not equivariant: for the ablation."""
    return attention_reference.edge_attention(
        features, queries, edges, key_radial, value_radial, num_heads, transform=attention_reference.scaled_orders
    )


def degree_product(features: Tensor, weight: Tensor, bias: Tensor | None, first_degree: int) -> Tensor:
    """features[:, row] @ weight[degree of row] for the rows from `first_degree` on, plus a bias on the first row."""
    # Without gradients the call of an autograd function would cost as much as the product of a few tokens.
    multiply = _DegreeProduct.apply if torch.is_grad_enabled() else _degree_product
    return multiply(features, weight, bias, first_degree)


def equivariant_norm(features: Tensor, gain: Tensor) -> Tensor:
    """F / sigma times a gain, which is (P, C) or (C,). (P, M, C) -> (P, M, C)."""
    if _may_read(features) and pointwise_compiled.can_norm(features, gain):
        return pointwise_compiled.equivariant_norm(features, gain)
    return pointwise_reference.equivariant_norm(features, gain)


def equivariant_gelu(features: Tensor, toward: Tensor) -> Tensor:
    """F Phi(<F, unit(W F)>) of features (P, M, C) and W F of the degrees above 0, (P, M - 1, C). -> (P, M, C)."""
    if _may_read(features) and pointwise_compiled.can_gate(features, toward):
        return pointwise_compiled.equivariant_gelu(features, toward)
    return pointwise_reference.equivariant_gelu(features, toward)


def _may_read(features: Tensor) -> bool:
    """Whether the compiled module may be given the memory of these features, if it can serve them."""
    return is_allowed() and has_memory(features)


def _degree_product(features: Tensor, weight: Tensor, bias: Tensor | None, first_degree: int) -> Tensor:
    if _may_read(features) and pointwise_compiled.can_multiply(features, weight, bias, first_degree):
        return pointwise_compiled.degree_product(features, weight, bias, first_degree)
    return pointwise_reference.degree_product(features, weight, bias, first_degree)


class _DegreeProduct(torch.autograd.Function):
    """`_degree_product` with its gradients."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, first_degree: int) -> Tensor:
        ctx.save_for_backward(features, weight)
        ctx.first_degree, ctx.has_bias = first_degree, bias is not None
        return _degree_product(features, weight, bias, first_degree)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None]:
        features, weight = ctx.saved_tensors
        if ctx.first_degree == 0:
            d_features = _degree_product(gradient, weight.mT, None, 0)
        else:
            d_features = pointwise_reference.degree_product_d_features(gradient, weight, ctx.first_degree)
        d_weight = pointwise_reference.degree_product_d_weight(gradient, features, weight, ctx.first_degree)
        return d_features, d_weight, gradient[:, 0].sum(0) if ctx.has_bias else None, None
