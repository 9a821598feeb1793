"""Every layer commutes with rotations and computes what its formula says."""

import math

import pytest
import torch
from support.closeness import assert_near_to_scale
from support.lumpy_shapes import lumpy_pieces
from support.oracles import haar_rotations, stirred, turned
from torch import Tensor, nn

from eda import NetworkConfig
from eda.graph import Across, Pyramid
from eda.kernels import Edges, equivariant_gelu
from eda.nn.attention import EquivariantAttention
from eda.nn.blocks import CrocoBlock, DownBlock
from eda.nn.layers import (
    AdaptiveNorm,
    DegreeLinear,
    EquivariantNorm,
    FeedForward,
    Time,
    TimeEmbedding,
)
from eda.nn.network import VelocityHead

C, K = 6, 4


class EquivariantGELU(nn.Module):
    """The activation with W F made from F itself, as the paper writes it."""

    def __init__(self, max_degree: int, channels: int) -> None:
        super().__init__()
        self.toward = DegreeLinear(max_degree, channels, channels, first_degree=1)

    def forward(self, features: Tensor) -> Tensor:
        return equivariant_gelu(features, self.toward(features))


DEGREES = [1, 2, 3, 4]
at_all_degrees = pytest.mark.parametrize("max_degree", DEGREES)


@pytest.fixture(autouse=True)
def _same_weights_every_time():
    torch.manual_seed(0)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def features_of(max_degree: int, count: int = 8, seed: int = 0) -> Tensor:
    return normal(count, (max_degree + 1) ** 2, C, seed=seed)


def time_of(count: int, embedding: Tensor | None = None) -> Time:
    """Two puzzles, the first with three points fewer than the second."""
    puzzle = (torch.arange(count) >= (count - 3) // 2).long()
    return Time(normal(2, C, seed=5) if embedding is None else embedding, puzzle)


def config_of(max_degree: int, **options: object) -> NetworkConfig:
    return NetworkConfig(
        max_degree=max_degree, channels=C, num_heads=2, num_neighbors=K, num_knots=5, spacing=0.3, **options
    )


def rotation(seed: int = 3) -> Tensor:
    return haar_rotations(1, seed)[0]


def assert_near_and_not_small(a: Tensor, b: Tensor, tolerance: float = 1e-12) -> None:
    assert b.abs().max() > 1e-3
    assert_near_to_scale(a, b, tolerance, smallest_scale=1.0)


# -- layers on single points -------------------------------------------------------------------------------

POINTWISE = {
    "linear": lambda degree: DegreeLinear(degree, C, 5),
    "linear without bias": lambda degree: DegreeLinear(degree, C, 5, bias=False),
    "gelu": lambda degree: EquivariantGELU(degree, C),
    "norm": lambda degree: EquivariantNorm(C),
    "adaptive norm": lambda degree: AdaptiveNorm(C, C),
    "feed forward": lambda degree: FeedForward(degree, C, 2),
}


def applied(layer: nn.Module, features: Tensor) -> Tensor:
    if isinstance(layer, AdaptiveNorm):
        return layer(features, time_of(len(features)))
    return layer(features)


@at_all_degrees
@pytest.mark.parametrize("name", POINTWISE)
def test_a_pointwise_layer_commutes_with_rotations(name, max_degree):
    layer, features, R = stirred(POINTWISE[name](max_degree)), features_of(max_degree), rotation()
    assert_near_and_not_small(applied(layer, turned(features, R)), turned(applied(layer, features), R))


@at_all_degrees
@pytest.mark.parametrize("name", POINTWISE)
def test_a_pointwise_layer_sees_one_point_at_a_time(name, max_degree):
    layer, features = stirred(POINTWISE[name](max_degree)), features_of(max_degree)
    other = features.clone()
    other[1:] = features_of(max_degree, seed=9)[1:]
    assert torch.equal(applied(layer, features)[:1], applied(layer, other)[:1])
    assert not torch.equal(applied(layer, features)[1:], applied(layer, other)[1:])


@at_all_degrees
@pytest.mark.parametrize("name", POINTWISE)
def test_a_pointwise_layer_is_finite_with_finite_gradients_at_zero(name, max_degree):
    layer = stirred(POINTWISE[name](max_degree))
    features = torch.zeros(8, (max_degree + 1) ** 2, C, dtype=torch.float64, requires_grad=True)
    out = applied(layer, features)
    gradients = torch.autograd.grad((out + out.square()).sum(), [features, *layer.parameters()])
    assert out.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients)


@at_all_degrees
def test_linear_is_one_matrix_per_degree_and_a_bias_at_degree_zero(max_degree):
    layer, features = stirred(DegreeLinear(max_degree, C, 5)), features_of(max_degree)
    rows = []
    for l in range(max_degree + 1):
        for row in range(l * l, (l + 1) ** 2):
            rows.append(features[:, row] @ layer.weight[l] + (layer.bias if row == 0 else 0))
    assert_near_and_not_small(layer(features), torch.stack(rows, dim=1))


