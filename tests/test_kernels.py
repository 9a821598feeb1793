"""The compiled kernels: equal to their definitions, good citizens of torch, and not needed for anything to work."""

import ctypes
import faulthandler
import math
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from shapes import lumpy_pieces, lumpy_puzzle
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import eda.native
from eda import SE3, Eda, EdaConfig, NetworkConfig, kernels
from eda.cloud import farthest_points, farthest_points_reference
from eda.kernels import Edges, cpu, reference

SINGLE, DOUBLE = torch.float32, torch.float64
KNOTS = 7
NEEDS_THREADS = dict(receivers=300, senders=300, k=15, channels=16)  # enough work for two threads

# Where dynamo cannot follow it says so, and then looks at the gradients of tensors that have none.
compiles = pytest.mark.filterwarnings("ignore::UserWarning")
forks = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@dataclass(frozen=True)
class Case:
    """The arguments of the operator."""

    features: Tensor
    queries: Tensor
    vectors: Tensor
    neighbors: Tensor
    key_radial: Tensor
    value_radial: Tensor
    num_heads: int = 2

    @staticmethod
    def random(
        max_degree: int = 2,
        channels: int = 6,
        *,
        receivers: int = 7,
        senders: int = 9,
        k: int = 5,
        num_heads: int = 2,
        dtype: torch.dtype = DOUBLE,
        seed: int = 0,
    ) -> "Case":
        """Values of float32, in any precision. Some neighbours are missing, some edges have no length.

        The first receiver has no neighbours, the last one only such as lie where it lies.
        """
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator).to(dtype)

        L, M = max_degree, (max_degree + 1) ** 2
        neighbors = torch.randint(-1, senders, (receivers, k), generator=generator)
        neighbors[:1] = -1
        vectors = normal(receivers, k, 3)
        vectors[-1:] = 0
        vectors[receivers // 2, : k // 3] = 0
        spread = 1 / math.sqrt(M * (L + 1) * channels / num_heads)  # of queries, so that a logit is about one
        return Case(
            normal(senders, M, channels),
            normal(receivers, M, L + 1, channels) * spread,
            vectors,
            neighbors,
            normal(KNOTS, 2 * L + 1, channels),
            normal(KNOTS, 2 * L + 1, channels),
            num_heads,
        )

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (*self.leaves[:2], self.vectors, self.neighbors, *self.leaves[2:])

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        """What has gradients."""
        return self.features, self.queries, self.key_radial, self.value_radial

    def to(self, dtype: torch.dtype) -> "Case":
        tensors = (t.to(dtype) if t.is_floating_point() else t for t in self.tensors)
        return Case(*tensors, self.num_heads)

    def run(self, attend: Callable = kernels.edge_attention) -> Tensor:
        return attend(
            self.features,
            self.queries,
            Edges(self.neighbors, self.vectors),
            self.key_radial,
            self.value_radial,
            self.num_heads,
        )

    def results(self, attend: Callable = kernels.edge_attention) -> list[Tensor]:
        """The output, and the gradients of the leaves under a fixed pull."""
        leaves = [t.detach().clone().requires_grad_() for t in self.leaves]
        features, queries, key, value = leaves
        case = replace(self, features=features, queries=queries, key_radial=key, value_radial=value)
        out = case.run(attend)
        pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
        return [out.detach(), *torch.autograd.grad((out * pull).sum(), leaves)]


def assert_near(found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    """Each to a tolerance relative to its largest entry."""
    for one, two in zip(found, expected, strict=True):
        assert one.shape == two.shape
        largest = max(float(two.abs().max()), 1e-30) if two.numel() else 0.0
        torch.testing.assert_close(one.to(two), two, rtol=0, atol=tolerance * largest)


def assert_same(found: list[Tensor], expected: list[Tensor]) -> None:
    """Bit for bit."""
    assert all(torch.equal(one, two) for one, two in zip(found, expected, strict=True))


def refuse(*_: object) -> None:
    raise AssertionError("the compiled module was called")


@pytest.fixture
def use_threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def load_from(monkeypatch) -> Iterator[Callable[[Path], None]]:
    """Looks for the compiled module in another folder."""

    def use(folder: Path) -> None:
        monkeypatch.setattr(eda.native, "__file__", str(folder / "__init__.py"))
        eda.native.library.cache_clear()

    yield use
    monkeypatch.undo()
    eda.native.library.cache_clear()


def in_child(action: Callable[[], object]) -> object:
    """What an action returns, or the error it raises, in a forked process. It fails if that process dies."""
    fork = multiprocessing.get_context("fork")
    receiving, sending = fork.Pipe(duplex=False)

    def run() -> None:
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            sending.send(action())
        except Exception as error:
            sending.send(error)

    child = fork.Process(target=run)
    child.start()
    sending.close()
    try:
        result = receiving.recv() if receiving.poll(60) else "nothing for a minute"
    except EOFError:
        result = "died"
    child.join(5)
    if child.exitcode is None:
        child.kill()
        child.join()
    assert child.exitcode == 0, f"exit code {child.exitcode}: {result}"
    return result


def test_the_compiled_module_is_used(monkeypatch):
    """All below would hold without it, and say nothing."""
    assert eda.native.library() is not None
    monkeypatch.setattr(cpu, "_call", refuse)
    with pytest.raises(AssertionError, match="was called"):
        Case.random().run()


# -- values and gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize("max_degree", [1, 2, 3])
@pytest.mark.parametrize("channels", [2, 6, 10, 16, 20])
def test_values_and_gradients_are_those_of_the_definition(max_degree, channels):
    case = Case.random(max_degree, channels)
    expected = case.results(reference.edge_attention)
    assert all(t.abs().max() > 0 for t in expected)
    assert_near(case.results(), expected, 1e-12)


@pytest.mark.parametrize(("channels", "num_heads"), [(6, 1), (6, 3), (6, 6), (20, 4), (20, 5), (1, 1)])
def test_heads_are_those_of_the_definition(channels, num_heads):
    case = Case.random(2, channels, num_heads=num_heads)
    assert_near(case.results(), case.results(reference.edge_attention), 1e-12)


SIZES = {
    "all pairs": dict(receivers=71, senders=71, k=70),
    "no receivers": dict(receivers=0),
    "no neighbours": dict(k=0),
    "one sender": dict(senders=1),
    "one edge": dict(receivers=2, senders=1, k=1),
    "more receivers than senders": dict(receivers=40, senders=3),
}


def sized(name: str) -> Case:
    if name == "no receivers":  # the special edges of `random` need receivers
        some = Case.random()
        return replace(some, queries=some.queries[:0], vectors=some.vectors[:0], neighbors=some.neighbors[:0])
    return Case.random(2, 6, **SIZES[name])


@pytest.mark.parametrize("name", SIZES)
def test_sizes_of_all_kinds_are_those_of_the_definition(name):
    case = sized(name)
    assert_near(case.results(), case.results(reference.edge_attention), 1e-12)


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_receivers_that_see_nothing_get_zero(dtype):
    out, _, d_queries, *_ = Case.random(dtype=dtype).results()
    for alone in (0, -1):
        assert (out[alone] == 0).all()
        assert (d_queries[alone] == 0).all()
    assert (out[1:-1].flatten(1).norm(dim=1) > 0).all()


@pytest.mark.parametrize("max_degree", [1, 2, 3])
@pytest.mark.parametrize("sizes", [dict(channels=6), dict(channels=20), dict(receivers=71, senders=71, k=70)])
def test_float32_is_near_the_float64_definition(max_degree, sizes):
    case = Case.random(max_degree, dtype=SINGLE, **sizes)
    found = case.results()
    assert {t.dtype for t in found} == {SINGLE}
    assert_near(found, case.to(DOUBLE).results(reference.edge_attention), 1e-4)


@pytest.mark.parametrize("length", [1e-4, 1e-2, 1e2, 1e6, 1e15])
@pytest.mark.parametrize(("dtype", "tolerance"), [(SINGLE, 1e-4), (DOUBLE, 1e-12)])
def test_short_and_long_edges_are_those_of_the_definition(length, dtype, tolerance):
    case = Case.random(dtype=dtype)
    case = replace(case, vectors=case.vectors * length)
    assert_near(case.results(), case.to(DOUBLE).results(reference.edge_attention), tolerance)


def test_edges_along_the_axes_are_those_of_the_definition():
    axes = torch.eye(3, dtype=DOUBLE).repeat(2, 1) * torch.tensor([1.0] * 3 + [-1.0] * 3).to(DOUBLE)[:, None]
    case = Case.random(3, k=6)
    case = replace(case, vectors=axes.expand(7, 6, 3), neighbors=case.neighbors.clamp(min=0))
    assert_near(case.results(), case.results(reference.edge_attention), 1e-12)


def test_large_logits_do_not_overflow():
    case = Case.random(dtype=SINGLE)
    assert all(t.isfinite().all() for t in replace(case, queries=1e6 * case.queries).results())


def out_of_order(tensor: Tensor) -> Tensor:
    """The same values with the strides of another order of axes."""
    axes = list(range(tensor.ndim))[::-1]
    return tensor.permute(axes).contiguous().permute(axes)


def scattered(case: Case) -> Case:
    return Case(*map(out_of_order, case.tensors), case.num_heads)


def test_tensors_need_not_be_contiguous():
    case = Case.random()
    other = scattered(case)
    assert not any(t.is_contiguous() for t in other.tensors)
    assert_same(other.results(), case.results())


def test_a_gradient_need_not_be_contiguous():
    case = Case.random()
    leaf = case.features.clone().requires_grad_()
    out = replace(case, features=leaf).run()
    pull = torch.randn_like(out)
    one, two = (torch.autograd.grad(out, leaf, p, retain_graph=True)[0] for p in (pull, out_of_order(pull)))
    assert torch.equal(one, two)
    (ones,) = torch.autograd.grad(out.sum(), leaf, retain_graph=True)  # an expanded number
    (same,) = torch.autograd.grad(out, leaf, torch.ones_like(out))
    assert torch.equal(ones, same)


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_values_without_gradients_are_the_same_bits(dtype, context):
    case = Case.random(dtype=dtype)
    with context():
        out, scattered_out = case.run(), scattered(case).run()
    assert not out.requires_grad
    assert_same([out, scattered_out], [case.run()] * 2)


def test_inputs_are_left_alone():
    case = Case.random()
    before = [t.clone() for t in case.tensors]
    case.results()
    assert_same(list(case.tensors), before)


def test_a_second_derivative_is_refused_and_not_wrong():
    case = Case.random()
    leaf = case.features.clone().requires_grad_()
    out = replace(case, features=leaf).run()
    with pytest.raises(RuntimeError, match="edge_attention_backward"):
        torch.autograd.grad(out.square().sum(), leaf, create_graph=True)[0].sum().backward()


# -- the same bits -----------------------------------------------------------------------------------------


class Spy:
    """The compiled module, and how many threads its calls asked for."""

    def __init__(self) -> None:
        self.library, self.threads = eda.native.library(), []

    def __getattr__(self, name: str) -> Callable:
        function = getattr(self.library, name)
        return lambda *given: self.threads.extend(given[15:16]) or function(*given)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_the_same_input_and_threads_give_the_same_bits(threads, dtype, use_threads, monkeypatch):
    spy, case = Spy(), Case.random(**NEEDS_THREADS, dtype=dtype)
    monkeypatch.setattr(cpu, "library", lambda: spy)
    use_threads(threads)
    first = case.results()
    assert spy.threads == [threads, threads]
    for _ in range(3):
        assert_same(case.results(), first)


@pytest.mark.parametrize(("dtype", "tolerance"), [(SINGLE, 1e-5), (DOUBLE, 1e-13)])
def test_threads_change_nothing_but_rounding(dtype, tolerance, use_threads):
    case, results = Case.random(**NEEDS_THREADS, dtype=dtype), []
    for threads in (1, 2, 3, 7):
        use_threads(threads)
        results.append(case.results())
    for other in results[1:]:
        assert_same(other[:1] + other[2:3], results[0][:1] + results[0][2:3])  # what no two receivers share
        assert_near(other, results[0], tolerance)


@pytest.mark.parametrize("overlap", [0, 1, 40])
@pytest.mark.parametrize("descending", [False, True])
def test_receivers_that_look_at_windows_of_senders_get_all_gradients(overlap, descending, use_threads):
    # As in pieces, one after the other: where the windows of threads are apart, gradients are written without a copy.
    case = Case.random(**NEEDS_THREADS)
    window = 100 * (torch.arange(300) // 100)
    near = case.neighbors % (100 + overlap)
    first = (200 - window if descending else window)[:, None]
    neighbors = torch.where(case.neighbors < 0, case.neighbors, (first + near).clamp(max=299))
    neighbors[100:200] = -1 if overlap == 1 else neighbors[100:200]  # a thread whose receivers look at nothing
    case = replace(case, neighbors=neighbors)
    expected = case.results(reference.edge_attention)
    for threads in (1, 2, 3, 5):
        use_threads(threads)
        assert_near(case.results(), expected, 1e-12)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "GOMP_parallel"), reason="torch brought no OpenMP runtime")
def test_threads_of_our_own_give_the_bits_of_a_lent_team(use_threads):
    case, native = Case.random(**NEEDS_THREADS), eda.native.library()
    team = ctypes.cast(ctypes.CDLL(None).GOMP_parallel, ctypes.c_void_p)
    use_threads(3)
    lent = case.results()
    native.eda_lend_team(None)
    try:
        assert_same(case.results(), lent)
    finally:
        native.eda_lend_team(team)


def test_more_threads_than_receivers_are_not_used(use_threads):
    case = Case.random(2, 64, receivers=3, senders=300, k=300)
    expected = case.results(reference.edge_attention)
    use_threads(16)
    assert_near(case.results(), expected, 1e-12)


def test_little_work_is_done_by_one_thread(use_threads, monkeypatch):
    spy = Spy()
    monkeypatch.setattr(cpu, "library", lambda: spy)
    use_threads(2)
    Case.random().results()
    assert spy.threads == [1, 1]


def test_threads_of_python_do_not_meet(use_threads):
    cases = [Case.random(**NEEDS_THREADS, seed=seed) for seed in range(4)]
    use_threads(2)
    expected = [case.results() for case in cases]
    with ThreadPoolExecutor(4) as pool:
        for found, alone in zip(pool.map(Case.results, cases), expected, strict=True):
            assert_same(found, alone)


@forks
def test_a_forked_process_may_use_threads(use_threads, monkeypatch):
    # Small enough for torch to use one thread itself: its own pool does not survive a fork.
    spy, case = Spy(), Case.random(receivers=70, senders=60, k=40, channels=16)
    monkeypatch.setattr(cpu, "library", lambda: spy)
    use_threads(2)
    expected = case.results()
    assert spy.threads == [2, 2]
    found = in_child(lambda: [t.numpy() for t in case.results()])
    assert_same([torch.from_numpy(a) for a in found], expected)
    assert_same(case.results(), expected)


@forks
def test_a_thread_that_cannot_be_started_is_an_error_or_not_needed(monkeypatch):
    case = Case.random(receivers=400, senders=20, k=200, channels=16)
    expected = case.run()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)

    def run() -> np.ndarray:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        room = pages * resource.getpagesize() + 60 * 2**20  # for some of the threads, not for all
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
        with torch.no_grad():
            return case.run().numpy()

    found = in_child(run)
    assert isinstance(found, MemoryError) or np.array_equal(found, expected.numpy())


