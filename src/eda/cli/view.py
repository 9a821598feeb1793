"""`eda view`: open the report of a result in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def view(
    result: Annotated[Path, typer.Argument(help="The folder that `eda assemble` wrote, or the report in it.")],
) -> None:
    """Open the report of a result in the browser. Without a display, print its address instead."""
    from eda.output.browser import open_report

    report = _find_report(result)
    opened = open_report(report)
    typer.echo(f"opened {report}" if opened else f"open this in a browser: {report.resolve().as_uri()}")


def _find_report(result: Path) -> Path:
    from eda.errors import InputError
    from eda.output.result_folder import REPORT

    if not result.exists():
        raise InputError(f"{result}: does not exist; give the folder that `eda assemble` wrote")
    report = result / REPORT if result.is_dir() else result
    if report.name != REPORT or not report.is_file():
        raise InputError(f"{result}: contains no report; give the folder that `eda assemble` wrote")
    return report