def test_gelu_is_torchs_at_degree_zero():
    features = 3 * features_of(2)
    out = stirred(EquivariantGELU(2, C))(features)
    assert_near_and_not_small(out[:, 0], nn.functional.gelu(features[:, 0]))


@at_all_degrees
def test_gelu_multiplies_by_the_normal_cdf_of_the_projection(max_degree):
    layer, features = stirred(EquivariantGELU(max_degree, C)), 4 * features_of(max_degree, count=2)
    expected = torch.zeros_like(features)
    expected[:, 0] = nn.functional.gelu(features[:, 0])
    cdf = torch.distributions.Normal(0.0, 1.0).cdf
    for l in range(1, max_degree + 1):
        F = features[:, l * l : (l + 1) ** 2]
        for c in range(C):
            toward = F @ layer.toward.weight[l - 1][:, c]
            projection = (F[..., c] * toward).sum(1) / toward.norm(dim=1)
            expected[:, l * l : (l + 1) ** 2, c] = F[..., c] * cdf(projection)[:, None]
    assert_near_and_not_small(layer(features), expected, 1e-6)  # the layer's epsilon


@at_all_degrees
def test_norm_divides_by_the_papers_sigma(max_degree):
    features = 5 * features_of(max_degree)
    layer = stirred(EquivariantNorm(C))
    squares = sum(features[:, l * l : (l + 1) ** 2].square().sum((1, 2)) / (2 * l + 1) for l in range(max_degree + 1))
    sigma = (squares / (C * (max_degree + 1))).sqrt()
    assert_near_and_not_small(
        layer(features), features / sigma[:, None, None] * layer.gain, 1e-6
    )  # the layer's epsilon


def test_adaptive_norm_is_the_norm_with_a_gain_that_depends_on_tau():
    features, time = features_of(2), time_of(8)
    layer, plain = stirred(AdaptiveNorm(C, C)), EquivariantNorm(C).double()
    gain = 1 + time.embedding @ layer.gain.weight.T + layer.gain.bias
    assert_near_and_not_small(layer(features, time), plain(features) * gain[time.puzzle][:, None])


def test_adaptive_norm_sees_only_the_embedding_of_the_points_own_puzzle():
    layer, features = stirred(AdaptiveNorm(C, C)), features_of(2)
    time = time_of(8)
    first, second = time.puzzle == 0, time.puzzle == 1
    changed = time.embedding.clone()
    changed[1] += 1
    before, after = layer(features, time), layer(features, Time(changed, time.puzzle))
    assert torch.equal(before[first], after[first])
    assert ((before - after)[second].abs().amax((1, 2)) > 1e-2).all()
    alone = layer(features[second], Time(time.embedding[1:], time.puzzle[second] - 1))
    assert_near_and_not_small(alone, before[second])


def test_equal_embeddings_give_equal_gains():
    layer, features = stirred(AdaptiveNorm(C, C)), features_of(2)
    same = time_of(8, normal(1, C).expand(2, C))
    swapped = Time(same.embedding, 1 - same.puzzle)
    assert torch.equal(layer(features, same), layer(features, swapped))


@pytest.mark.parametrize("channels", [2, 5, 16])
def test_time_embedding_tells_times_apart_and_puzzles_do_not_mix(channels):
    layer = stirred(TimeEmbedding(channels))
    tau = torch.linspace(0, 1, 11).double()
    out = layer(tau)
    assert out.shape == (11, channels)
    assert (torch.pdist(out) > 1e-4).all()
    assert_near_and_not_small(layer(tau[4:5]), out[4:5], 1e-14)


# -- layers on neighbourhoods ------------------------------------------------------------------------------


def random_edges(receivers: int, senders: int, seed: int = 0) -> Edges:
    generator = torch.Generator().manual_seed(seed)
    neighbors = torch.stack([torch.randperm(senders, generator=generator)[:K] for _ in range(receivers)])
    neighbors[0, 1] = neighbors[-1, 2:] = -1
    return Edges(neighbors, 2 * normal(receivers, K, 3, seed=seed + 1))


@at_all_degrees
def test_attention_commutes_with_rotations(max_degree):
    layer = stirred(EquivariantAttention(max_degree, C, 2, 5))
    receivers, senders, R = features_of(max_degree, 5), features_of(max_degree, 7, seed=1), rotation()
    edges = random_edges(5, 7)
    moved = Edges(edges.neighbors, edges.vectors @ R.T)
    got = layer(turned(receivers, R), turned(senders, R), moved)
    assert_near_and_not_small(got, turned(layer(receivers, senders, edges), R))


@at_all_degrees
def test_attention_does_not_commute_when_the_edges_stay(max_degree):
    layer = stirred(EquivariantAttention(max_degree, C, 2, 5))
    features, edges, R = features_of(max_degree, 7), random_edges(7, 7), rotation()
    got = layer(turned(features, R), turned(features, R), edges)
    assert (got - turned(layer(features, features, edges), R)).abs().max() > 1e-2