# -- a good citizen of torch -------------------------------------------------------------------------------


def backward_arguments(case: Case) -> tuple[Tensor, ...]:
    out, attention = cpu.edge_attention(*case.tensors, case.num_heads)
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
    assert not faults(cpu.edge_attention, (*with_gradients(case).tensors, case.num_heads))
    assert not faults(cpu.edge_attention, (*case.tensors, case.num_heads))
    assert not faults(cpu.edge_attention_backward, backward_arguments(case))


@pytest.mark.parametrize("operator", ["forward", "backward"])
def test_torch_finds_no_fault_where_tensors_are_not_contiguous(operator):
    case = scattered(Case.random())
    forward, arguments = operator == "forward", (*case.tensors, case.num_heads)
    assert not faults(
        cpu.edge_attention if forward else cpu.edge_attention_backward,
        arguments if forward else backward_arguments(case),
        test_utils="test_faketensor",
    )


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
    monkeypatch.setattr(cpu, "_call", refuse)
    out = Case(*[t.to("meta") for t in case.tensors], case.num_heads).run()
    assert out.device.type == "meta"
    assert out.shape == case.queries.shape


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
    assert_near(case.results(compiled), case.results(attend), 1e-14)
    other = Case.random(seed=1)
    assert_near(other.results(compiled), other.results(attend), 1e-14)
    with torch.no_grad():
        assert_near([other.run(compiled)], [other.run(attend)], 1e-14)


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


