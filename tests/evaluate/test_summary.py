"""Figures of many puzzles, averaged by hand."""

import csv
import io
import json
import math

import numpy as np
import pytest

from eda.evaluate import PROTOCOLS, Evaluation, Record, as_csv, markdown, summarize, table


def figures(values, num_pieces=(2, 2, 3), protocol="pairwise") -> Evaluation:
    """Figures (Q, R, K) as all of a protocol's metrics."""
    array = np.array(values, dtype=np.float64)
    names = [f"p{i}" for i in range(len(array))]
    records = [
        Record(
            q, name, count, dict.fromkeys(PROTOCOLS[protocol].metrics, array[q]), {"pieces": str(count)}, seconds=ones
        )
        for q, (name, count, ones) in enumerate(zip(names, num_pieces, np.ones(array.shape[:2]), strict=True))
    ]
    return Evaluation(protocol, records)


def test_a_summary_by_hand():
    report = summarize(figures([[[1, 3], [5, 7]], [[2, 2], [4, 4]], [[0, 4], [9, 9]]]))
    assert (report["puzzles"], report["repeats"], report["samples"]) == (3, 2, 2)
    rotation = report["metrics"]["rotation"]
    assert rotation["repeat_means"] == pytest.approx([2, 38 / 6])
    assert rotation["mean"] == pytest.approx(50 / 12)
    assert rotation["std_over_repeats"] == pytest.approx((38 / 6 - 2) / math.sqrt(2))
    assert rotation["median"] == 4
    assert rotation["quantiles"]["50"] == 4
    assert rotation["quantiles"]["10"] < rotation["quantiles"]["25"] < rotation["quantiles"]["90"]
    assert report["by"]["pieces"]["2"] == pytest.approx(
        {"puzzles": 2, "seconds_per_puzzle": 1, **dict.fromkeys(PROTOCOLS["pairwise"].metrics, 28 / 8)}
    )
    assert report["by"]["pieces"]["3"]["rotation"] == 5.5
    assert report["best_of_samples"]["rotation"] == pytest.approx((1 + 5 + 2 + 4 + 0 + 9) / 6)
    assert report["seconds_per_puzzle"] == 1


def test_the_best_sample_is_chosen_by_the_first_metric():
    figures = {"recall": np.array([[0, 1]]), "rotation": np.array([[np.nan, 5.0]])}
    result = Evaluation("registration", [Record(0, "a", 2, figures)])
    assert {name: values.item() for name, values in result.best().items()} == {"recall": 1, "rotation": 5}


def test_what_is_not_defined_is_left_out():
    values = np.full((3, 2, 1), np.nan)
    nothing = summarize(figures(values))["metrics"]["rotation"]
    assert (nothing["mean"], nothing["median"], nothing["interval_95"], nothing["defined"]) == (None, None, None, 0)
    values[1, 0] = 3
    one = summarize(figures(values))["metrics"]["rotation"]
    assert (one["mean"], one["std_over_repeats"], one["defined"]) == (3, None, 1)
    assert one["interval_95"] == [3, 3]
    json.dumps(summarize(figures(values)), allow_nan=False)


def test_the_interval_is_about_two_standard_errors():
    values = np.random.default_rng(1).normal(10, 2, size=400)
    low, high = summarize(figures(values[:, None, None], num_pieces=[2] * 400))["metrics"]["rotation"]["interval_95"]
    error = 1.96 * values.std() / math.sqrt(400)
    assert low == pytest.approx(values.mean() - error, abs=0.08 * error)
    assert high == pytest.approx(values.mean() + error, abs=0.08 * error)


def test_the_markdown_table_by_hand():
    report = summarize(figures([[[0.25], [0.75]]], num_pieces=[4]))
    lines = markdown(table(report)).splitlines()
    assert lines[0] == "|  | puzzles | rotation [deg] | translation | of size [%] | solved [%] | parts in place [%] |"
    assert lines[1] == "| :-- | --: | --: | --: | --: | --: | --: |"
    assert lines[2] == "| all | 1 | 0.5 ± 0.3536 | 0.5 ± 0.3536 | 50 ± 35.36 | 50 ± 35.36 | 50 ± 35.36 |"
    assert lines[-1] == "| 4 pieces | 1 | 0.5 | 0.5 | 50 | 50 | 50 |"
    assert [line.split("|")[1].strip() for line in lines[3:-1]] == [
        "95 % interval",
        "q10",
        "q25",
        "median",
        "q75",
        "q90",
    ]


def test_the_csv_has_a_line_for_every_assembly():
    rows = list(csv.reader(io.StringIO(as_csv({"": figures([[[1, 2]], [[3, np.nan]]], num_pieces=[2, 5])}))))
    assert rows[0] == ["name", "pieces", "repeat", "sample", *PROTOCOLS["pairwise"].metrics]
    assert rows[1][:5] == ["p0", "2", "0", "0", "1.0"]
    assert rows[4][:5] == ["p1", "5", "0", "1", ""]
    assert len(rows) == 5
