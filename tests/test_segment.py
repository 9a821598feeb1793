"""Sums, means, maxima and softmax over ragged groups, against loops in numpy."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from eda.segment import padded_rows, ranges, segment_max, segment_mean, segment_softmax, segment_sum, starts

drawn = settings(derandomize=True, deadline=None, max_examples=50)


@st.composite
def grouped(draw) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows (R, ...), their groups (R,) in any order, and the number of groups; some may be empty."""
    count = draw(st.integers(1, 6))
    group = draw(st.lists(st.integers(0, count - 1), max_size=12))
    shape = draw(st.sampled_from([(), (3,), (2, 3)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    return rng.normal(size=(len(group), *shape)) * 10, np.array(group, dtype=np.int64), count


def by_loop(values: np.ndarray, group: np.ndarray, count: int, of_rows, empty: float) -> np.ndarray:
    result = np.full((count, *values.shape[1:]), empty)
    for g in range(count):
        rows = [value for value, own in zip(values, group, strict=True) if own == g]
        if rows:
            result[g] = of_rows(np.stack(rows))
    return result


LAWS = {
    "sum": (segment_sum, lambda rows: rows.sum(0), 0.0),
    "mean": (segment_mean, lambda rows: rows.mean(0), 0.0),
    "max": (segment_max, lambda rows: rows.max(0), -np.inf),
}


@pytest.mark.parametrize("name", LAWS)
@given(case=grouped())
@drawn
def test_reduction_is_that_of_a_loop(name, case):
    ours, of_rows, empty = LAWS[name]
    values, group, count = case
    result = ours(torch.from_numpy(values), torch.from_numpy(group), count)
    assert result.dtype == torch.float64
    np.testing.assert_allclose(result.numpy(), by_loop(values, group, count, of_rows, empty), atol=1e-12)


@given(case=grouped())
@drawn
def test_softmax_is_that_of_a_loop(case):
    values, group, count = case
    result = segment_softmax(torch.from_numpy(values), torch.from_numpy(group), count).numpy()
    total = by_loop(np.exp(values), group, count, lambda rows: rows.sum(0), 0.0)
    np.testing.assert_allclose(result, np.exp(values) / total[group], atol=1e-12)


@given(case=grouped())
@drawn
def test_softmax_is_positive_and_sums_to_one(case):
    values, group, count = case
    weights = segment_softmax(torch.from_numpy(values), torch.from_numpy(group), count)
    assert (weights > 0).all()
    total = segment_sum(weights, torch.from_numpy(group), count).numpy()
    np.testing.assert_allclose(total[np.unique(group)], 1.0, rtol=1e-12)


@pytest.mark.parametrize("shift", [-1e4, 1e4])
def test_softmax_of_large_logits_is_finite(shift):
    """One group far from zero must neither overflow nor pull the others to zero."""
    logits, group = torch.tensor([0.0, 1.0, shift, shift + 1.0]), torch.tensor([0, 0, 1, 1])
    weights = segment_softmax(logits, group, 2)
    torch.testing.assert_close(weights[:2], torch.softmax(logits[:2], 0))
    torch.testing.assert_close(weights[2:], weights[:2], rtol=1e-3, atol=0)


@given(case=grouped(), seed=st.integers(0, 1000))
@drawn
def test_order_of_rows_does_not_matter(case, seed):
    values, group, count = case
    order = np.random.default_rng(seed).permutation(len(group))
    for ours, _, _ in LAWS.values():
        plain, mixed = (ours(torch.from_numpy(values[i]), torch.from_numpy(group[i]), count) for i in (..., order))
        np.testing.assert_allclose(mixed.numpy(), plain.numpy(), atol=1e-12)


@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=8))
@drawn
def test_ranges_and_starts_of_sizes(sizes):
    group, first = ranges(torch.tensor(sizes)).tolist(), starts(torch.tensor(sizes)).tolist()
    assert group == [g for g, size in enumerate(sizes) for _ in range(size)]
    assert first == [sum(sizes[:g]) for g in range(len(sizes))]


def test_ranges_and_starts_by_hand():
    assert ranges(torch.tensor([2, 0, 3])).tolist() == [0, 0, 2, 2, 2]
    assert starts(torch.tensor([2, 0, 3])).tolist() == [0, 2, 2]


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=8))
@drawn
def test_a_table_has_the_rows_of_every_group_and_is_padded_with_its_first(sizes):
    rows, present = (part.tolist() for part in padded_rows(torch.tensor(sizes)))
    assert len(rows) == len(present) == len(sizes)
    for g, size in enumerate(sizes):
        first, width = sum(sizes[:g]), max(sizes)
        assert rows[g] == [*range(first, first + size), *[first] * (width - size)]
        assert present[g] == [True] * size + [False] * (width - size)


def test_a_table_by_hand():
    rows, present = padded_rows(torch.tensor([2, 1, 3]))
    assert rows.tolist() == [[0, 1, 0], [2, 2, 2], [3, 4, 5]]
    assert present.tolist() == [[True, True, False], [True, False, False], [True, True, True]]


@pytest.mark.parametrize("operation", [segment_sum, segment_mean, segment_max, segment_softmax])
@pytest.mark.parametrize("shape", [(7,), (7, 2)])
def test_gradients(operation, shape):
    """Unsorted groups, group 2 empty."""
    group = torch.tensor([3, 0, 1, 0, 3, 3, 1])
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)

    def finite(rows: torch.Tensor) -> torch.Tensor:
        result = operation(rows, group, 4)
        return result[result.isfinite()]

    assert gradcheck(finite, values)


@pytest.mark.parametrize("operation", [segment_sum, segment_mean, segment_max, segment_softmax])
def test_precision_is_kept_and_input_untouched(operation):
    values = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    before = values.clone()
    assert operation(values, torch.tensor([1, 0, 1, 1, 0]), 2).dtype == torch.float32
    assert torch.equal(values, before)