# -- what the compiled module does not serve ---------------------------------------------------------------


# In a process of its own, since degree 0 writes where it must not.
@forks
@pytest.mark.parametrize("max_degree", [0, 4, 5])
def test_other_degrees_are_left_to_the_definition(max_degree, monkeypatch):
    monkeypatch.setattr(cpu, "_call", refuse)
    case = Case.random(max_degree)
    found = in_child(lambda: [t.numpy() for t in case.results()])
    assert not isinstance(found, Exception), found
    assert_same([torch.from_numpy(a) for a in found], case.results(reference.edge_attention))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.1), (torch.float16, 0.02)])
def test_half_precision_is_left_to_the_definition(dtype, tolerance, monkeypatch):
    monkeypatch.setattr(cpu, "_call", refuse)
    case = Case.random(dtype=dtype)
    found = case.results()
    assert {t.dtype for t in found} == {dtype}
    assert_near(found, case.to(DOUBLE).results(reference.edge_attention), tolerance)


def changed(**changes: Callable[[Case], object]) -> Case:
    case = Case.random()
    return replace(case, **{name: change(case) for name, change in changes.items()})


def with_a_neighbour(row: int) -> Tensor:
    neighbors = Case.random().neighbors.clone()
    neighbors[1, 1] = row
    return neighbors


