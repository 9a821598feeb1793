"""For tests of synchronising fields: fields by chance, and the graphs of correspondences that they go by."""

import torch
from support.oracles import stirred
from support.soft_matches import drawn
from torch import Tensor

from eda.nn.correspondences import MatchScores
from eda.nn.match_graph import MatchGraph
from eda.nn.synchronising_field import SynchronisingField


def field_of(oriented: bool = True) -> SynchronisingField:
    """In float64, always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return stirred(SynchronisingField(oriented))


def graph_of(scores: MatchScores, complementary: bool = True, centers: Tensor | None = None) -> MatchGraph:
    """With centres of pieces that are neither their means nor origins, unless they are given."""
    centers = drawn(len(scores.sizes), 3, seed=8) if centers is None else centers
    return MatchGraph.of(scores, centers, complementary=complementary)
