"""The edge attention operator, eq. (attention) and eq. (QKV_SO2) of Appendix G, behind one function.

`reference` is the definition, in plain torch; `cpu` is the same by the compiled module, where there is one.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from eda.kernels import cpu, pointwise, reference
from eda.kernels.edges import Edges

__all__ = ["Edges", "edge_attention", "free_attention", "may_read", "pointwise", "reference_only"]

_compiled_allowed = True


def edge_attention(
    features: Tensor, queries: Tensor, edges: Edges, key_radial: Tensor, value_radial: Tensor, num_heads: int
) -> Tensor:
    """The attention of receivers to their neighbours by the fastest implementation that fits. See `reference`."""
    if _compiled_allowed and cpu.available(features):
        # Calling the operator takes 0.2 ms, which counts for the few tokens of a puzzle in sampling.
        attend = cpu.forward if _is_plain(features) and not torch.is_grad_enabled() else cpu.edge_attention
        return attend(features, queries, edges.vectors, edges.neighbors, key_radial, value_radial, num_heads)[0]
    return reference.edge_attention(features, queries, edges, key_radial, value_radial, num_heads)


def free_attention(
    features: Tensor, queries: Tensor, edges: Edges, key_radial: Tensor, value_radial: Tensor, num_heads: int
) -> Tensor:
    """`edge_attention` with as many parameters that does not turn with its input: for comparisons."""
    return reference.edge_attention(
        features, queries, edges, key_radial, value_radial, num_heads, transform=reference.scaled_orders
    )


def may_read(features: Tensor) -> bool:
    """Whether the compiled module may be handed the memory of these features."""
    return _compiled_allowed and _is_plain(features) and cpu.is_built_for(features)


def _is_plain(features: Tensor) -> bool:
    """Whether there is memory to read: fake tensors and those of a compiler have none."""
    return type(features) in (Tensor, torch.nn.Parameter) and not torch.compiler.is_compiling()


@contextmanager
def reference_only() -> Iterator[None]:
    """Within this context, edge attention is the plain torch one: for comparisons."""
    global _compiled_allowed
    before, _compiled_allowed = _compiled_allowed, False
    try:
        yield
    finally:
        _compiled_allowed = before