MISFITS = {
    "queries in float32": lambda: changed(queries=lambda case: case.queries.float()),
    "vectors in float32": lambda: changed(vectors=lambda case: case.vectors.float()),
    "a table in float32": lambda: changed(key_radial=lambda case: case.key_radial.float()),
    "neighbours in int32": lambda: changed(neighbors=lambda case: case.neighbors.int()),
    "a neighbour that is not there": lambda: changed(neighbors=lambda case: with_a_neighbour(10**9)),
    "heads that do not split the channels": lambda: changed(num_heads=lambda case: 4),
    "more heads than channels": lambda: changed(num_heads=lambda case: 7),
    "no heads": lambda: changed(num_heads=lambda case: 0),
    "queries of fewer channels": lambda: changed(queries=lambda case: case.queries[..., :4]),
    "fewer queries": lambda: changed(queries=lambda case: case.queries[:3]),
    "a table of fewer functions": lambda: changed(value_radial=lambda case: case.value_radial[:, :3]),
    "tables of two lengths": lambda: changed(value_radial=lambda case: case.value_radial[:5]),
    "a table of three knots": lambda: changed(
        key_radial=lambda case: case.key_radial[:3], value_radial=lambda case: case.value_radial[:3]
    ),
}


@forks
@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_is_an_error_or_right(name):
    """Never a crash, and never a result that the definition would not give."""
    case = MISFITS[name]()
    found = in_child(lambda: case.run().numpy())
    if not isinstance(found, Exception):
        assert_near([torch.from_numpy(found)], [case.run(reference.edge_attention)], 1e-5)


