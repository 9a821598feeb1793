"""`eda view`: the report of a result, in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def view(
    result: Annotated[Path, typer.Argument(help="The folder that `eda assemble` wrote, or the report in it.")],
) -> None:
    """Open the report of an assembly in the browser, or say where it lies if there is no display."""
    from eda.output.browser import open_report

    report = _report_in(result)
    opened = open_report(report)
    typer.echo(f"opened {report}" if opened else f"open this in a browser: {report.resolve().as_uri()}")


def _report_in(result: Path) -> Path:
    from eda.errors import InputError

    if not result.exists():
        raise InputError(f"{result}: not there; give the folder that `eda assemble` wrote")
    report = result / "report.html" if result.is_dir() else result
    if report.name != "report.html" or not report.is_file():
        raise InputError(f"{result}: no report in it; give the folder that `eda assemble` wrote")
    return report
