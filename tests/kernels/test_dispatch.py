"""The compiled kernels are not needed for anything to work: what they do not serve is left to the definition."""

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.attention_cases import DOUBLE, SINGLE, Case, assert_all_near_to_scale, assert_same, forks, in_child, refuse
from support.lumpy_shapes import TINY, lumpy_pieces
from torch import Tensor

import eda.native
from eda import SE3, Eda, kernels
from eda.cloud import farthest_points, farthest_points_reference
from eda.kernels import attention_compiled, attention_reference

# -- what the compiled module does not serve ---------------------------------------------------------------


# In a process of its own, since degree 0 writes where it must not.
@forks
@pytest.mark.parametrize("max_degree", [0, 4, 5])
def test_other_degrees_are_left_to_the_definition(max_degree, monkeypatch):
    monkeypatch.setattr(attention_compiled, "_call", refuse)
    case = Case.random(max_degree)
    found = in_child(lambda: [t.numpy() for t in case.results()])
    assert not isinstance(found, Exception), found
    assert_same([torch.from_numpy(a) for a in found], case.results(attention_reference.edge_attention))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.1), (torch.float16, 0.02)])
def test_half_precision_is_left_to_the_definition(dtype, tolerance, monkeypatch):
    monkeypatch.setattr(attention_compiled, "_call", refuse)
    case = Case.random(dtype=dtype)
    found = case.results()
    assert {t.dtype for t in found} == {dtype}
    assert_all_near_to_scale(found, case.to(DOUBLE).results(attention_reference.edge_attention), tolerance)


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
        assert_all_near_to_scale([torch.from_numpy(found)], [case.run(attention_reference.edge_attention)], 1e-5)


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
    expected = near.to(DOUBLE).results(attention_reference.edge_attention)
    assert_all_near_to_scale([torch.from_numpy(a) for a in found], expected, tolerance)


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
    assert_same(case.results(attention_reference.edge_attention), without.results(attention_reference.edge_attention))


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
        patch.setattr(attention_compiled, "_call", lambda *_: reached.append(torch.is_grad_enabled()))
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
        assert_same(case.results(), case.results(attention_reference.edge_attention))
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


# -- without the compiled module, and with lesser instructions ---------------------------------------------


@pytest.fixture
def load_from(monkeypatch) -> Iterator[Callable[[Path], None]]:
    """Looks for the compiled module in another folder."""

    def use(folder: Path) -> None:
        monkeypatch.setattr(eda.native, "__file__", str(folder / "__init__.py"))
        eda.native._load.cache_clear()

    yield use
    monkeypatch.undo()
    eda.native._load.cache_clear()


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
    assert_same(results, case.results(attention_reference.edge_attention))
    assert np.array_equal(chosen, farthest_points_reference(cloud, 20)[0])
    assert_all_near_to_scale([plain], [compiled], 1e-10)


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
        assert_all_near_to_scale(case.results(), default, 1e-5 if case.features.dtype == SINGLE else 1e-12)


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
    np.savez(tmp_path / "inputs.npz", *[t.numpy() for t in case.tensors], attention_compiled._stretches(2))
    words = [sys.executable, "-c", SCRIPT, str(tmp_path / "inputs.npz"), str(tmp_path / "out.npy")]
    environment = {**os.environ, "EDA_ISA": "baseline"}
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment, check=True)
    assert ran.stdout.split() == ["4", "2"]
    assert_all_near_to_scale([torch.from_numpy(np.load(tmp_path / "out.npy"))], [case.run()], 1e-5)
