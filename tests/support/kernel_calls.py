"""Random calls of every compiled function, valid and wrong, each with what its definition gives.

A valid call must equal the definition. A wrong call must be refused in words, or equal the definition as well.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eda.cloud import farthest_points_and_gaps, farthest_points_reference
from eda.errors import InputError
from eda.kernels import Edges, attention_compiled, attention_reference, pointwise_compiled, pointwise_reference
from eda.kernels.nearest import AXES, NearestTable
from eda.native import library

# Of results, relative to their largest entry.
TOLERANCE = {torch.float32: 5e-4, torch.float64: 1e-9}
REFUSALS = (InputError, RuntimeError, TypeError)  # ours, and those of torch for tensors of mixed kinds

Arguments = dict[str, Any]
Results = tuple[Any, ...]


@dataclass(frozen=True)
class Call:
    """A compiled function, its definition, and arguments for both."""

    name: str
    compiled: Callable[..., Results]
    definition: Callable[..., Results]
    arguments: Arguments
    near: Callable[[Results, Results], bool]
    near_if_spoiled: Callable[[Results, Results], bool] | None = None  # where another argument follows from this one
    never_wrong: tuple[str, ...] = ()  # arguments that no caller can choose: autograd kept them

    def check(self) -> str:
        """ "equal" or "refused". It fails if the call gives anything else."""
        try:
            found = self.compiled(**self.arguments)
        except REFUSALS as error:
            return "refused" if str(error) else "refused without a word"
        assert self.near(found, self.definition(**self.arguments)), f"{self.name} is not what it should be"
        return "equal"

    def spoiled(self, rng: np.random.Generator) -> "Call":
        """The same call with one argument that probably does not fit."""
        name = rng.choice([name for name in self.arguments if name not in self.never_wrong])
        arguments = {**self.arguments, name: spoil(self.arguments[name], rng)}
        return replace(self, arguments=arguments, near=self.near_if_spoiled or self.near)


def random_call(rng: np.random.Generator, name: str | None = None) -> Call:
    """A valid call, of any function or of the one with this name."""
    return DRAWN[name or rng.choice(list(DRAWN))](rng)


# -- valid calls -------------------------------------------------------------------------------------------


def attention(rng: np.random.Generator) -> Call:
    return Call("attention", attention_compiled.forward, _attention_definition, _attention_arguments(rng), _near)


def attention_backward(rng: np.random.Generator) -> Call:
    arguments = _attention_arguments(rng)
    heads = arguments.pop("num_heads")
    _, alpha = attention_compiled.forward(**arguments, num_heads=heads)
    arguments = {"gradient": _normal(rng, arguments["queries"].shape).to(alpha.dtype), "attention": alpha, **arguments}
    compiled = attention_compiled.edge_attention_backward
    return Call("attention_backward", compiled, _attention_backward_definition, arguments, _near, _same_shapes)


def product(rng: np.random.Generator) -> Call:
    dtype, points, degree, _ = _sizes(rng)
    first, inputs, outputs = int(rng.integers(0, degree + 2)), int(rng.integers(1, 20)), _channels(rng, dtype)
    bias = _normal(rng, (outputs,)).to(dtype) if first == 0 and rng.random() < 0.5 else None
    arguments = {
        "features": _normal(rng, (points, (degree + 1) ** 2, inputs)).to(dtype),
        "weight": _normal(rng, (degree + 1 - first, inputs, outputs)).to(dtype),
        "bias": bias,
        "first_degree": first,
    }
    definition = _as_results(pointwise_reference.degree_product)
    return Call("product", _as_results(pointwise_compiled.degree_product), definition, arguments, _near)


def norm(rng: np.random.Generator) -> Call:
    compiled, definition = (_as_results(m.equivariant_norm) for m in (pointwise_compiled, pointwise_reference))
    return Call("norm", compiled, definition, _norm_arguments(rng), _near)


def norm_backward(rng: np.random.Generator) -> Call:
    arguments = _norm_arguments(rng)
    arguments["gradient"] = torch.randn_like(arguments["features"])
    compiled, definition = _kept(pointwise_compiled._Norm), _gradients(pointwise_reference.equivariant_norm)
    return Call("norm_backward", compiled, definition, arguments, _near, never_wrong=("features", "gain"))


def gelu(rng: np.random.Generator) -> Call:
    compiled, definition = (_as_results(m.equivariant_gelu) for m in (pointwise_compiled, pointwise_reference))
    return Call("gelu", compiled, definition, _gelu_arguments(rng), _near)


def gelu_backward(rng: np.random.Generator) -> Call:
    arguments = _gelu_arguments(rng)
    arguments["gradient"] = torch.randn_like(arguments["features"])
    compiled, definition = _kept(pointwise_compiled._Gelu), _gradients(pointwise_reference.equivariant_gelu)
    return Call("gelu_backward", compiled, definition, arguments, _near, never_wrong=("features", "toward"))


def nearest(rng: np.random.Generator) -> Call:
    arguments = {
        "table": rng.normal(size=(rng.integers(1, 80), AXES)),
        "points": rng.normal(size=(rng.integers(60), AXES)),
    }
    return Call(
        "nearest", lambda table, points: (NearestTable(table).nearest(points),), _distances, arguments, _as_near
    )


def farthest(rng: np.random.Generator) -> Call:
    count = int(rng.integers(1, 200))
    points = rng.normal(size=(count, 3))
    if rng.random() < 0.3:
        points = points.round()  # many coincide
    arguments = {"points": points, "count": int(rng.integers(1, count + 1))}
    return Call("farthest", farthest_points_and_gaps, farthest_points_reference, arguments, _same)


DRAWN = {
    function.__name__: function
    for function in (
        attention, attention_backward, product, norm, norm_backward, gelu, gelu_backward, nearest, farthest,
    )
}  # fmt: skip


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(rng.normal(size=shape))


def _sizes(rng: np.random.Generator) -> tuple[torch.dtype, int, int, int]:
    """A precision, a number of points, a degree, and whole registers of channels."""
    dtype = (torch.float32, torch.float64)[rng.integers(2)]
    return dtype, int(rng.choice([0, 1, 2, 5, 32, 71])), int(rng.integers(0, 4)), _channels(rng, dtype)


def _channels(rng: np.random.Generator, dtype: torch.dtype) -> int:
    return int(rng.integers(1, 4)) * library().eda_lanes(dtype.itemsize)


def _norm_arguments(rng: np.random.Generator) -> Arguments:
    dtype, points, degree, channels = _sizes(rng)
    gain = (points, channels) if rng.random() < 0.5 else (channels,)
    features = _normal(rng, (points, (degree + 1) ** 2, channels))
    return {"features": features.to(dtype), "gain": _normal(rng, gain).to(dtype)}


def _gelu_arguments(rng: np.random.Generator) -> Arguments:
    dtype, points, degree, channels = _sizes(rng)
    rows = (degree + 1) ** 2
    features, toward = _normal(rng, (points, rows, channels)), _normal(rng, (points, rows - 1, channels))
    return {"features": features.to(dtype), "toward": toward.to(dtype)}


def _attention_arguments(rng: np.random.Generator) -> Arguments:
    dtype = (torch.float32, torch.float64)[rng.integers(2)]
    degree, heads, knots = int(rng.integers(1, 4)), int(rng.choice([1, 2, 3, 5])), int(rng.integers(4, 9))
    channels = heads * int(rng.integers(1, 9))
    receivers, senders, k = (int(rng.choice(sizes)) for sizes in ([0, 1, 3, 40], [0, 1, 7, 30], [0, 1, 5, 17]))
    rows, table = (degree + 1) ** 2, (knots, 2 * degree + 1, channels)
    vectors = _normal(rng, (receivers, k, 3)) * 10 ** rng.uniform(-3, 3)
    vectors[torch.from_numpy(rng.random((receivers, k)) < 0.1)] = rng.choice([0.0, 1e30, math.inf, math.nan])
    floats = {
        "features": _normal(rng, (senders, rows, channels)),
        "queries": _normal(rng, (receivers, rows, degree + 1, channels)) / math.sqrt(rows * (degree + 1) * channels),
        "vectors": vectors,
        "key_radial": _normal(rng, table),
        "value_radial": _normal(rng, table),
    }
    arguments = {name: tensor.to(dtype) for name, tensor in floats.items()}
    return {**arguments, "neighbors": torch.from_numpy(rng.integers(-1, senders, (receivers, k))), "num_heads": heads}


def _attention_definition(
    features: Tensor, queries: Tensor, vectors: Tensor, neighbors: Tensor, num_heads: int, **tables: Tensor
) -> Results:
    exact = {name: table.double() for name, table in tables.items()}
    if not len(features):  # the definition reads a sender for every edge, also where there is none
        features = features.new_zeros(1, *features.shape[1:])
    edges = Edges(neighbors, vectors.double())
    return (
        attention_reference.edge_attention(features.double(), queries.double(), edges, **exact, num_heads=num_heads),
    )


def _attention_backward_definition(gradient: Tensor, attention: Tensor, **arguments: Tensor) -> Results:
    names = ("features", "queries", "key_radial", "value_radial")
    leaves = {name: arguments[name].double().requires_grad_() for name in names}
    (out,) = _attention_definition(**{**arguments, **leaves}, num_heads=attention.shape[2])
    return torch.autograd.grad(out, list(leaves.values()), gradient.double(), materialize_grads=True)


def _as_results(function: Callable[..., Tensor]) -> Callable[..., Results]:
    return lambda **arguments: (function(*arguments.values()),)


def _kept(function: type[torch.autograd.Function]) -> Callable[..., Results]:
    """The gradients by the compiled backward, after a forward that kept what it needs."""

    def backward(gradient: Tensor, **arguments: Tensor) -> Results:
        context = SimpleNamespace()
        context.save_for_backward = lambda *kept: setattr(context, "saved_tensors", kept)
        function.forward(context, *arguments.values())
        return function.backward(context, gradient)

    return backward


def _gradients(function: Callable[..., Tensor]) -> Callable[..., Results]:
    def backward(gradient: Tensor, **arguments: Tensor) -> Results:
        leaves = [tensor.clone().requires_grad_() for tensor in arguments.values()]
        return torch.autograd.grad(function(*leaves), leaves, gradient, materialize_grads=True)

    return backward


def _distances(table: np.ndarray, points: np.ndarray) -> Results:
    return (np.square(points[:, None] - table).sum(axis=2),)


def _near(found: Results, expected: Results) -> bool:
    """Every tensor that has an expectation."""
    return all(_is_near(one, two) for one, two in zip(found, expected, strict=False))


def _is_near(one: Tensor, two: Tensor) -> bool:
    largest = max(float(two.abs().max()), 1.0) if two.numel() else 1.0
    return one.shape == two.shape and torch.allclose(one.to(two), two, rtol=0, atol=TOLERANCE[one.dtype] * largest)


def _same_shapes(found: Results, expected: Results) -> bool:
    return [tensor.shape for tensor in found] == [tensor.shape for tensor in expected]


def _as_near(found: Results, distances: Results) -> bool:
    (rows,), (squared,) = found, distances
    chosen = squared[np.arange(len(rows)), rows]
    return len(rows) == len(squared) and bool((chosen <= squared.min(axis=1, initial=np.inf) + 1e-4).all())


def _same(found: Results, expected: Results) -> bool:
    return all(np.array_equal(one, two) for one, two in zip(found, expected, strict=True))


# -- wrong calls -------------------------------------------------------------------------------------------


def spoil(value: Any, rng: np.random.Generator) -> Any:
    """An argument that probably does not fit any more."""
    if isinstance(value, Tensor):
        return _spoiled_tensor(value, rng)
    if isinstance(value, np.ndarray):
        return _spoiled_array(value, rng)
    if value is None:  # a bias that is not there
        return torch.ones(int(rng.integers(0, 100)))
    return int(rng.choice([value - 1, value + 1, 0, -1, 2 * value + 1, 2**31, 2**40, -(2**62)]))


def _spoiled_tensor(tensor: Tensor, rng: np.random.Generator) -> Tensor:
    axis = int(rng.integers(max(tensor.ndim, 1))) if tensor.ndim else 0
    ways: list[Callable[[], Tensor]] = [
        lambda: torch.cat([tensor, tensor], axis),
        lambda: tensor.narrow(axis, 0, tensor.shape[axis] // 2),
        lambda: tensor.narrow(axis, 0, max(tensor.shape[axis] - 1, 0)),
        lambda: tensor.sum(axis),
        lambda: tensor[None],
        lambda: tensor.transpose(0, -1),
        lambda: tensor.narrow(axis, 0, min(tensor.shape[axis], 1)).expand(tensor.shape),
        lambda: tensor.to((torch.float16, torch.float32, torch.float64, torch.int32, torch.int64)[rng.integers(5)]),
        lambda: tensor.to(torch.complex64),
        lambda: tensor.to("meta"),
        lambda: tensor.to_sparse(),
    ]
    if tensor.dtype == torch.int64 and tensor.numel():
        ways += [lambda: _with_an_entry(tensor, rng)] * len(ways)
    return ways[rng.integers(len(ways))]()


def _with_an_entry(tensor: Tensor, rng: np.random.Generator) -> Tensor:
    """Indices with one that is probably outside."""
    changed = tensor.clone()
    entries = [-2, -(2**63), 2**63 - 1, 10**9, int(tensor.max()) + 1, 100]
    changed.view(-1)[int(rng.integers(tensor.numel()))] = entries[rng.integers(len(entries))]
    return changed


def _spoiled_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    changed = array.copy()
    if array.size:
        changed.flat[rng.integers(array.size)] = rng.choice([np.nan, np.inf, -np.inf])
    ways = [changed, changed, array[:0], array[:, :2], array.T, array.ravel(), array[None], array[:, :0]]
    return ways[rng.integers(len(ways))]


# -- calls of the C interface with sizes that do not fit ------------------------------------------------------


@dataclass(frozen=True)
class RawFunction:
    """An exported function: how many pointers come before and after its sizes, valid sizes, and wrong ones for each."""

    name: str
    before: int
    sizes: dict[str, int]
    wrong: dict[str, tuple[int, ...]]
    after: int
    has_threads: bool = True

    def result(self, **changes: int) -> int:
        """What it returns for its valid sizes with these changes, on buffers that have room for the valid ones."""
        buffers = [np.zeros(20_000) for _ in range(self.before + self.after)]
        pointers = [buffer.ctypes.data for buffer in buffers]
        threads = [2] if self.has_threads else []
        sizes = {**self.sizes, **changes}
        return getattr(library(), self.name)(
            *pointers[: self.before], *sizes.values(), *threads, *pointers[self.before :]
        )


def raw_functions() -> list[RawFunction]:
    """All of them that have sizes."""
    functions = [*_raw_points(), _raw_farthest()]
    for suffix, itemsize in (("f32", 4), ("f64", 8)):
        functions += _raw_layers(suffix, library().eda_lanes(itemsize))
    return functions


HUGE = (2**31, 2**40, -(2**62))


def _raw_layers(suffix: str, lanes: int) -> list[RawFunction]:
    attention_sizes = dict(receivers=3, senders=3, k=2, degree=2, channels=lanes - 1, padded=lanes, heads=1, knots=4)
    attention_wrong = dict(
        receivers=(-1,), senders=(-1, 0), k=(-1, *HUGE), degree=(0, 4, -1, *HUGE), channels=(0, -1, lanes + 1),
        padded=(0, lanes - 2, lanes + 1), heads=(0, -1, lanes, *HUGE), knots=(3, 0, -1, *HUGE),
    )  # fmt: skip
    rows, channels = (0, -1, 8, 10, *HUGE), (-lanes, lanes + 1)
    gate = dict(points=3, rows=9, degrees=3, channels=lanes)
    gate_wrong = dict(points=(-1,), rows=rows, degrees=(0, 2, 4, -3, *HUGE), channels=channels)
    norm = dict(gain_stride=0, points=3, rows=9, channels=lanes)
    norm_wrong = dict(gain_stride=(1, -1), points=(-1,), rows=rows, channels=channels)
    product = dict(points=3, rows=9, first_degree=1, inputs=5, outputs=lanes)
    product_wrong = dict(points=(-1,), rows=rows, first_degree=(-1, 4, *HUGE), inputs=(-1,), outputs=channels)
    return [
        RawFunction(f"eda_attention_forward_{suffix}", 7, attention_sizes, attention_wrong, 2),
        RawFunction(f"eda_attention_backward_{suffix}", 7, attention_sizes, attention_wrong, 6),
        RawFunction(f"eda_product_{suffix}", 3, product, product_wrong, 1),
        RawFunction(f"eda_norm_{suffix}", 2, norm, norm_wrong, 1),
        RawFunction(f"eda_norm_backward_{suffix}", 4, norm, norm_wrong, 1),
        RawFunction(f"eda_projection_{suffix}", 2, gate, gate_wrong, 1),
        RawFunction(f"eda_gate_{suffix}", 2, gate, gate_wrong, 1),
        RawFunction(f"eda_gate_backward_{suffix}", 7, gate, gate_wrong, 1),
    ]


def _raw_points() -> list[RawFunction]:
    sizes, wrong = dict(points=3, columns=16), dict(points=(-1,), columns=(0, -16, 17, *HUGE))
    return [RawFunction("eda_nearest_f32", 2, sizes, wrong, 1)]


def _raw_farthest() -> RawFunction:
    sizes = dict(count=20, wanted=20, first=0)
    wrong = dict(count=(0, -1, 19), wanted=(0, -1, 21, *HUGE), first=(-1, 20, *HUGE))
    return RawFunction("eda_farthest_points", 1, sizes, wrong, 2, has_threads=False)
