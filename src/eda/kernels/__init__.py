"""The inner loops of the network: edge attention, layers on single points, and nearest points.

Each kernel exists twice: a definition in plain torch (`attention_reference`, `pointwise_reference`), and the compiled
module (`attention_compiled`, `pointwise_compiled`) where a C++ compiler built it. `dispatch` picks one of the two.
"""

from eda.kernels.compiled import reference_only
from eda.kernels.dispatch import degree_product, edge_attention, equivariant_gelu, equivariant_norm, free_attention
from eda.kernels.edges import Edges

__all__ = [
    "Edges",
    "degree_product",
    "edge_attention",
    "equivariant_gelu",
    "equivariant_norm",
    "free_attention",
    "reference_only",
]
