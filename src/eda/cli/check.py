"""`eda check`: the laws of equivariance, on any model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eda.cli.terminal import progress, table_console

if TYPE_CHECKING:
    from eda.evaluate import EquivarianceReport


def check(
    model: Annotated[
        Path | None,
        typer.Argument(
            help="A model file, or the name of a model that ships. If not given, the paper's network, untrained."
        ),
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Number of random puzzles.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random puzzles.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Check that a model obeys the laws of equivariance, those of the paper's table and more.

    Exit code 1 if a law is broken.
    """
    import torch

    from eda.evaluate import check_equivariance
    from eda.model import Eda

    torch.set_num_threads(1)  # the puzzles are small: threads would wait for each other more than they work
    loaded = Eda.load(model) if model else Eda()
    name = str(model) if model else "the paper's network, untrained"
    with progress("checking", hidden=as_json) as advance:
        report = check_equivariance(loaded, draws=draws, seed=seed, progress=advance)
    if as_json:
        typer.echo(json.dumps({"model": name, **report.as_dict()}, indent=2))
    else:
        _print_report(name, report)
    raise typer.Exit(0 if report.holds else 1)


def _print_report(name: str, report: EquivarianceReport) -> None:
    from rich.markup import escape
    from rich.table import Table

    console = table_console()
    table = Table(title=f"Equivariance of {escape(name)}: medians of {report.draws} draws, 2 to 8 pieces")
    for column in ("law", "statement", "precision", "absolute", "relative", "bound", ""):
        table.add_column(column, justify="right" if column in ("absolute", "relative", "bound") else "left")
    for row in report.results:
        verdict = "[green]holds[/]" if row.holds else "[red]broken[/]"
        table.add_row(
            row.law, row.statement, row.dtype,
            f"{row.absolute:.1e}", f"{row.relative:.1e}", f"{row.bound:.0e}", verdict,
        )  # fmt: skip
    console.print(table)
    console.print(
        f"The field's norm is {report.field_norm:.2g}. The paper prints the absolute form of its trained network: "
        "L_R 1.8e-07, L_P 1.1e-07."
    )
    if not report.field_norm > 0:
        console.print("[red]The field is zero, so it says nothing: this model was not trained or its head is empty.[/]")
