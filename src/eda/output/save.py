"""For Python users, what `eda assemble` does after assembling: write the result folder, or open the report."""

from __future__ import annotations

import tempfile
from pathlib import Path

from eda.assembly.result import Assembly
from eda.output.browser import open_report
from eda.output.result_files import DEFAULT_MEGABYTES, write_result
from eda.output.result_folder import REPORT
from eda.render.input_piece import InputPiece


def save_assembly(
    assembly: Assembly, folder: str | Path, *, overwrite: bool = False, megabytes: float = DEFAULT_MEGABYTES
) -> Path:
    """Write the files that `eda assemble` writes, and return the folder.

    The folder must be new or empty; with `overwrite`, it may also hold an earlier result, which is replaced. The moved
    pieces of the alternatives after the first are written as far as they take at most so many megabytes.
    """
    pieces = zip(assembly.names, assembly.clouds.points, assembly.clouds.normals, strict=True)
    given = [InputPiece(*piece) for piece in pieces]
    write_result(assembly, given, Path(folder), command="eda.assemble", overwrite=overwrite, megabytes=megabytes)
    return Path(folder)


def show_assembly(assembly: Assembly) -> Path:
    """Open the report in the browser, and return the new temporary folder in which all files were written."""
    folder = save_assembly(assembly, Path(tempfile.mkdtemp(prefix="eda-")))
    open_report(folder / REPORT)
    return folder