def test_attention_without_neighbours_is_the_bias_of_its_output():
    layer = stirred(EquivariantAttention(2, C, 2, 5))
    edges = Edges(torch.full((3, K), -1), normal(3, K, 3))
    out = layer(features_of(2, 3), features_of(2, 3), edges)
    assert_near_and_not_small(out[:, 0], layer.output.bias.expand(3, C))
    assert (out[:, 1:] == 0).all()


# -- blocks ------------------------------------------------------------------------------------------------


class Scene:
    """The first level of a small pyramid under a rotation, and what a block wants to know of it."""

    def __init__(self, rotation: Tensor) -> None:
        pieces = lumpy_pieces(2, 20)
        self.pyramid = Pyramid.build(pieces, num_levels=1, num_neighbors=K)
        self.level = self.pyramid.levels[0]
        fine, coarse = pieces.points @ rotation.T, self.level.points @ rotation.T
        piece = torch.repeat_interleave(torch.arange(2), self.level.sizes)
        self.down = Edges.between(coarse, fine, self.level.down, 0.3)
        self.within = Edges.between(coarse, coarse, self.level.within, 0.3)
        foreign = Across.between(piece, torch.zeros_like(piece)).neighbors(coarse, 3)
        self.between = Edges.between(coarse, coarse, foreign, 0.3)
        embedding = normal(1, C, seed=5)
        self.fine_time = Time(embedding, torch.zeros(len(fine), dtype=torch.long))
        self.time = Time(embedding, torch.zeros(len(coarse), dtype=torch.long))


@at_all_degrees
@pytest.mark.parametrize("time_in_encoder", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_down_block_commutes_with_rotations(max_degree, time_in_encoder, first):
    block = stirred(DownBlock(config_of(max_degree, time_in_encoder=time_in_encoder), first=first))
    R = rotation()
    still, moved = Scene(torch.eye(3, dtype=torch.float64)), Scene(R)
    features = features_of(max_degree, len(still.pyramid.pieces.points))

    def run(scene: Scene, features: Tensor) -> Tensor:
        times = (scene.fine_time, scene.time) if time_in_encoder else (None, None)
        return block(features, scene.level, scene.down, scene.within, *times)

    assert_near_and_not_small(run(moved, turned(features, R)), turned(run(still, features), R))


@at_all_degrees
def test_croco_block_commutes_with_rotations(max_degree):
    block, R = stirred(CrocoBlock(config_of(max_degree))), rotation()
    still, moved = Scene(torch.eye(3, dtype=torch.float64)), Scene(R)
    features = features_of(max_degree, len(still.level.points))

    def run(scene: Scene, features: Tensor) -> Tensor:
        return block(features, scene.within, scene.between, scene.time)

    assert_near_and_not_small(run(moved, turned(features, R)), turned(run(still, features), R))


@pytest.mark.parametrize("block_edges", ["within", "between"])
def test_croco_block_uses_both_neighbourhoods(block_edges):
    block, scene = stirred(CrocoBlock(config_of(2))), Scene(torch.eye(3, dtype=torch.float64))
    features = features_of(2, len(scene.level.points))
    before = block(features, scene.within, scene.between, scene.time)
    edges = getattr(scene, block_edges)
    setattr(scene, block_edges, Edges(torch.full_like(edges.neighbors, -1), edges.vectors))
    after = block(features, scene.within, scene.between, scene.time)
    assert (before - after).abs().amax((1, 2)).min() > 1e-3


@at_all_degrees
def test_head_gives_two_vectors_per_piece_that_turn_with_the_features(max_degree):
    head, features, R = stirred(VelocityHead(config_of(max_degree))), features_of(max_degree), rotation()
    piece, time = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2]), time_of(8)
    out = head(features, piece, 3, time)
    w, u = out[:, :3], out[:, 3:]
    assert_near_and_not_small(head(turned(features, R), piece, 3, time), torch.cat([w @ R.T, u @ R.T], dim=1))
    assert (w - u).abs().min() > 1e-6


def test_head_pools_over_the_tokens_of_a_piece_in_any_order():
    head, features = stirred(VelocityHead(config_of(2))), features_of(2)
    piece, time = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2]), time_of(8, normal(1, C).expand(2, C))
    out, order = head(features, piece, 3, time), torch.tensor([4, 7, 2, 0, 5, 1, 3, 6])
    assert_near_and_not_small(head(features[order], piece[order], 3, Time(time.embedding, time.puzzle[order])), out)
    alone = piece == 1
    assert_near_and_not_small(
        head(features[alone], piece[alone] - 1, 1, Time(time.embedding, time.puzzle[alone])), out[1:2]
    )


def test_weights_at_the_start_have_the_scale_of_their_inputs():
    """A linear layer keeps the variance of its features."""
    layer = DegreeLinear(2, 64, 64).double()
    out = layer(normal(100, 9, 64))
    assert math.isclose(float(out.detach().std()), 1.0, rel_tol=0.1)
