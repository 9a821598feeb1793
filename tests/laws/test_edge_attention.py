"""The edge operator is the paper's attention, whatever the frames of edges, and commutes with rotations."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import pytest
import torch
from e3nn import o3
from support.closeness import assert_near_to_scale
from support.oracles import (
    brute_force_attention,
    e3nn_wigner,
    frame_onto_y,
    haar_rotations,
    so2_matrix,
    turned,
    unit_vectors,
)
from torch import Tensor

from eda import kernels
from eda.kernels import Edges
from eda.kernels import attention_reference as definition
from eda.lie import so3
from eda.lie.frames import edge_frames
from eda.lie.wigner import degree_rows

DEGREES = [1, 2, 3, 4]
at_all_degrees = pytest.mark.parametrize("max_degree", DEGREES)

Attention = Callable[..., Tensor]
IMPLEMENTATIONS = {"definition": definition.edge_attention, "fastest": kernels.edge_attention}


@pytest.fixture(params=IMPLEMENTATIONS)
def attend(request) -> Attention:
    return IMPLEMENTATIONS[request.param]


KNOTS, QUERY_CHANNELS, OUT_CHANNELS = 6, 3, 5


@dataclass(frozen=True)
class Case:
    """Random senders, receivers, weights, edges. Some neighbours are missing; the last receiver has none."""

    features: Tensor  # (S, M, C)
    queries: Tensor  # (U, M, O) before W_K
    edges: Edges
    key_weight: Tensor  # (L+1, L+1, O, C)
    value_weight: Tensor
    key_radial: Tensor  # (T, 2L+1, C)
    value_radial: Tensor

    @staticmethod
    def random(max_degree: int, channels: int = 4, seed: int = 0) -> "Case":
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        L, rows, senders, receivers, k = max_degree, (max_degree + 1) ** 2, 6, 4, 5
        neighbors = torch.stack([torch.randperm(senders, generator=generator)[:k] for _ in range(receivers)])
        for u in range(receivers):
            neighbors[u, k - u - (u == receivers - 1) :] = -1  # 5, 4, 3 and then 0 neighbours ...
        neighbors[-1] = -1
        neighbors[1] = neighbors[1].roll(2)  # ... with the missing ones not always last
        length = torch.exp(2 * normal(receivers, k, 1))
        vectors = length * unit_vectors(receivers * k + 6, seed=seed)[6:].reshape(receivers, k, 3)
        return Case(
            features=normal(senders, rows, channels),
            queries=normal(receivers, rows, QUERY_CHANNELS),
            edges=Edges(neighbors, vectors),
            key_weight=0.3 * normal(L + 1, L + 1, QUERY_CHANNELS, channels),
            value_weight=normal(L + 1, L + 1, OUT_CHANNELS, channels),
            key_radial=normal(KNOTS, 2 * L + 1, channels),
            value_radial=normal(KNOTS, 2 * L + 1, channels),
        )

    def raised_queries(self) -> Tensor:
        """Q W_K^T, (U, M, L+1, C): what the operator is handed."""
        parts = [
            torch.einsum("umo,soc->umsc", self.queries[:, degree_rows(l)], weight)
            for l, weight in enumerate(self.key_weight)
        ]
        return torch.cat(parts, dim=1)

    def bracket(self, attend: Attention, num_heads: int = 2) -> Tensor:
        """The operator as it is, (U, M, L+1, C)."""
        return attend(self.features, self.raised_queries(), self.edges, self.key_radial, self.value_radial, num_heads)

    def leaves(self) -> list[Tensor]:
        """What needs gradients: features, queries, both radial tables."""
        inputs = (self.features, self.raised_queries(), self.key_radial, self.value_radial)
        return [t.clone().requires_grad_() for t in inputs]

    def output(self, attend: Attention, num_heads: int = 2) -> Tensor:
        """The operator contracted with W_V, (U, M, O)."""
        bracket = self.bracket(attend, num_heads)
        parts = [
            torch.einsum("umsc,soc->umo", bracket[:, degree_rows(l)], weight)
            for l, weight in enumerate(self.value_weight)
        ]
        return torch.cat(parts, dim=1)

    def rotated(self, rotation: Tensor) -> "Case":
        return dataclasses.replace(
            self,
            features=turned(self.features, rotation),
            queries=turned(self.queries, rotation),
            edges=Edges(self.edges.neighbors, self.edges.vectors @ rotation.T),
        )

    def with_edges(self, neighbors: Tensor, vectors: Tensor) -> "Case":
        return dataclasses.replace(self, edges=Edges(neighbors, vectors))

    def with_column(self, neighbor: Tensor, vector: Tensor) -> "Case":
        """One more neighbour for every receiver: rows (U,) and vectors (U, 3)."""
        return self.with_edges(
            torch.cat([self.edges.neighbors, neighbor[:, None]], dim=1),
            torch.cat([self.edges.vectors, vector[:, None]], dim=1),
        )


def assert_near_to_nonzero_scale(a: Tensor, b: Tensor, tolerance: float = 1e-12) -> None:
    """To a tolerance relative to the largest entry, which is not zero."""
    assert b.abs().max() > 0
    assert_near_to_scale(a, b, tolerance)


# -- the definition ----------------------------------------------------------------------------------------


@at_all_degrees
@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_it_is_the_papers_attention_edge_by_edge(max_degree, num_heads, attend):
    case = Case.random(max_degree, seed=max_degree)
    assert_near_to_nonzero_scale(case.output(attend, num_heads), by_brute_force(max_degree, num_heads))


@lru_cache
def by_brute_force(max_degree: int, num_heads: int) -> Tensor:
    case = Case.random(max_degree, seed=max_degree)
    weights = (case.key_weight, case.value_weight, case.key_radial, case.value_radial)
    return brute_force_attention(
        case.features, case.queries, case.edges.neighbors, case.edges.vectors, *weights, num_heads
    )


def test_heads_matter(attend):
    case = Case.random(2)
    assert (case.output(attend, 1) - case.output(attend, 2)).abs().max() > 1e-3


def test_large_logits_do_not_overflow(attend):
    case = Case.random(2)
    assert dataclasses.replace(case, queries=1e6 * case.queries).output(attend).isfinite().all()


# -- the frame of an edge is arbitrary ---------------------------------------------------------------------


def turned_frames(about: list[float], angles: Tensor):
    """`edge_frames`, followed by a rotation about an axis by one angle per edge."""

    def frames(direction: Tensor) -> Tensor:
        return so3.exp(angles[..., None] * torch.tensor(about, dtype=torch.float64)) @ edge_frames(direction)

    return frames


def angles_like(case: Case) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    return 6 * torch.rand(case.edges.neighbors.shape, generator=generator, dtype=torch.float64)


@at_all_degrees
def test_the_frame_may_turn_about_the_edge(max_degree, monkeypatch):
    case = Case.random(max_degree)
    expected = case.output(definition.edge_attention)
    monkeypatch.setattr(definition, "edge_frames", turned_frames([0.0, 1.0, 0.0], angles_like(case)))
    assert_near_to_nonzero_scale(case.output(definition.edge_attention), expected)


@at_all_degrees
def test_the_frame_must_turn_the_edge_onto_y(max_degree, monkeypatch):
    """The negative control of the law above and of equivariance."""
    case = Case.random(max_degree)
    expected, R = case.output(definition.edge_attention), haar_rotations(1)[0]
    monkeypatch.setattr(
        definition, "edge_frames", turned_frames([1.0, 0.0, 0.0], torch.full_like(angles_like(case), 0.3))
    )
    assert (case.output(definition.edge_attention) - expected).abs().max() > 1e-3
    assert (
        case.rotated(R).output(definition.edge_attention) - turned(case.output(definition.edge_attention), R)
    ).abs().max() > 1e-3


# -- symmetries --------------------------------------------------------------------------------------------


@at_all_degrees
@pytest.mark.parametrize("seed", [0, 1])
def test_it_commutes_with_rotations(max_degree, seed, attend):
    case, R = Case.random(max_degree), haar_rotations(1, seed)[0]
    assert_near_to_nonzero_scale(case.rotated(R).output(attend), turned(case.output(attend), R))


@pytest.mark.parametrize("axis", [[0.0, 1.0, 0.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
def test_it_commutes_with_the_rotation_that_brings_an_edge_onto_an_axis(axis, attend):
    case = Case.random(2)
    direction = case.edges.vectors[0, 0] / case.edges.vectors[0, 0].norm()
    onto_y, y_onto_axis = frame_onto_y(direction), frame_onto_y(torch.tensor(axis, dtype=torch.float64)).T
    R = y_onto_axis @ onto_y
    assert_near_to_nonzero_scale(case.rotated(R).output(attend), turned(case.output(attend), R))


def test_it_does_not_commute_with_reflections(attend):
    """b in D sees handedness: two mirrored edges are not the same."""
    case = Case.random(1)
    mirror = torch.diag(torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64))

    def reflected(features: Tensor) -> Tensor:
        return torch.cat([features[:, :1], mirror @ features[:, 1:]], dim=1)

    other = dataclasses.replace(
        case,
        features=reflected(case.features),
        queries=reflected(case.queries),
        edges=Edges(case.edges.neighbors, case.edges.vectors @ mirror),
    )
    assert (other.output(attend) - reflected(case.output(attend))).abs().max() > 1e-3


def test_the_order_of_neighbours_does_not_matter(attend):
    case = Case.random(2)
    order = torch.tensor([3, 0, 4, 2, 1])
    assert_near_to_nonzero_scale(
        case.with_edges(case.edges.neighbors[:, order], case.edges.vectors[:, order]).output(attend),
        case.output(attend),
    )


def test_receivers_are_independent(attend):
    case, order = Case.random(2), torch.tensor([2, 3, 0])
    some = dataclasses.replace(
        case, queries=case.queries[order], edges=Edges(case.edges.neighbors[order], case.edges.vectors[order])
    )
    assert_near_to_nonzero_scale(some.output(attend), case.output(attend)[order])


def test_the_order_of_senders_does_not_matter(attend):
    case, order = Case.random(2), torch.tensor([3, 5, 0, 4, 2, 1])
    place = torch.argsort(order)
    neighbors = torch.where(case.edges.neighbors < 0, -1, place[case.edges.neighbors])
    other = dataclasses.replace(case, features=case.features[order], edges=Edges(neighbors, case.edges.vectors))
    assert_near_to_nonzero_scale(other.output(attend), case.output(attend))


# -- edges that are not there ------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0.0, 1e-9, 1e-6])
def test_an_edge_without_length_contributes_nothing(length, attend):
    case = Case.random(2)
    case = dataclasses.replace(case, features=torch.cat([case.features, 1e3 * case.features[:1]]))
    sender = torch.full((4,), len(case.features) - 1)
    vector = length * unit_vectors(10)[6:]
    assert_near_to_nonzero_scale(case.with_column(sender, vector).output(attend), case.output(attend))
    assert (case.with_column(sender, 1e3 * vector + 1e-3).output(attend) - case.output(attend)).abs().max() > 1


@pytest.mark.parametrize("vector", [[0.0, 0.0, 0.0], [3.0, -1.0, 2.0], [1e30, 0.0, 0.0]])
def test_a_missing_neighbour_contributes_nothing_whatever_its_vector(vector, attend):
    case = Case.random(2)
    filler = torch.tensor(vector, dtype=torch.float64).expand(4, 3)
    assert_near_to_nonzero_scale(case.with_column(torch.full((4,), -1), filler).output(attend), case.output(attend))


@pytest.mark.parametrize("why", ["missing", "coincident"])
def test_a_receiver_without_neighbours_gets_exactly_zero_and_finite_gradients(why, attend):
    case = Case.random(2)
    if why == "missing":
        edges = Edges(torch.full_like(case.edges.neighbors, -1), case.edges.vectors)
    else:
        edges = Edges(case.edges.neighbors.clamp(min=0), torch.zeros_like(case.edges.vectors))
    inputs = case.leaves()
    out = attend(inputs[0], inputs[1], edges, inputs[2], inputs[3], 2)
    assert (out == 0).all()
    for gradient in torch.autograd.grad(out.sum(), inputs):
        assert (gradient == 0).all()  # not NaN either


def test_one_receiver_without_neighbours_among_others_gets_zero(attend):
    out = Case.random(2).bracket(attend)
    assert (out[-1] == 0).all()
    assert (out[:-1].abs().amax((1, 2, 3)) > 0).all()


# -- gradients ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("max_degree", "fast"), [(1, False), (2, True), (4, True)])
def test_gradients_are_right(max_degree, fast, attend):
    """With missing neighbours, a receiver without any, and an edge of length zero."""
    case = Case.random(max_degree, channels=2)
    vectors = case.edges.vectors.clone()
    vectors[0, 1] = 0
    edges = Edges(case.edges.neighbors, vectors)
    inputs = case.leaves()

    def run(features: Tensor, queries: Tensor, key_radial: Tensor, value_radial: Tensor) -> Tensor:
        return attend(features, queries, edges, key_radial, value_radial, 2)

    assert torch.autograd.gradcheck(run, inputs, fast_mode=fast)


@at_all_degrees
@pytest.mark.parametrize("channels", [2, 16, 24])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_the_fastest_implementation_has_the_values_and_gradients_of_the_definition(
    max_degree, channels, dtype, tolerance
):
    case = Case.random(max_degree, channels)
    edges = Edges(case.edges.neighbors, case.edges.vectors.to(dtype))
    results = []
    for attend in IMPLEMENTATIONS.values():
        inputs = [t.detach().to(dtype).requires_grad_() for t in case.leaves()]
        out = attend(inputs[0], inputs[1], edges, inputs[2], inputs[3], 2)
        pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
        results.append([out.detach(), *torch.autograd.grad((out * pull).sum(), inputs)])
    for one, two in zip(*results, strict=True):
        assert two.dtype == dtype
        assert_near_to_nonzero_scale(two, one, tolerance)


# -- the SO(2) form computes tensor products with harmonics -------------------------------------------------


def edge_map(attend: Attention, max_degree: int, direction: Tensor, coefficients: Tensor) -> Tensor:
    """F_v -> (R^l)^T P_ll' D R F_v^l' of one edge, for all pairs of degrees: (M, L+1, M).

    coefficients (2L+1,). With a single neighbour the softmax is one and the operator is this map: a unit
    vector per channel reads it off.
    """
    rows = (max_degree + 1) ** 2
    edges = Edges(torch.zeros(1, 1, dtype=torch.long), direction.reshape(1, 1, 3))
    radial = coefficients[None, :, None].expand(KNOTS, -1, rows)  # the same at every length
    features = torch.eye(rows, dtype=torch.float64)[None]
    queries = torch.zeros(1, rows, max_degree + 1, rows, dtype=torch.float64)
    return attend(features, queries, edges, radial, radial, 1)[0]


def clebsch_gordan_maps(to: int, source: int, direction: Tensor) -> Tensor:
    """Y^{l_e}(d) x F^{l'} -> l for all l_e, by e3nn. -> (l_e, 2l+1, 2l'+1)."""
    maps = []
    for degree in range(abs(to - source), to + source + 1):
        Y = o3.spherical_harmonics(degree, direction, normalize=True)
        maps.append(torch.einsum("efk,e->kf", o3.wigner_3j(degree, source, to, dtype=torch.float64), Y))
    return torch.stack(maps)


def distance_to_span(matrix: Tensor, basis: Tensor) -> float:
    columns = basis.flatten(1).T
    solution = torch.linalg.lstsq(columns, matrix.flatten()[:, None]).solution
    return float((columns @ solution - matrix.flatten()[:, None]).norm())


PAIRS = [(l, source) for l in range(4) for source in range(4)]


@pytest.mark.parametrize(("to", "source"), PAIRS)
def test_every_pair_of_degrees_spans_the_tensor_products_with_harmonics(to, source, attend):
    """The maps of eq. (QKV_SO2) for all radial coefficients are exactly those of eq. (QKV)."""
    direction, L = unit_vectors(9)[7], 3
    basis = clebsch_gordan_maps(to, source, direction)
    found = []
    for coefficients in torch.eye(2 * L + 1, dtype=torch.float64):
        block = edge_map(attend, L, direction, coefficients)[degree_rows(to), source][:, degree_rows(source)]
        assert distance_to_span(block, basis) < 1e-10
        found.append(block.flatten())
    assert torch.linalg.matrix_rank(torch.stack(found), atol=1e-8) == len(basis) == 2 * min(to, source) + 1


@pytest.mark.parametrize(("to", "source"), [p for p in PAIRS if min(p) > 0])
def test_other_maps_are_not_tensor_products_with_harmonics(to, source):
    """Negative controls: a random map, and D with the wrong sign of b or with two different a."""
    direction, L = unit_vectors(9)[7], 3
    basis = clebsch_gordan_maps(to, source, direction)
    generator = torch.Generator().manual_seed(0)
    some = torch.randn(2 * to + 1, 2 * source + 1, generator=generator, dtype=torch.float64)
    assert distance_to_span(some, basis) > 0.1
    r = frame_onto_y(direction)
    a, b = torch.rand(2, L + 1, generator=generator, dtype=torch.float64)

    def mapped(matrix: Tensor) -> Tensor:
        inner = matrix[L - to : L + to + 1, L - source : L + source + 1]
        return e3nn_wigner(r, to).T @ inner @ e3nn_wigner(r, source)

    D = so2_matrix(a, b[1:])
    assert distance_to_span(mapped(D), basis) < 1e-10
    wrong_sign, unequal = D.clone(), D.clone()
    wrong_sign[L - 1, L + 1] *= -1
    unequal[L - 1, L - 1] += 0.5
    assert distance_to_span(mapped(wrong_sign), basis) > 0.1
    assert distance_to_span(mapped(unequal), basis) > 0.1
