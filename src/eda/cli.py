"""The command line. Heavy imports wait until a command needs them: `eda --help` answers at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from eda.evaluate import EquivarianceReport

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Put rigid 3D pieces together: equivariant flow matching for point cloud assembly.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"eda {version('eda-assembly')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def check(
    model: Annotated[
        Path | None, typer.Argument(help="A model file. Without it, the paper's network, untrained.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Random puzzles to draw.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the random puzzles.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Check that a model keeps the laws of equivariance: the paper's table, and more. Exit code 1 if one is broken."""
    import torch

    from eda.evaluate import check_equivariance
    from eda.model import Eda

    torch.set_num_threads(1)  # the puzzles are small: threads would wait for each other more than they work
    loaded = Eda.load(model) if model else Eda()
    name = str(model) if model else "the paper's network, untrained"
    with _progress("checking", hidden=as_json) as advance:
        report = check_equivariance(loaded, draws=draws, seed=seed, progress=advance)
    if as_json:
        typer.echo(json.dumps({"model": name, **report.as_dict()}, indent=2))
    else:
        _print_report(name, report)
    raise typer.Exit(0 if report.holds else 1)


def _print_report(name: str, report: EquivarianceReport) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
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


@contextmanager
def _progress(label: str, *, hidden: bool) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr; gives a function `advance(done, total)`."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=hidden) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def main() -> None:
    """Run a command: exit code 0 done, 1 a check failed, 2 bad input, 130 interrupted."""
    from eda.errors import InputError

    try:
        app()
    except InputError as error:
        print(f"eda: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("eda: interrupted", file=sys.stderr)
        sys.exit(130)
