"""`eda prepare`: everybody's datasets as ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eda.cli.terminal import progress

# A copy of the names that `eda.data.prepare` knows: --help must not wait for numpy.
NAMES = (
    "breaking-bad", "garf", "rpf", "ply", "3dmatch", "3dzeromatch", "kitti",
    "breaking-bad-pack", "3dmatch-pack", "kitti-pack",
)  # fmt: skip


def _print_options(name: str | None) -> None:
    """What can be given to --set for a kind of dataset, and its defaults."""
    if name is None:
        return
    from eda.data.prepare import options_of

    for key, default in options_of(name).items():
        typer.echo(f"{key}={'+'.join(default) if isinstance(default, tuple) else default}")
    raise typer.Exit


def prepare(
    name: Annotated[str, typer.Argument(help=f"The kind of dataset: {', '.join(NAMES)}.")],
    source: Annotated[Path, typer.Argument(help="Where its files lie.")],
    folder: Annotated[Path, typer.Argument(help="Where to write; an interrupted run goes on where it stopped.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="OPTION=VALUE", help="An option of the reader, e.g. --set split=val."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that read at the same time.")] = 1,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out what cannot be read, and count it.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    options: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", callback=_print_options, is_eager=True, help="Print the options of a kind of dataset."
        ),
    ] = None,
) -> None:
    """Write a dataset of somebody else's format as shards to learn from and to measure on."""
    from eda.data.prepare import prepare as write

    chosen = dict(_split(text) for text in settings or [])
    with progress("reading", hidden=quiet) as advance:
        done = write(name, source, folder, options=chosen, workers=workers, skip_bad=skip_bad, progress=advance)
    typer.echo(f"{folder}: {done.built.num_examples} puzzles")
    for count, what in (
        (done.num_left_out, "left out: the options exclude them"),
        (done.built.num_skipped, "skipped: they cannot be read"),
        (done.num_missing, "missing: the dataset's lists name them"),
    ):
        if count:
            typer.echo(f"  {count} {what}")


def _split(text: str) -> tuple[str, str]:
    from eda.errors import InputError

    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set {text}: expected OPTION=VALUE")
    return key.strip(), value.strip()
