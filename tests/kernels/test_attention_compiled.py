"""Compiled edge attention equals its definition: values, gradients, and the gradients of the whole network."""

from dataclasses import replace

import pytest
import torch
from support.attention_cases import (
    DOUBLE,
    SINGLE,
    Case,
    assert_all_near_to_scale,
    assert_same,
    out_of_order,
    refuse,
    scattered,
)
from support.lumpy_shapes import TINY, lumpy_puzzle
from torch import Tensor

import eda.native
from eda import Eda, kernels
from eda.kernels import attention_compiled, attention_reference


def test_the_compiled_module_is_used(monkeypatch):
    """All below would hold without it, and say nothing."""
    assert eda.native.library() is not None
    monkeypatch.setattr(attention_compiled, "_call", refuse)
    with pytest.raises(AssertionError, match="was called"):
        Case.random().run()


# -- values and gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize("max_degree", [1, 2, 3])
@pytest.mark.parametrize("channels", [2, 6, 10, 16, 20])
def test_values_and_gradients_are_those_of_the_definition(max_degree, channels):
    case = Case.random(max_degree, channels)
    expected = case.results(attention_reference.edge_attention)
    assert all(t.abs().max() > 0 for t in expected)
    assert_all_near_to_scale(case.results(), expected, 1e-12)


@pytest.mark.parametrize(("channels", "num_heads"), [(6, 1), (6, 3), (6, 6), (20, 4), (20, 5), (1, 1)])
def test_heads_are_those_of_the_definition(channels, num_heads):
    case = Case.random(2, channels, num_heads=num_heads)
    assert_all_near_to_scale(case.results(), case.results(attention_reference.edge_attention), 1e-12)


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
    assert_all_near_to_scale(case.results(), case.results(attention_reference.edge_attention), 1e-12)


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
    assert_all_near_to_scale(found, case.to(DOUBLE).results(attention_reference.edge_attention), 1e-4)


@pytest.mark.parametrize("length", [1e-4, 1e-2, 1e2, 1e6, 1e15])
@pytest.mark.parametrize(("dtype", "tolerance"), [(SINGLE, 1e-4), (DOUBLE, 1e-12)])
def test_short_and_long_edges_are_those_of_the_definition(length, dtype, tolerance):
    case = Case.random(dtype=dtype)
    case = replace(case, vectors=case.vectors * length)
    assert_all_near_to_scale(case.results(), case.to(DOUBLE).results(attention_reference.edge_attention), tolerance)


def test_edges_along_the_axes_are_those_of_the_definition():
    axes = torch.eye(3, dtype=DOUBLE).repeat(2, 1) * torch.tensor([1.0] * 3 + [-1.0] * 3).to(DOUBLE)[:, None]
    case = Case.random(3, k=6)
    case = replace(case, vectors=axes.expand(7, 6, 3), neighbors=case.neighbors.clamp(min=0))
    assert_all_near_to_scale(case.results(), case.results(attention_reference.edge_attention), 1e-12)


def test_large_logits_do_not_overflow():
    case = Case.random(dtype=SINGLE)
    assert all(t.isfinite().all() for t in replace(case, queries=1e6 * case.queries).results())


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


# -- the whole network -------------------------------------------------------------------------------------


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
    assert_all_near_to_scale(found, expected, 1e-10)
