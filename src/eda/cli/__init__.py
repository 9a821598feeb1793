"""The command line. Slow imports are made inside the commands, so that `eda --help` answers at once."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from eda.cli import failures
from eda.cli.assemble import assemble, models
from eda.cli.check import check
from eda.cli.evaluate import evaluate
from eda.cli.fracture import fracture
from eda.cli.plugins import load_plugins
from eda.cli.prepare import prepare
from eda.cli.reproduce import reproduce
from eda.cli.rooms import rooms
from eda.cli.show import show
from eda.cli.streets import streets
from eda.cli.train import train
from eda.cli.view import view


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        """Run a command. Typer ends without a reason for these two exceptions, so they are packed up for `main`."""
        try:
            return super().invoke(ctx)
        except (EOFError, BrokenPipeError) as error:
            raise failures.CommandError(str(error)) from error


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Assemble rigid 3D pieces, such as the fragments of a broken object or overlapping scans.",
    epilog="Exit codes: 0 done, 1 a check failed or an unforeseen error, 2 bad input, 3 no piece could be placed, "
    "4 training was stopped before its last step, 130 interrupted, 143 terminated.",
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
    plugins: Annotated[
        list[str] | None,
        typer.Option("--plugin", metavar="MODULE", help="Import a Python module of yours first. Can be repeated."),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error.")] = False,
) -> None:
    failures.debug.set(debug)
    load_plugins(plugins or [])


# Panel of `eda --help` -> its commands, each with one sentence.
_COMMANDS: dict[str, dict[Callable[..., None], str]] = {
    "Assemble": {
        assemble: "Assemble pieces, given as meshes or point clouds, and write a folder of results.",
        view: "Open the report of a result in the browser.",
    },
    "Train and evaluate": {
        train: "Train a model, or continue an interrupted run.",
        evaluate: "Measure how well a model, or another system, assembles puzzles.",
        reproduce: "Measure the tables and figures of the paper, with baselines, beside what it prints.",
        check: "Check that a model is equivariant.",
        models: "List the models that come with Eda.",
    },
    "Make and inspect datasets": {
        fracture: "Break objects, your own meshes or built-in shapes, into puzzles.",
        rooms: "Simulate scans of furnished rooms.",
        streets: "Simulate a lidar on drives through streets.",
        prepare: "Convert a published dataset into Eda's format.",
        show: "Draw puzzles of a dataset on one page.",
    },
}
for panel, commands in _COMMANDS.items():
    for command, sentence in commands.items():
        app.command(rich_help_panel=panel, short_help=sentence)(command)


_PYTHON_FORMAT = warnings.formatwarning


def _warning_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """The line to print for a warning; warnings about the input do not name a line of our code."""
    from eda.errors import InputWarning

    if issubclass(category, InputWarning):
        return f"eda: warning: {message}\n"
    return _PYTHON_FORMAT(message, category, filename, lineno, line)


def main() -> None:
    """Run a command. Exit codes: as `eda --help` lists them."""
    warnings.formatwarning = _warning_line
    failures.debug.set(False)
    with failures.terminable():
        try:
            _run()
        except SystemExit as end:
            # While a command runs, typer turns an interruption into its exit code without a message.
            if end.code not in (failures.INTERRUPTED, failures.TERMINATED):
                raise
            sys.exit(failures.tell(end))
        except BaseException as error:  # a panic of a library written in Rust is no `Exception`
            sys.exit(failures.tell(error))


def _run() -> None:
    try:
        app()
    except SystemExit:
        sys.stdout.flush()  # here, because later nobody could say that it failed
        raise