FAR = {"float32": (SINGLE, 1e20, 1e-5), "float32, at its end": (SINGLE, 5e37, 1e-5), "float64": (DOUBLE, 1e160, 1e-12)}


@forks
@pytest.mark.parametrize("name", FAR)
def test_edges_whose_squares_overflow_are_those_of_the_definition(name):
    """Beyond 1e16 the length does not matter any more, so the definition need not overflow."""
    dtype, length, tolerance = FAR[name]
    case = Case.random(dtype=dtype)
    far, near = (replace(case, vectors=case.vectors * scale) for scale in (length, 1e16))
    assert far.vectors.isfinite().all()
    found = in_child(lambda: [t.numpy() for t in far.results()])
    assert not isinstance(found, Exception), found
    expected = near.to(DOUBLE).results(reference.edge_attention)
    assert_near([torch.from_numpy(a) for a in found], expected, tolerance)


@forks
@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_edges_that_are_not_finite_are_left_out(value, dtype):
    """By the compiled module and by the definition: as if there were no such neighbour."""
    case, without = Case.random(dtype=dtype), Case.random(dtype=dtype)
    for axis in range(3):
        case.vectors[1 + axis, axis:, axis] = value
        without.neighbors[1 + axis, axis:] = -1
    found = in_child(lambda: [t.numpy() for t in case.results()])
    assert not isinstance(found, Exception), found
    assert_same([torch.from_numpy(a) for a in found], without.results())
    assert_same(case.results(reference.edge_attention), without.results(reference.edge_attention))


