"""Layers on single points by the compiled module equal their definitions in torch."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from support.closeness import assert_near_to_scale
from torch import Tensor, nn

from eda import kernels
from eda.kernels import equivariant_gelu, equivariant_norm, pointwise_compiled
from eda.nn.layers import AdaptiveNorm, DegreeLinear, EquivariantNorm, Time

TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-14}
at_both_precisions = pytest.mark.parametrize("dtype", TOLERANCE)
at_all_degrees = pytest.mark.parametrize("max_degree", [1, 2, 3, 5])
# Fewer points than a group of rows, exactly a block, more than one.
at_many_sizes = pytest.mark.parametrize("count", [0, 1, 5, 32, 71])


def normal(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def linear(max_degree: int, inputs: int, outputs: int, dtype: torch.dtype, **options: object) -> DegreeLinear:
    torch.manual_seed(0)
    layer = DegreeLinear(max_degree, inputs, outputs, **options).to(dtype)
    if layer.bias is not None:
        nn.init.normal_(layer.bias)
    return layer


def both(work: Callable[[], Any]) -> tuple[Any, Any]:
    """By the compiled module, and by the definition."""
    found = work()
    with kernels.reference_only():
        return found, work()


def assert_near_for_dtype(found: Tensor, expected: Tensor) -> None:
    assert_near_to_scale(found, expected, TOLERANCE[expected.dtype], smallest_scale=1.0)


@pytest.fixture
def reached(monkeypatch) -> list[str]:
    """The compiled functions that were called."""
    names, call = [], pointwise_compiled._call

    def note(name: str, *rest: object) -> Tensor:
        names.append(name)
        return call(name, *rest)

    monkeypatch.setattr(pointwise_compiled, "_call", note)
    return names


@at_both_precisions
@at_all_degrees
@at_many_sizes
@torch.no_grad()
def test_linear_maps_are_those_of_the_definition(reached, max_degree, count, dtype):
    for inputs, outputs, options in [(16, 48, {}), (5, 16, {"bias": False}), (24, 64, {"first_degree": 1})]:
        layer = linear(max_degree, inputs, outputs, dtype, **options)
        features = normal(count, (max_degree + 1) ** 2, inputs, dtype=dtype)
        assert_near_for_dtype(*both(lambda layer=layer, features=features: layer(features)))
    assert reached == ["eda_product"] * 3


@at_both_precisions
@at_many_sizes
@torch.no_grad()
def test_norms_are_those_of_the_definition(reached, count, dtype):
    features = normal(count, 9, 32, dtype=dtype) * torch.logspace(-4, 2, count, dtype=dtype)[:, None, None]
    plain, adaptive = EquivariantNorm(32).to(dtype), AdaptiveNorm(32, 8).to(dtype)
    nn.init.normal_(plain.gain)
    time = Time(normal(3, 8, dtype=dtype), torch.arange(count) % 3)
    assert_near_for_dtype(*both(lambda: plain(features)))
    assert_near_for_dtype(*both(lambda: adaptive(features, time)))
    assert reached == ["eda_norm"] * 2


@at_both_precisions
@at_all_degrees
@at_many_sizes
@torch.no_grad()
def test_the_activation_is_that_of_the_definition(reached, max_degree, count, dtype):
    rows = (max_degree + 1) ** 2
    features, toward = normal(count, rows, 32, dtype=dtype), normal(count, rows - 1, 32, dtype=dtype, seed=1)
    toward[: count // 2] *= 1e-4  # where the epsilon counts
    assert_near_for_dtype(*both(lambda: equivariant_gelu(features, toward)))
    assert reached == ["eda_projection", "eda_gate"]


@torch.no_grad()
def test_tensors_need_not_be_contiguous():
    features, toward = normal(9, 20, 32, dtype=torch.float64).transpose(0, 1), normal(20, 32, 8, dtype=torch.float64).mT
    layer = linear(2, 32, 16, torch.float64)
    layer.weight.data = layer.weight.data.mT.contiguous().mT
    assert_near_for_dtype(*both(lambda: layer(features)))
    assert_near_for_dtype(*both(lambda: EquivariantNorm(32).double()(features)))
    assert_near_for_dtype(*both(lambda: equivariant_gelu(features, toward)))


def assert_gradients_are_those_of_the_definition(layer: Callable[..., Tensor], inputs: list[Tensor]) -> None:
    pull = normal(*layer(*inputs).shape, dtype=inputs[0].dtype, seed=7)
    found, expected = both(lambda: torch.autograd.grad((layer(*inputs) * pull).sum(), inputs))
    for one, two in zip(found, expected, strict=True):
        assert_near_for_dtype(one, two)


def test_gradients_of_a_linear_map_are_those_of_the_definition(reached):
    layer = linear(2, 16, 32, torch.float64)
    inputs = [normal(40, 9, 16, dtype=torch.float64).requires_grad_(), *layer.parameters()]
    assert_gradients_are_those_of_the_definition(lambda features, *_: layer(features), inputs)
    assert reached


@at_both_precisions
@at_all_degrees
@at_many_sizes
def test_gradients_of_the_activation_are_those_of_the_definition(reached, max_degree, count, dtype):
    rows = (max_degree + 1) ** 2
    features, toward = normal(count, rows, 32, dtype=dtype), normal(count, rows - 1, 32, dtype=dtype, seed=1)
    inputs = [features.requires_grad_(), toward.requires_grad_()]
    assert_gradients_are_those_of_the_definition(equivariant_gelu, inputs)
    assert "eda_gate_backward" in reached


@at_both_precisions
@at_all_degrees
@at_many_sizes
def test_gradients_of_norms_are_those_of_the_definition(reached, max_degree, count, dtype):
    features = normal(count, (max_degree + 1) ** 2, 32, dtype=dtype)
    for gain in (normal(32, dtype=dtype, seed=1), normal(count, 32, dtype=dtype, seed=2)):
        inputs = [features.requires_grad_(), gain.requires_grad_()]
        assert_gradients_are_those_of_the_definition(equivariant_norm, inputs)
    assert reached.count("eda_norm_backward") == 2


def test_gradients_are_those_of_finite_differences(reached):
    features, toward, gain = (normal(*shape, dtype=torch.float64) for shape in [(2, 9, 8), (2, 8, 8), (2, 8)])
    toward[0] *= 1e-3  # where the epsilon counts
    for tensor in (features, toward, gain):
        tensor.requires_grad_()
    assert torch.autograd.gradcheck(equivariant_gelu, (features, toward), eps=1e-7)
    assert torch.autograd.gradcheck(equivariant_norm, (features, gain))
    assert {"eda_gate_backward", "eda_norm_backward"} <= set(reached)


@torch.no_grad()
def test_channels_that_do_not_fill_registers_are_left_to_the_definition(reached):
    features = normal(7, 9, 5, dtype=torch.float32)
    linear(2, 5, 5, torch.float32)(features)
    EquivariantNorm(5)(features)
    equivariant_gelu(features, features[:, 1:])
    assert not reached


@pytest.mark.parametrize("weight_dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_what_does_not_fit_is_an_error(weight_dtype):
    layer = linear(2, 16, 16, weight_dtype)
    wrong = torch.float64 if weight_dtype == torch.float32 else torch.float32
    for features in (normal(5, 9, 16, dtype=wrong), normal(5, 9, 12, dtype=weight_dtype)):
        with pytest.raises(RuntimeError):
            layer(features)
    for shape in [(5, 9, 32), (5, 8, 16)]:
        with pytest.raises(RuntimeError):
            EquivariantNorm(16)(normal(*shape, dtype=torch.float32))


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@torch.no_grad()
def test_threads_do_not_change_a_bit():
    """Every point by itself: not even rounding depends on how they are shared out."""
    features, layer, norm = (
        normal(3000, 9, 64, dtype=torch.float32),
        linear(2, 64, 64, torch.float32),
        EquivariantNorm(64),
    )

    def results() -> list[Tensor]:
        return [layer(features), norm(features), equivariant_gelu(features, features[:, 1:])]

    two = results()
    torch.set_num_threads(1)
    assert all(torch.equal(a, b) for a, b in zip(two, results(), strict=True))


def test_a_layer_can_be_compiled_by_torch(reached):
    layer = linear(2, 16, 16, torch.float32)
    features = normal(7, 9, 16, dtype=torch.float32)
    with torch.no_grad():
        found = torch.compile(layer, backend="eager")(features)
        assert not reached
        assert_near_for_dtype(found, layer(features))
