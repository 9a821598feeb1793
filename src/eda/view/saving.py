"""From Python, what `eda assemble` leaves behind: the folder of an assembly, and its report in the browser."""

from __future__ import annotations

import tempfile
from pathlib import Path

from eda.assembly.result import Assembly
from eda.view.browser import open_report
from eda.view.deliver import Given, deliver


def save_assembly(assembly: Assembly, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write all that `eda assemble` writes into a folder, which must be empty or new unless it is overwritten."""
    pieces = zip(assembly.names, assembly.clouds.points, assembly.clouds.normals, strict=True)
    deliver(assembly, [Given(*piece) for piece in pieces], Path(folder), command="eda.assemble", overwrite=overwrite)
    return Path(folder)


def show_assembly(assembly: Assembly) -> Path:
    """Open the report in the browser. It lies in a new temporary folder, which is returned, with all the rest."""
    folder = save_assembly(assembly, Path(tempfile.mkdtemp(prefix="eda-")))
    open_report(folder / "report.html")
    return folder
