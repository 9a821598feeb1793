"""The command line. Heavy imports wait until a command needs them: `eda --help` answers at once."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated

import typer

from eda.cli.assemble import assemble, models
from eda.cli.check import check
from eda.cli.evaluate import evaluate
from eda.cli.fracture import fracture
from eda.cli.plugins import load_plugins
from eda.cli.prepare import prepare
from eda.cli.rooms import rooms
from eda.cli.show import show
from eda.cli.train import train
from eda.cli.view import view

INTERRUPTED = 130  # as shells count: 128 and the number of the signal

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
    plugins: Annotated[
        list[str] | None,
        typer.Option("--plugin", metavar="MODULE", help="Import a Python module of yours first. Can be repeated."),
    ] = None,
) -> None:
    load_plugins(plugins or [])


for command in (assemble, view, models, fracture, rooms, prepare, show, train, evaluate, check):
    app.command()(command)


_PYTHONS_LINES = warnings.formatwarning


def _warning_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A user does not care which line of ours has doubts about the input."""
    from eda.errors import InputWarning

    if issubclass(category, InputWarning):
        return f"eda: warning: {message}\n"
    return _PYTHONS_LINES(message, category, filename, lineno, line)


def main() -> None:
    """Run a command: 0 done, 1 a check failed, 2 bad input, 3 nothing placed, 130 interrupted, 143 terminated."""
    from eda.errors import InputError

    warnings.formatwarning = _warning_line
    try:
        app()
    except InputError as error:
        print(f"eda: {error}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as end:
        # While a command runs, typer turns an interruption into its exit code, and says nothing.
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        print("eda: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