@forks
def test_a_piece_very_far_away_does_not_crash():
    model, pieces = Eda(TINY), lumpy_pieces(2, 12, dtype=SINGLE)
    far = SE3(torch.eye(3).expand(2, 3, 3), torch.tensor([[0.0, 0.0, 0.0], [5e18, 0.0, 0.0]]))
    found = in_child(lambda: model.velocity(pieces, far, 0.5).detach().numpy())
    assert found.shape == (2, 6)


# -- the reference on demand -------------------------------------------------------------------------------


def is_compiled() -> bool:
    """Whether a call reaches the compiled module, with and without gradients."""
    reached = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "_call", lambda *_: reached.append(torch.is_grad_enabled()))
        Case.random().run()
        with torch.no_grad():
            Case.random().run()
    assert len(set(reached)) in (0, 2)
    return bool(reached)


def test_reference_only_switches_and_restores():
    assert is_compiled()
    with kernels.reference_only():
        assert not is_compiled()
        case = Case.random()
        assert_same(case.results(), case.results(reference.edge_attention))
    assert is_compiled()


def test_reference_only_restores_after_an_error():
    with pytest.raises(ZeroDivisionError), kernels.reference_only():
        raise ZeroDivisionError
    assert is_compiled()


def test_reference_only_may_be_nested():
    with kernels.reference_only():
        with kernels.reference_only():
            assert not is_compiled()
        assert not is_compiled()
    assert is_compiled()


# -- the whole network -------------------------------------------------------------------------------------

TINY = EdaConfig(
    NetworkConfig(num_levels=2, num_blocks=1, num_neighbors=4, cross_neighbors=3, channels=8, num_heads=2, num_knots=5)
)


def gradients(model: Eda) -> list[Tensor]:
    """Of the loss, all parameters in order; the loss comes first."""
    model.zero_grad()
    loss = model.loss(lumpy_puzzle(3, 14), draws=2, generator=torch.Generator().manual_seed(0)).total
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters())]


@pytest.mark.parametrize(
    "options",
    [
        dict(max_degree=1, normals="absent"),
        dict(channels=6),
        dict(max_degree=3, cross_neighbors=None),
        dict(time_in_encoder=False),
    ],
    ids=["degree 1", "6 channels", "degree 3, all neighbours", "no time in the encoder"],
)
def test_gradients_of_the_loss_are_those_of_the_definition(options):
    model = Eda(replace(TINY, network=replace(TINY.network, **options))).double()
    found = gradients(model)
    with kernels.reference_only():
        expected = gradients(model)
    assert sum(bool(t.abs().max() > 0) for t in expected) > 0.9 * len(expected)
    assert any(not torch.equal(one, two) for one, two in zip(found, expected, strict=True))
    assert_near(found, expected, 1e-10)


# -- without the compiled module, and with lesser instructions ---------------------------------------------


