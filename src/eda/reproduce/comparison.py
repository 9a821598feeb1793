"""Comparison: measured figures beside the paper's printed ones, each kind in columns of its own.

In: measured rows, and the labels of the paper's tables. Out: a table of texts; a column is measured or printed, never
both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eda.evaluate.tables import Table
from eda.reproduce.published import published_table

MEASURED = "measured"


@dataclass(frozen=True)
class MeasuredRow:
    """A system on one dataset, measured here."""

    group: str
    system: str
    figures: Mapping[str, str]  # by column


@dataclass(frozen=True)
class Comparison:
    """Measured rows beside the rows of the same systems in tables of the paper."""

    columns: Mapping[str, str]  # name of a figure -> its heading
    rows: Sequence[MeasuredRow]
    labels: Sequence[str] = ()  # of the paper's tables
    only_measured: Sequence[str] = field(default=("puzzles",))  # figures that the paper does not print

    def table(self) -> Table:
        """Headings and rows. Systems that were measured come first, then those that are only printed."""
        printed = {label: published_table(label) for label in self.labels}
        by_key = {
            label: {(row.group, row.system): row.figures for row in table.rows} for label, table in printed.items()
        }
        measured = {(row.group, row.system): row.figures for row in self.rows}
        keys = list(dict.fromkeys([*measured, *(key for rows in by_key.values() for key in rows)]))
        groups = list(dict.fromkeys(group for group, _ in keys))
        keys.sort(key=lambda key: groups.index(key[0]))  # stable: measured ones stay first
        columns = self._columns(by_key)
        headings = [self._heading(name, label, printed) for name, label in columns]
        rows = []
        for group, system in keys:
            sources = {MEASURED: measured, **by_key}
            cells = [sources[label].get((group, system), {}).get(name, "") for name, label in columns]
            rows.append([*([group] if groups != [""] else []), system, *cells])
        return [*(["data"] if groups != [""] else []), "system", *headings], rows

    def _columns(self, by_key: Mapping[str, Mapping[Any, Mapping[str, str]]]) -> list[tuple[str, str]]:
        """Every figure as measured, then as each table prints it, if it does."""
        columns = []
        for name in self.columns:
            columns.append((name, MEASURED))
            if name not in self.only_measured:
                columns += [
                    (name, label) for label, rows in by_key.items() if any(name in row for row in rows.values())
                ]
        return columns

    def _heading(self, name: str, label: str, printed: Mapping[str, Any]) -> str:
        if label == MEASURED:
            return f"{self.columns[name]}, measured"
        return f"{self.columns[name]}, printed in {printed[label].number}"


# -- from reports of evaluations -----------------------------------------------------------------------------

PAIRWISE_COLUMNS = {"puzzles": "puzzles", "rotation": "Δr [deg]", "translation": "Δt"}


def pairwise_figures(report: Mapping[str, Any]) -> dict[str, str]:
    """Both errors of a summary by the protocol `pairwise`, ± their standard deviation over repeats, and the minutes."""
    seconds = report["seconds_per_puzzle"]
    minutes = {} if seconds is None else {"minutes": f"{seconds * report['puzzles'] / 60:.3g}"}
    metrics = report["metrics"]
    return {
        "puzzles": str(report["puzzles"]),
        **{name: _with_std(metrics[name]) for name in ("rotation", "translation")},
        **minutes,
    }


def _with_std(distribution: Mapping[str, Any]) -> str:
    mean, std = distribution["mean"], distribution["std_over_repeats"]
    return f"{mean:.4g}" if std is None else f"{mean:.4g} ± {std:.2g}"
