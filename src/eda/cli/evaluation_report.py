"""What `eda evaluate` writes and prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from eda.cli.terminal import table_console

if TYPE_CHECKING:
    from rich.console import Console

    from eda.evaluate import Evaluation
    from eda.evaluate.tables import Table


@dataclass(frozen=True)
class Output:
    """The files that are asked for."""

    json: Path | None  # - prints it
    csv: Path | None
    markdown: Path | None
    diagram: Path | None
    predictions: Path | None

    @property
    def journal(self) -> Path | None:
        """Where finished puzzles are kept until the report is written."""
        if self.json is None or str(self.json) == "-":
            return None
        return self.json.with_name(f"{self.json.name}.partial.jsonl")

    def check(self) -> None:
        """Raise `InputError` before the work begins for a file that could not be written after it."""
        from eda.errors import InputError

        for path in (self.json, self.csv, self.markdown, self.diagram, self.predictions):
            if path is not None and (path.is_dir() or not path.parent.is_dir()):
                raise InputError(f"{path}: cannot be written; it must be a file in a folder that exists")


def write_report(
    measured: dict[str, Evaluation], settings: Mapping[str, dict[str, Any]], what: dict[str, Any], output: Output
) -> None:
    """Write every file that is asked for, then print the tables."""
    from eda.evaluate import summarize

    reports = {part: {**settings[part], **summarize(evaluation)} for part, evaluation in measured.items()}
    single = list(measured) == [""]
    report = {**what, **(reports[""] if single else {"parts": reports})}
    tables = _tables(reports, single)
    _write(measured, report, tables, output)
    if str(output.json) != "-":
        _print(report, reports, tables)


def _tables(reports: dict[str, dict[str, Any]], single: bool) -> list[Table]:
    """Of parts, one row each first; then all about the only or the whole one, and how far to believe it."""
    from eda.evaluate import parts_table, reliability_table, table

    whole = next(iter(reports.values()))
    tables = [] if single else [parts_table(reports)]
    tables.append(table(whole))
    return [*tables, reliability_table(whole)] if "reliability" in whole else tables


def _write(measured: dict[str, Evaluation], report: dict[str, Any], tables: list[Table], output: Output) -> None:
    from eda.atomic import write_atomically
    from eda.evaluate import Predictions, as_csv, diagram, markdown, write_predictions

    whole = next(iter(measured.values()))
    text = json.dumps(report, indent=2)
    if str(output.json) == "-":
        typer.echo(text)
    elif output.json:
        write_atomically(output.json, f"{text}\n".encode())
        assert output.journal is not None
        output.journal.unlink(missing_ok=True)
    if output.csv:
        write_atomically(output.csv, as_csv(measured).encode())
    if output.markdown:
        write_atomically(output.markdown, markdown(*tables).encode())
    if output.diagram:
        write_atomically(output.diagram, diagram(whole.claims).encode())
    if output.predictions:
        seed = report["seed"]
        write_predictions(output.predictions, Predictions.of(seed, whole.names, whole.poses))


def _print(report: dict[str, Any], reports: dict[str, dict[str, Any]], tables: list[Table]) -> None:
    from rich.markup import escape
    from rich.table import Table as Printed

    console, whole = table_console(), next(iter(reports.values()))
    who = report.get("model", report.get("predictions", "the model that suits the pieces"))
    kind = "assembler with " if "assembler" in whole else ""
    title: str | None = f"{kind}{who} on {report['data']}, {whole['protocol']}"
    for headings, rows in tables:
        printed = Printed(title=None if title is None else escape(title))
        for column, heading in enumerate(headings):
            printed.add_column(escape(heading), justify="right" if column else "left")
        for row in rows:
            printed.add_row(*map(escape, row))
        console.print(printed)
        title = None
    _print_rest(console, whole)


def _print_rest(console: Console, report: dict[str, Any]) -> None:
    """Which models were chosen, what was left unplaced, and the time."""
    if "models" in report:
        console.print("models: " + ", ".join(f"{name} for {count}" for name, count in report["models"].items()))
    if "placement" in report:
        left = report["placement"]
        console.print(f"unplaced: {left['own_unplaced']} of {left['own_pieces']} own pieces")
        if left["foreign_pieces"]:
            rates = [f"{name} {'-' if left[name] is None else f'{left[name]:.2f}'}" for name in ("precision", "recall")]
            console.print(
                f"unplaced: {left['foreign_unplaced']} of {left['foreign_pieces']} foreign pieces; {', '.join(rates)} "
                "of leaving foreign pieces out"
            )
    if report["seconds_per_puzzle"] is not None:
        work = "look at a puzzle" if report["protocol"] == "breaks" else f"assemble a puzzle {report['samples']} times"
        work = "assemble a puzzle" if report["samples"] == 1 and report["protocol"] != "breaks" else work
        console.print(f"{report['seconds_per_puzzle']:.3g} s to {work}.")