def test_without_the_compiled_module_all_is_the_same_after_one_warning(load_from, tmp_path):
    case, cloud = Case.random(), np.random.default_rng(0).normal(size=(50, 3))
    model, pieces = Eda(TINY).double(), lumpy_pieces(2, 12)
    compiled = model.velocity(pieces, SE3.identity(2, dtype=DOUBLE), 0.5).detach()
    load_from(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert eda.native.library() is None
        results = case.results()
        chosen = farthest_points(cloud, 20)
        plain = model.velocity(pieces, SE3.identity(2, dtype=DOUBLE), 0.5).detach()
    assert [w.category for w in caught] == [RuntimeWarning]
    assert "compiled module is missing" in str(caught[0].message)
    assert "C++17 compiler" in str(caught[0].message)
    assert_same(results, case.results(reference.edge_attention))
    assert np.array_equal(chosen, farthest_points_reference(cloud, 20)[0])
    assert_near([plain], [compiled], 1e-10)


@pytest.mark.parametrize("first", ["attention", "farthest points"])
def test_the_warning_comes_with_the_first_use(load_from, tmp_path, first):
    load_from(tmp_path)
    with pytest.warns(RuntimeWarning, match="compiled module is missing"):
        Case.random().run() if first == "attention" else farthest_points(np.eye(3), 2)
    with warnings.catch_warnings(record=True) as later:
        warnings.simplefilter("always")
        Case.random().run()
        farthest_points(np.eye(3), 2)
    assert not later  # it comes once


@pytest.mark.parametrize(("isa", "width"), [("baseline", 16), ("avx2", 32)])
def test_lesser_instructions_change_nothing_but_rounding(load_from, tmp_path, monkeypatch, isa, width):
    """A copy of the module is a second one, which chooses its instructions anew."""
    cases = [Case.random(L, 10, dtype=dtype) for L in (1, 2, 3) for dtype in (SINGLE, DOUBLE)]
    expected, best = [case.results() for case in cases], eda.native.library().eda_lanes(4)
    shutil.copy(eda.native.library()._name, tmp_path / "_core_copy.so")
    monkeypatch.setenv("EDA_ISA", isa)
    load_from(tmp_path)
    assert eda.native.library().eda_lanes(4) == min(width // 4, best)
    for case, default in zip(cases, expected, strict=True):
        assert_near(case.results(), default, 1e-5 if case.features.dtype == SINGLE else 1e-12)


# Without torch, which takes seconds to start.
SCRIPT = """
import numpy, sys
from eda.native import library
with numpy.load(sys.argv[1]) as file:
    inputs = [file[name] for name in file]
features, queries, vectors, neighbors, key, value, stretch = inputs
out, attention = numpy.empty_like(queries), numpy.empty((*neighbors.shape, 2), numpy.float32)
sizes = (len(queries), len(features), neighbors.shape[1], 2, 16, 16, 2, len(key), 1)
pointers = [array.ctypes.data for array in (*inputs, out, attention)]
assert library().eda_attention_forward_f32(*pointers[:7], *sizes, *pointers[7:]) == 0
numpy.save(sys.argv[2], out)
print(library().eda_lanes(4), library().eda_lanes(8))
"""


def test_another_process_may_ask_for_lesser_instructions(tmp_path):
    case = Case.random(2, 16, dtype=SINGLE)  # channels that fill the registers
    np.savez(tmp_path / "inputs.npz", *[t.numpy() for t in case.tensors], cpu._stretches(2))
    words = [sys.executable, "-c", SCRIPT, str(tmp_path / "inputs.npz"), str(tmp_path / "out.npy")]
    environment = {**os.environ, "EDA_ISA": "baseline"}
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment, check=True)
    assert ran.stdout.split() == ["4", "2"]
    assert_near([torch.from_numpy(np.load(tmp_path / "out.npy"))], [case.run()], 1e-5)


# -- farthest points ---------------------------------------------------------------------------------------


def random_cloud(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.normal(size=(size, 3))


def doubled_cloud(rng: np.random.Generator, size: int) -> np.ndarray:
    few = 1 + size // 4
    return rng.normal(size=(few, 3))[rng.integers(few, size=size)]


def lattice_cloud(rng: np.random.Generator, size: int) -> np.ndarray:
    """With one point that is farther from the centroid than all others."""
    return np.concatenate([[[90.0, 70.0, 50.0]], rng.integers(4, size=(size, 3))])[:size]


def flat_cloud(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.normal(size=(size, 3)) * [1.0, 0.0, 1.0]


def one_place(rng: np.random.Generator, size: int) -> np.ndarray:
    return np.full((size, 3), 0.3)


def tied_cloud(rng: np.random.Generator, size: int) -> np.ndarray:
    """Of which several points may be the farthest from the centroid."""
    return rng.integers(3, size=(size, 3)).astype(np.float64)


def even_line(rng: np.random.Generator, size: int) -> np.ndarray:
    return np.arange(size)[:, None] * np.array([1.0, 0.0, 0.0])


CLOUDS = [
    random_cloud,
    doubled_cloud,
    lattice_cloud,
    flat_cloud,
    one_place,
    tied_cloud,
    even_line,
]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_farthest_points_are_exactly_those_of_the_definition(cloud):
    rng = np.random.default_rng(0)
    for size in range(1, 201):
        points = cloud(rng, size)
        assert np.array_equal(farthest_points(points, size), farthest_points_reference(points, size)[0]), size


@pytest.mark.parametrize("cloud", [random_cloud, doubled_cloud, lattice_cloud])
def test_farthest_points_of_a_large_cloud_are_exactly_those_of_the_definition(cloud):
    points = cloud(np.random.default_rng(0), 5000)
    assert np.array_equal(farthest_points(points, 1000), farthest_points_reference(points, 1000)[0])
