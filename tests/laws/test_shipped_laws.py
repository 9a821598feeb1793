"""The laws hold for the weights that ship, whose correspondences are far surer than those of weights by chance."""

import pytest
import torch
from support.closeness import assert_near_and_nonzero
from support.lumpy_shapes import lumpy_cloud
from support.oracles import twist_matrix
from support.rigid_motions import random_se3

from eda import Pieces, load
from eda.weights import SHIPPED

NAMES = [shipped.name for shipped in SHIPPED]


def four_pieces(name: str) -> Pieces:
    count = 2 if name == "scan-small" else 4
    clouds, normals = zip(*[lumpy_cloud(i, 300) for i in range(count)], strict=True)
    return Pieces.from_clouds(clouds, normals, dtype=torch.float64)


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_the_order_of_pieces_and_their_frames_mean_nothing(name):
    """v_sX(s g) = s v_X(g), and v_hX(g h^-1) = v_X(g) h^-1."""
    model, pieces = load(name).double(), four_pieces(name)
    count, tau = pieces.num_pieces, torch.tensor([0.3], dtype=torch.float64)
    g, h, order = random_se3(count, spread=0.5), random_se3(count, seed=1), torch.arange(count).flip(0)
    velocity = model.field(pieces)(g, tau)
    assert_near_and_nonzero(model.field(pieces.permute(order))(g[order], tau), velocity[order], 1e-9)
    moved = model.field(pieces.move(h))(g @ h.inverse(), tau)
    assert_near_and_nonzero(twist_matrix(moved), twist_matrix(velocity), 1e-9)
