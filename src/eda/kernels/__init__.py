"""The edge attention operator, eq. (8) and (10) of the paper's appendix, behind one function."""

from eda.kernels.edges import Edges
from eda.kernels.reference import edge_attention

__all__ = ["Edges", "edge_attention"]
