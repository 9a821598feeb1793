"""What the figures of many puzzles say: means, quantiles, intervals and tables.

In: an `Evaluation`, figures of Q puzzles, each assembled in R repeats of K samples. Puzzles weigh the same, whatever
their number of pieces.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eda.evaluate.protocols import PROTOCOLS, Metric, Protocol
from eda.lie import SE3

QUANTILES = (10, 25, 50, 75, 90)
BOOTSTRAPS = 2000


@dataclass(frozen=True)
class Evaluation:
    """The figures of one run, nothing averaged yet."""

    protocol_name: str
    names: list[str]  # Q
    num_pieces: np.ndarray  # (Q,)
    values: dict[str, np.ndarray]  # figure -> (Q, R, K); NaN where it is not defined
    poses: list[SE3]  # Q of (R, K, N), what was scored
    seconds: np.ndarray | None = None  # (Q, R), wall time of the sampling; None if somebody else did it

    @property
    def protocol(self) -> Protocol:
        """How it was measured."""
        return PROTOCOLS[self.protocol_name]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Q, R, K."""
        return next(iter(self.values.values())).shape

    def best(self) -> dict[str, np.ndarray]:
        """The figures (Q, R, 1) of the best sample of each puzzle, which only the truth can tell: a bound."""
        name, metric = next(iter(self.protocol.metrics.items()))
        sign = -1 if metric.more_is_better else 1
        chosen = np.argmin(np.nan_to_num(sign * self.values[name], nan=np.inf), axis=2, keepdims=True)
        return {name: np.take_along_axis(values, chosen, axis=2) for name, values in self.values.items()}


def summarize(evaluation: Evaluation) -> dict[str, Any]:
    """All of it as plain values, for JSON; what is not defined is None."""
    puzzles, repeats, samples = evaluation.shape
    report: dict[str, Any] = {
        "protocol": evaluation.protocol_name,
        "puzzles": puzzles,
        "repeats": repeats,
        "samples": samples,
        "metrics": {name: _distribution(values) for name, values in evaluation.values.items()},
        "by_pieces": {
            str(count): {
                "puzzles": int((evaluation.num_pieces == count).sum()),
                **{name: _mean(values[evaluation.num_pieces == count]) for name, values in evaluation.values.items()},
            }
            for count in np.unique(evaluation.num_pieces)
        },
        "seconds_per_puzzle": None if evaluation.seconds is None else _mean(evaluation.seconds),
    }
    if samples > 1:
        report["best_of_samples"] = {name: _mean(values) for name, values in evaluation.best().items()}
    return report


def _distribution(values: np.ndarray) -> dict[str, Any]:
    """values (Q, R, K). The mean of a repeat is over puzzles and samples; quantiles are over all assemblies."""
    known = values[~np.isnan(values)]
    repeats = [_mean(values[:, r]) for r in range(values.shape[1])]
    defined = [mean for mean in repeats if mean is not None]
    return {
        "mean": _mean(np.array(defined)),
        "std_over_repeats": float(np.std(defined, ddof=1)) if len(defined) > 1 else None,
        "repeat_means": repeats,
        "interval_95": _bootstrap(values),
        "median": float(np.median(known)) if len(known) else None,
        "quantiles": {str(q): float(np.percentile(known, q)) if len(known) else None for q in QUANTILES},
        "defined": len(known),
    }


def _mean(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _bootstrap(values: np.ndarray) -> list[float] | None:
    """95 % of the means over puzzles drawn with replacement: how far the choice of puzzles carries."""
    known = ~np.isnan(values)
    total, count = np.where(known, values, 0).sum(axis=(1, 2)), known.sum(axis=(1, 2))
    if not count.any():
        return None
    draws = np.random.default_rng(0).integers(len(values), size=(BOOTSTRAPS, len(values)))
    totals, counts = total[draws].sum(axis=1), count[draws].sum(axis=1)
    low, high = np.percentile(totals[counts > 0] / counts[counts > 0], [2.5, 97.5])
    return [float(low), float(high)]


# -- tables ----------------------------------------------------------------------------------------------------------


def table(report: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows, in the units that papers print: all puzzles, the spread, and by number of pieces."""
    metrics, distributions = PROTOCOLS[report["protocol"]].metrics, report["metrics"]

    def figures(values: Mapping[str, float | None]) -> list[str]:
        return [_figure(metric, values[name]) for name, metric in metrics.items()]

    rows = [
        ["all", str(report["puzzles"]), *(_with_std(metric, distributions[name]) for name, metric in metrics.items())],
        ["95 % interval", "", *(_interval(metric, distributions[name]) for name, metric in metrics.items())],
    ]
    for q in map(str, QUANTILES):
        values = {name: distributions[name]["quantiles"][q] for name in metrics}
        rows.append(["median" if q == "50" else f"q{q}", "", *figures(values)])
    for count, means in report["by_pieces"].items():
        rows.append([f"{count} pieces", str(means["puzzles"]), *figures(means)])
    if "best_of_samples" in report:
        rows.append([f"best of {report['samples']}", "", *figures(report["best_of_samples"])])
    return ["", "puzzles", *(metric.label for metric in metrics.values())], rows


def markdown(report: dict[str, Any]) -> str:
    """The table for a document."""
    headings, rows = table(report)
    align = [":--", *["--:"] * (len(headings) - 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [headings, align, *rows])


def as_csv(evaluation: Evaluation) -> str:
    """One line for every assembly, in plain units."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["name", "pieces", "repeat", "sample", *evaluation.values])
    for q, r, k in np.ndindex(*evaluation.shape):
        figures = [float(values[q, r, k]) for values in evaluation.values.values()]
        line = [evaluation.names[q], int(evaluation.num_pieces[q]), r, k]
        writer.writerow([*line, *("" if math.isnan(figure) else repr(figure) for figure in figures)])
    return text.getvalue()


def _figure(metric: Metric, value: float | None) -> str:
    return "-" if value is None else f"{value * metric.factor:.4g}"


def _with_std(metric: Metric, distribution: dict[str, Any]) -> str:
    mean, std = distribution["mean"], distribution["std_over_repeats"]
    return _figure(metric, mean) if std is None else f"{_figure(metric, mean)} ± {_figure(metric, std)}"


def _interval(metric: Metric, distribution: dict[str, Any]) -> str:
    bounds = distribution["interval_95"]
    return "-" if bounds is None else " to ".join(_figure(metric, bound) for bound in bounds)
