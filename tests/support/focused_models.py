"""For tests: tiny models that look for breaks, and call a chosen share of the points one."""

from dataclasses import replace

import torch
from support.lumpy_shapes import TINY_NETWORK
from support.oracles import stirred

from eda import Eda, EdaConfig, Pieces
from eda.focus import thin


def focused_model(dense: Pieces, num_points: int, share: float = 0.1, **options: object) -> Eda:
    """In the precision of the pieces; about this share of their points lies on a break in its eyes."""
    network = replace(TINY_NETWORK, break_head=True, **options)
    model = stirred(Eda(EdaConfig(network, focus=True, num_points=num_points))).to(dense.points.dtype)
    probability = model.break_probability(thin(dense, num_points), dense)
    with torch.no_grad():
        model.network.breaks.judge[-1].bias -= torch.logit(probability.quantile(1 - share))
    return model
