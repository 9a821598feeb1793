"""`eda show`: a page of puzzles to look at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eda.cli.files import check_output_file, write_output_file
from eda.cli.options import PUZZLES
from eda.cli.terminal import progress

if TYPE_CHECKING:
    from eda.data import Example, Source


def show(
    puzzles: Annotated[str, typer.Argument(help=PUZZLES)],
    output: Annotated[Path, typer.Option("--out", "-o", help="The picture to write, a PNG.")] = Path("sheet.png"),
    count: Annotated[int, typer.Option(min=1, help="Number of puzzles to draw.")] = 12,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the choice of puzzles.")] = 0,
    columns: Annotated[int, typer.Option(min=1, help="Number of puzzles side by side.")] = 3,
    size: Annotated[int, typer.Option(min=32, help="Width of a view in pixels; a puzzle has three views.")] = 220,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bar.")] = False,
) -> None:
    """Draw some puzzles of a dataset on one page: each assembled, taken apart, and with its breaks in red."""
    from eda.data import open_examples
    from eda.errors import InputError
    from eda.render import SheetStyle, contact_sheet, encode_png

    if output.suffix.lower() != ".png":
        raise InputError(f"{output}: pictures are written as PNG; choose a name that ends in .png")
    check_output_file(output, overwrite=overwrite)
    chosen = _choose(open_examples(puzzles), count, seed)
    if not chosen:
        raise InputError(f"{puzzles}: there are no puzzles to draw")
    with progress("drawing", hidden=quiet) as advance:
        page = contact_sheet(chosen, SheetStyle(columns=columns, view=size), progress=advance)
    write_output_file(output, encode_png(page, optimize=True))
    typer.echo(f"{output}: {len(chosen)} puzzles")


def _choose(examples: Source, count: int, seed: int) -> list[Example]:
    """Up to `count` of the examples, drawn by the seed, in their own order."""
    import numpy as np

    from eda.data.source import LeftOut

    found: dict[int, Example] = {}
    for index in np.random.default_rng(seed).permutation(len(examples)).tolist():
        if len(found) == count:
            break
        try:
            found[index] = examples[index]
        except LeftOut:  # the options of the source exclude it
            continue
    return [found[index] for index in sorted(found)]
