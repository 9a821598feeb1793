"""Summaries as tables, in the units that papers print: for the terminal, for Markdown, and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eda.evaluate.protocols import PLACEMENT, PROTOCOLS, Metric
from eda.evaluate.summary import QUANTILES, Evaluation

Table = tuple[list[str], list[list[str]]]  # headings, rows


def _metrics(report: Mapping[str, Any]) -> dict[str, Metric]:
    """Those of the protocol that were measured, and those of placement where pieces may stay unplaced."""
    every = PROTOCOLS[report["protocol"]].metrics | PLACEMENT
    return {name: metric for name, metric in every.items() if name in report["metrics"]}


def table(report: Mapping[str, Any]) -> Table:
    """All puzzles, the spread, and the groups."""
    metrics, distributions = _metrics(report), report["metrics"]

    def figures(values: Mapping[str, float | None]) -> list[str]:
        return [_figure(metric, values[name]) for name, metric in metrics.items()]

    rows = [
        ["all", str(report["puzzles"]), *(_with_std(metric, distributions[name]) for name, metric in metrics.items())],
        ["95 % interval", "", *(_interval(metric, distributions[name]) for name, metric in metrics.items())],
    ]
    if "pooled_over_pairs" in report:
        pooled = report["pooled_over_pairs"]
        rows.append(
            ["pairs pooled", "", *(_figure(metrics[name], pooled[name]) if name in pooled else "" for name in metrics)]
        )
    for q in map(str, QUANTILES):
        values = {name: distributions[name]["quantiles"][q] for name in metrics}
        rows.append(["median" if q == "50" else f"q{q}", "", *figures(values)])
    for prop, groups in report["by"].items():
        for group, means in groups.items():
            label = f"{group} pieces" if prop == "pieces" else f"{prop} {group}"
            rows.append([label, str(means["puzzles"]), *figures(means)])
    if "best_of_samples" in report:
        rows.append([f"best of {report['samples']}", "", *figures(report["best_of_samples"])])
    return ["", "puzzles", *(metric.label for metric in metrics.values())], rows


def parts_table(reports: Mapping[str, Mapping[str, Any]]) -> Table:
    """One row for each part of the system, on the same puzzles; a figure that a part does not have is left empty."""
    metrics: dict[str, Metric] = {}
    for report in reports.values():
        metrics |= _metrics(report)
    rows = []
    for name, report in reports.items():
        means = [
            _figure(metric, report["metrics"][key]["mean"]) if key in report["metrics"] else ""
            for key, metric in metrics.items()
        ]
        rows.append([name, str(report["puzzles"]), *means, *_medians(report), _seconds(report)])
    first = next(iter(reports.values()))
    medians = [f"median {metric.label}" for metric in _leading(first)]
    return ["", "puzzles", *(metric.label for metric in metrics.values()), *medians, "seconds"], rows


def _leading(report: Mapping[str, Any]) -> list[Metric]:
    """The first error of the protocol, whose median says more than its mean."""
    errors = [m for name, m in _metrics(report).items() if not m.more_is_better and name not in PLACEMENT]
    return errors[:1]


def _medians(report: Mapping[str, Any]) -> list[str]:
    names = {metric.label: name for name, metric in _metrics(report).items()}
    return [_figure(metric, report["metrics"][names[metric.label]]["median"]) for metric in _leading(report)]


def _seconds(report: Mapping[str, Any]) -> str:
    return "-" if report["seconds_per_puzzle"] is None else f"{report['seconds_per_puzzle']:.3g}"


def reliability_table(report: Mapping[str, Any]) -> Table:
    """How far the probabilities of each kind can be believed."""
    headings = ["probability of", "number", "share right", "mean", "calibration error", "Brier score"]
    keys = ("share_right", "mean_probability", "calibration_error", "brier")
    rows = [
        [kind, str(row["number"]), *(f"{row[key]:.3f}" for key in keys)] for kind, row in report["reliability"].items()
    ]
    return headings, rows


def markdown(*tables: Table) -> str:
    """Tables for a document."""
    return "\n".join(_markdown(headings, rows) for headings, rows in tables)


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    align = [":--", *["--:"] * (len(headings) - 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [headings, align, *rows])


def as_csv(evaluations: Mapping[str, Evaluation]) -> str:
    """One line for every assembly, in plain units; a first column names the part if there are several."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    figures = list(dict.fromkeys(name for evaluation in evaluations.values() for name in evaluation.values))
    groups = list(next(iter(evaluations.values())).records[0].groups)
    several = len(evaluations) > 1
    writer.writerow([*(["part"] if several else []), "name", *groups, "repeat", "sample", *figures])
    for part, evaluation in evaluations.items():
        values = evaluation.values
        for q, r, k in np.ndindex(*evaluation.shape):
            record = evaluation.records[q]
            cells = [_cell(float(values[name][q, r, k])) if name in values else "" for name in figures]
            of = [record.groups[name] for name in groups]
            writer.writerow([*([part] if several else []), record.name, *of, r, k, *cells])
    return text.getvalue()


def _cell(value: float) -> str:
    return "" if math.isnan(value) else repr(value)


def _figure(metric: Metric, value: float | None) -> str:
    return "-" if value is None else f"{value * metric.factor:.4g}"


def _with_std(metric: Metric, distribution: Mapping[str, Any]) -> str:
    mean, std = distribution["mean"], distribution["std_over_repeats"]
    return _figure(metric, mean) if std is None else f"{_figure(metric, mean)} ± {_figure(metric, std)}"


def _interval(metric: Metric, distribution: Mapping[str, Any]) -> str:
    bounds = distribution["interval_95"]
    return "-" if bounds is None else " to ".join(_figure(metric, bound) for bound in bounds)
