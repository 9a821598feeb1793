"""What the figures of many puzzles say: means, quantiles, intervals, groups, placement and reliability.

In: an `Evaluation`, figures of Q puzzles, each assembled in R repeats of K samples. Puzzles weigh the same, whatever
their number of pieces.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from eda.evaluate.groups import group_order
from eda.evaluate.protocols import PROTOCOLS, Protocol
from eda.evaluate.records import Record, Unplaced
from eda.evaluate.reliability import pool_claims, reliability
from eda.lie import SE3

QUANTILES = (10, 25, 50, 75, 90)
BOOTSTRAPS = 2000


@dataclass(frozen=True)
class Evaluation:
    """The records of one run, nothing averaged yet."""

    protocol_name: str
    records: list[Record]  # Q

    @property
    def protocol(self) -> Protocol:
        """How it was measured."""
        return PROTOCOLS[self.protocol_name]

    @property
    def names(self) -> list[str]:
        """Q, of the puzzles."""
        return [record.name for record in self.records]

    @property
    def num_pieces(self) -> np.ndarray:
        """(Q,)."""
        return np.array([record.num_pieces for record in self.records])

    @property
    def values(self) -> dict[str, np.ndarray]:
        """Figure -> (Q, R, K); NaN where it is not defined."""
        return {name: np.stack([record.figures[name] for record in self.records]) for name in self.records[0].figures}

    @property
    def poses(self) -> list[SE3]:
        """Q of (R, K, N), what was scored."""
        return [record.poses for record in self.records if record.poses is not None]

    @property
    def seconds(self) -> np.ndarray | None:
        """(Q, R) wall time; None if somebody else did the work."""
        known = [record.seconds for record in self.records if record.seconds is not None]
        return np.stack(known) if known else None

    @property
    def claims(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Kind -> probabilities and whether right, of all puzzles; empty for a system without probabilities."""
        return pool_claims(record.claims for record in self.records if record.claims is not None)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Q, R, K."""
        return next(iter(self.values.values())).shape

    def best(self) -> dict[str, np.ndarray]:
        """The figures (Q, R, 1) of the best sample of each puzzle, which only the truth can tell: a bound."""
        name, metric = next(iter(self.protocol.metrics.items()))
        sign, values = -1 if metric.more_is_better else 1, self.values
        chosen = np.argmin(np.nan_to_num(sign * values[name], nan=np.inf), axis=2, keepdims=True)
        return {name: np.take_along_axis(of_one, chosen, axis=2) for name, of_one in values.items()}


def summarize(evaluation: Evaluation) -> dict[str, Any]:
    """All of it as plain values, for JSON; what is not defined is None."""
    (puzzles, repeats, samples), values = evaluation.shape, evaluation.values
    report: dict[str, Any] = {
        "protocol": evaluation.protocol_name,
        "puzzles": puzzles,
        "repeats": repeats,
        "samples": samples,
        "metrics": {name: _distribution(of_one) for name, of_one in values.items()},
        "by": {name: _by_group(evaluation, name) for name in evaluation.records[0].groups},
        "seconds_per_puzzle": None if evaluation.seconds is None else _mean(evaluation.seconds),
    }
    pooled = _pooled_over_pairs(evaluation)
    if pooled:
        report["pooled_over_pairs"] = pooled
    if samples > 1:
        report["best_of_samples"] = {name: _mean(of_one) for name, of_one in evaluation.best().items()}
    models = Counter(record.model for record in evaluation.records if record.model is not None)
    left = [record.unplaced for record in evaluation.records if record.unplaced is not None]
    claims = reliability(evaluation.claims)
    return {
        **report,
        **({"models": dict(models)} if models else {}),
        **({"placement": _placement(left)} if left else {}),
        **({"reliability": claims} if claims else {}),
    }


def _by_group(evaluation: Evaluation, name: str) -> dict[str, dict[str, Any]]:
    """Group -> number of puzzles, means and seconds."""
    groups = [record.groups[name] for record in evaluation.records]
    values, seconds = evaluation.values, evaluation.seconds
    table = {}
    for group in sorted(set(groups), key=group_order):
        rows = np.array([of == group for of in groups])
        means = {metric: _mean(of_one[rows]) for metric, of_one in values.items()}
        table[group] = {"puzzles": int(rows.sum()), **means}
        if seconds is not None:
            table[group]["seconds_per_puzzle"] = _mean(seconds[rows])
    return table


def _pooled_over_pairs(evaluation: Evaluation) -> dict[str, float | None]:
    """Means in which every ordered pair of pieces weighs the same, and not every puzzle; empty if that is no other."""
    count = evaluation.num_pieces
    metrics = {name: metric for name, metric in evaluation.protocol.metrics.items() if metric.of_pairs}
    if (count == count[0]).all():
        return {}
    return {name: _mean(np.repeat(evaluation.values[name], count * (count - 1), axis=0)) for name in metrics}


def _placement(left: list[Unplaced]) -> dict[str, Any]:
    """Pieces left unplaced; leaving one out is right if it is foreign."""
    own, foreign = sum(one.own for one in left), sum(one.foreign for one in left)
    num_own, num_foreign = sum(one.num_own for one in left), sum(one.num_foreign for one in left)
    return {
        "own_pieces": num_own,
        "own_unplaced": own,
        "foreign_pieces": num_foreign,
        "foreign_unplaced": foreign,
        "precision": foreign / (own + foreign) if num_foreign and own + foreign else None,
        "recall": foreign / num_foreign if num_foreign else None,
    }


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
