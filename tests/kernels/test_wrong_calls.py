"""Calls of the compiled functions with arguments that do not fit are refused in words, forward and backward.

`make sanitize` makes thousands of such calls under sanitizers; these few run everywhere, in a process that may die.
"""

import functools

import numpy as np
import pytest
import torch
from support.attention_cases import SINGLE, Case, forks, in_child
from support.kernel_calls import DRAWN, random_call, raw_functions
from torch import Tensor

from eda.errors import InputError
from eda.kernels import attention_compiled, attention_reference, pointwise_compiled
from eda.native import MISFIT, library

pytestmark = forks


def refusal(action) -> str:
    """The words of the error that an action must raise."""
    found = in_child(action)
    assert isinstance(found, InputError), found
    return str(found)


# -- edge attention ----------------------------------------------------------------------------------------


def attention_arguments(backward: bool) -> dict:
    case = Case.random()
    names = ("features", "queries", "vectors", "neighbors", "key_radial", "value_radial")
    arguments = dict(zip(names, case.tensors, strict=True))
    if not backward:
        return {**arguments, "num_heads": case.num_heads}
    out, attention = attention_compiled.forward(**arguments, num_heads=case.num_heads)
    return {"gradient": torch.ones_like(out), "attention": attention, **arguments}


def attend(arguments: dict) -> None:
    backward = "gradient" in arguments
    operator = torch.ops.eda.edge_attention_backward if backward else torch.ops.eda.edge_attention
    operator(**arguments)


def bare(arguments: dict) -> None:
    attention_compiled.forward(**arguments)


