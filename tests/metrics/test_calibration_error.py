"""Calibration: by hand, and against sums over single claims."""

import numpy as np
import pytest

from eda import InputError
from eda.metrics import brier_score, expected_calibration_error, reliability_bins


def test_calibration_error_by_hand():
    probability = np.array([0.1, 0.1, 0.9, 0.9])
    right = np.array([0.0, 1.0, 1.0, 1.0])
    assert expected_calibration_error(probability, right) == pytest.approx((2 * 0.4 + 2 * 0.1) / 4)


def test_brier_score_by_hand():
    assert brier_score(np.array([1.0, 0.5, 0.0]), np.array([1, 1, 1])) == pytest.approx((0 + 0.25 + 1) / 3)


@pytest.mark.parametrize("bins", [1, 4, 10])
def test_bins_by_sorting_claims_one_at_a_time(bins):
    rng = np.random.default_rng(bins)
    probability = np.append(rng.random(50), [0.0, 1.0])
    right = rng.random(52) < probability
    held: dict[int, list[tuple[float, bool]]] = {}
    for p, r in zip(probability, right, strict=True):
        held.setdefault(next(b for b in range(bins) if p < (b + 1) / bins or b == bins - 1), []).append((p, r))
    rows = reliability_bins(probability, right, bins)
    assert [row.number for row in rows] == [len(held[b]) for b in sorted(held)]
    for row, b in zip(rows, sorted(held), strict=True):
        assert (row.low, row.high) == (b / bins, (b + 1) / bins)
        assert row.mean_probability == pytest.approx(np.mean([p for p, _ in held[b]]))
        assert row.share_right == pytest.approx(np.mean([r for _, r in held[b]]))
    error = sum(abs(sum(p - r for p, r in claims)) for claims in held.values()) / 52
    assert expected_calibration_error(probability, right, bins) == pytest.approx(error)


def test_claims_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="labels"):
        expected_calibration_error(np.zeros(3), np.zeros(4))
    with pytest.raises(InputError, match="labels"):
        brier_score(np.zeros(0), np.zeros(0))
