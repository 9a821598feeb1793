"""The compiled kernels are good citizens of torch: checked, faked, compiled and exported as operators of its own."""

import pytest
import torch
from support.attention_cases import DOUBLE, SINGLE, Case, assert_all_near_to_scale, forks, in_child, refuse, scattered
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from eda import kernels
from eda.kernels import Edges, attention_compiled

# Where dynamo cannot follow it says so, and then looks at the gradients of tensors that have none.
compiles = pytest.mark.filterwarnings("ignore::UserWarning")

# -- checks of torch ---------------------------------------------------------------------------------------


def backward_arguments(case: Case) -> tuple[Tensor, ...]:
    out, attention = attention_compiled.edge_attention(*case.tensors, case.num_heads)
    return torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out), attention, *case.tensors


def with_gradients(case: Case) -> Case:
    features, queries, vectors, neighbors, key, value = (t.detach().clone() for t in case.tensors)
    leaves = (t.requires_grad_() for t in (key, value))
    return Case(features.requires_grad_(), queries.requires_grad_(), vectors, neighbors, *leaves, case.num_heads)


def faults(operator, arguments, **which) -> dict[str, str]:
    """What torch's checks of an operator found."""
    found = torch.library.opcheck(operator, arguments, **which, raise_exception=False)
    assert found  # something was checked
    return {check: said for check, said in found.items() if said != "SUCCESS"}


@pytest.mark.parametrize(("dtype", "channels"), [(SINGLE, 6), (DOUBLE, 16)])
def test_torch_finds_no_fault_with_the_operators(dtype, channels):
    case = Case.random(2, channels, dtype=dtype)
    assert not faults(attention_compiled.edge_attention, (*with_gradients(case).tensors, case.num_heads))
    assert not faults(attention_compiled.edge_attention, (*case.tensors, case.num_heads))
    assert not faults(attention_compiled.edge_attention_backward, backward_arguments(case))


@pytest.mark.parametrize("operator", ["forward", "backward"])
def test_torch_finds_no_fault_where_tensors_are_not_contiguous(operator):
    case = scattered(Case.random())
    forward, arguments = operator == "forward", (*case.tensors, case.num_heads)
    assert not faults(
        attention_compiled.edge_attention if forward else attention_compiled.edge_attention_backward,
        arguments if forward else backward_arguments(case),
        test_utils="test_faketensor",
    )


# -- tensors without values --------------------------------------------------------------------------------


@forks
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_fake_tensors_without_gradients_have_the_right_shape(context):
    case = Case.random()

    def run() -> torch.Size:
        with FakeTensorMode() as mode, context():
            return Case(*[mode.from_tensor(t) for t in case.tensors], case.num_heads).run().shape

    assert in_child(run) == case.queries.shape


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_fake_tensors_have_the_right_shapes(dtype):
    case = Case.random(3, 10, dtype=dtype)
    with FakeTensorMode() as mode:
        fake = Case(*[mode.from_tensor(t) for t in case.tensors], case.num_heads)
        results = fake.results()
    for found, expected in zip(results, case.results(), strict=True):
        assert (found.shape, found.dtype, found.device) == (expected.shape, expected.dtype, expected.device)


def test_tensors_without_memory_have_the_right_shape(monkeypatch):
    case = Case.random()
    monkeypatch.setattr(attention_compiled, "_call", refuse)
    out = Case(*[t.to("meta") for t in case.tensors], case.num_heads).run()
    assert out.device.type == "meta"
    assert out.shape == case.queries.shape


# -- compiled and exported ---------------------------------------------------------------------------------


def attend(features: Tensor, queries: Tensor, edges: Edges, key: Tensor, value: Tensor, heads: int) -> Tensor:
    """A function around the operator, to be compiled."""
    return 2 * kernels.edge_attention(torch.tanh(features), queries, edges, key, value, heads)


@compiles
@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_it_can_be_compiled_by_torch(backend, fullgraph):
    torch._dynamo.reset()
    case = Case.random()
    compiled = torch.compile(attend, backend=backend, fullgraph=fullgraph)
    assert_all_near_to_scale(case.results(compiled), case.results(attend), 1e-14)
    other = Case.random(seed=1)
    assert_all_near_to_scale(other.results(compiled), other.results(attend), 1e-14)
    with torch.no_grad():
        assert_all_near_to_scale([other.run(compiled)], [other.run(attend)], 1e-14)


class Attending(torch.nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.key, self.value = torch.nn.Parameter(case.key_radial), torch.nn.Parameter(case.value_radial)

    def forward(self, features: Tensor, queries: Tensor, vectors: Tensor, neighbors: Tensor) -> Tensor:
        return kernels.edge_attention(features, queries, Edges(neighbors, vectors), self.key, self.value, 2)


@compiles
@pytest.mark.parametrize("strict", [False, True])
def test_it_can_be_exported_by_torch(strict):
    case = Case.random()
    exported = torch.export.export(Attending(case), case.tensors[:4], strict=strict)
    assert torch.ops.eda.edge_attention.default in [node.target for node in exported.graph.nodes]
    other = Case.random(seed=1)
    assert torch.equal(exported.module()(*other.tensors[:4]), Attending(case)(*other.tensors[:4]))