WRONG = {
    "too long": lambda t: torch.cat([t, t]),
    "too short": lambda t: t[:-1],
    "too narrow": lambda t: t[..., :-1],
    "too few axes": lambda t: t[0],
    "too many axes": lambda t: t[None],
    "another precision": lambda t: t.float() if t.is_floating_point() else t.int(),
    "half precision": lambda t: t.half(),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_no_tensor_of_edge_attention_may_be_wrong(backward, wrong):
    arguments = attention_arguments(backward)
    valid = [("features", "too long"), ("attention", "too narrow")]  # any number of senders and heads will do
    for name, tensor in arguments.items():
        if isinstance(tensor, Tensor) and (name, wrong) not in valid:
            words = refusal(functools.partial(attend, {**arguments, name: WRONG[wrong](tensor)}))
            assert "expected" in words, (name, words)


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("row", [-2, -(2**63), 9, 10**9, 2**63 - 1])
def test_neighbours_that_are_no_senders_are_found_before_they_are_read(row, backward):
    arguments = attention_arguments(backward)
    assert len(arguments["features"]) == 9
    arguments["neighbors"][3, 1] = row
    words = refusal(functools.partial(attend, arguments))
    assert "neighbors" in words
    assert "9 senders" in words
    assert str(row) in words


@pytest.mark.parametrize("threads", [1, 3])
def test_neighbours_are_found_by_every_thread(threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(attention_compiled, "_WORK_PER_THREAD", 1)
    for receiver in (0, 3, 6):
        arguments = attention_arguments(backward=False)
        arguments["neighbors"][receiver, -1] = 9
        assert "9 senders" in refusal(functools.partial(bare, arguments))


@pytest.mark.parametrize("max_degree", [0, 4])
def test_degrees_that_were_not_compiled_are_refused(max_degree):
    case = Case.random(max_degree)
    words = refusal(lambda: attention_compiled.forward(*case.tensors, case.num_heads))
    assert "degrees 1 to 3" in words


def test_rows_that_are_no_degrees_are_refused():
    arguments = attention_arguments(backward=False)
    arguments["features"] = arguments["features"][:, :8]
    assert "degrees 1 to 3" in refusal(functools.partial(bare, arguments))


@pytest.mark.parametrize("heads", [0, -1, 4, 7, 2**40])
def test_heads_that_do_not_split_the_channels_are_refused(heads):
    arguments = {**attention_arguments(backward=False), "num_heads": heads}
    assert f"{heads} heads" in refusal(functools.partial(bare, arguments))


@pytest.mark.parametrize(("run", "backward"), [(bare, False), (attend, False), (attend, True)])
def test_tensors_without_memory_among_others_are_refused(run, backward):
    arguments = attention_arguments(backward)
    for name in ("features", "queries", "vectors", "neighbors", "value_radial"):
        words = refusal(functools.partial(run, {**arguments, name: arguments[name].to("meta")}))
        assert "meta" in words


@pytest.mark.parametrize("sizes", [dict(receivers=0), dict(senders=0), dict(k=0)], ids=str)
def test_nothing_at_all_is_zero_or_empty(sizes):
    some = Case.random(dtype=SINGLE)
    receivers, senders, k = (sizes.get(name, 4) for name in ("receivers", "senders", "k"))
    neighbors = some.neighbors[:receivers, :k].clamp(max=senders - 1)
    out, attention = attention_compiled.forward(
        some.features[:senders], some.queries[:receivers], some.vectors[:receivers, :k], neighbors, some.key_radial,
        some.value_radial, some.num_heads,
    )  # fmt: skip
    assert out.shape == some.queries[:receivers].shape
    assert attention.shape == (receivers, k, some.num_heads)
    if senders == 0 or k == 0:
        assert not out.any()


def test_the_definition_has_no_other_answer_for_neighbours_that_are_no_senders():
    case = Case.random()
    case.neighbors[3, 1] = 9
    with pytest.raises(IndexError):
        case.run(attention_reference.edge_attention)


# -- layers on single points -------------------------------------------------------------------------------

FEATURES = torch.ones(5, 9, 16)
WEIGHT = torch.ones(3, 16, 16)
MISFITS = {
    "a bias that is too short": lambda: pointwise_compiled.degree_product(FEATURES, WEIGHT, torch.ones(3), 0),
    "a bias in double precision": lambda: pointwise_compiled.degree_product(
        FEATURES, WEIGHT, torch.ones(16).double(), 0
    ),
    "a bias without degree 0": lambda: pointwise_compiled.degree_product(FEATURES, WEIGHT[1:], torch.ones(16), 1),
    "another first degree": lambda: pointwise_compiled.degree_product(FEATURES, WEIGHT, None, 2),
    "a negative first degree": lambda: pointwise_compiled.degree_product(FEATURES, WEIGHT, None, -6),
    "too few matrices": lambda: pointwise_compiled.degree_product(FEATURES, WEIGHT[:2], None, 0),
    "a matrix alone": lambda: pointwise_compiled.degree_product(FEATURES, WEIGHT[0], None, 0),
    "matrices of fewer inputs": lambda: pointwise_compiled.degree_product(FEATURES, WEIGHT[:, :8], None, 0),
    "outputs that do not fill registers": lambda: pointwise_compiled.degree_product(FEATURES, WEIGHT[..., :3], None, 0),
    "rows that are no degrees": lambda: pointwise_compiled.equivariant_norm(FEATURES[:, :8], torch.ones(16)),
    "a gain that is too short": lambda: pointwise_compiled.equivariant_norm(FEATURES, torch.ones(8)),
    "a gain of too few points": lambda: pointwise_compiled.equivariant_norm(FEATURES, torch.ones(4, 16)),
    "channels that do not fill registers": lambda: pointwise_compiled.equivariant_norm(
        FEATURES[..., :3], torch.ones(3)
    ),
    "half precision": lambda: pointwise_compiled.equivariant_norm(FEATURES.half(), torch.ones(16).half()),
    "no rows": lambda: pointwise_compiled.equivariant_norm(FEATURES[:, :0], torch.ones(16)),
    "a direction too few": lambda: pointwise_compiled.equivariant_gelu(FEATURES, FEATURES[:, 2:]),
    "directions of too few points": lambda: pointwise_compiled.equivariant_gelu(FEATURES, FEATURES[:4, 1:]),
    "directions without memory": lambda: pointwise_compiled.equivariant_gelu(FEATURES, FEATURES[:, 1:].to("meta")),
    "one point without its axis": lambda: pointwise_compiled.equivariant_gelu(FEATURES[0], FEATURES[0, 1:]),
}


@pytest.mark.parametrize("name", MISFITS)
def test_layers_refuse_what_does_not_fit(name):
    assert "cannot take these tensors" in refusal(MISFITS[name])


@pytest.mark.parametrize("name", ["norm_backward", "gelu_backward"])
@pytest.mark.parametrize("wrong", [WRONG["too short"], WRONG["too narrow"], lambda t: t.half()])
def test_gradients_that_do_not_fit_are_refused(name, wrong):
    call = next(call for call in _calls(name) if call.arguments["features"].numel())
    arguments = {**call.arguments, "gradient": wrong(call.arguments["gradient"])}
    assert "gradient" in refusal(lambda: call.compiled(**arguments))


def _calls(name: str):
    return (random_call(np.random.default_rng(seed), name) for seed in range(100))


# -- a few random calls, and the C interface ---------------------------------------------------------------


@pytest.mark.parametrize("name", DRAWN)
def test_random_calls_are_equal_and_wrong_ones_refused_or_equal(name):
    def outcomes() -> list[str]:
        found = []
        for seed in range(12):
            rng = np.random.default_rng(seed)
            call = random_call(rng, name)
            found += [call.check(), call.spoiled(rng).check()]
        return found

    found = in_child(outcomes)
    assert not isinstance(found, Exception), found
    assert set(found[::2]) == {"equal"}
    assert "refused" in found[1::2]
    assert set(found) <= {"equal", "refused"}


def test_the_c_interface_refuses_sizes_that_do_not_fit():
    def results() -> list[tuple]:
        return [
            (function.name, size, value, function.result(**{size: value}))
            for function in raw_functions()
            for size, values in function.wrong.items()
            for value in values
        ]

    assert in_child(lambda: {function.result() for function in raw_functions()}) == {0}
    assert [row for row in in_child(results) if row[-1] != MISFIT] == []


def test_there_are_no_registers_of_other_numbers():
    assert [library().eda_lanes(size) for size in (0, 2, -4)] == [0, 0, 0]
