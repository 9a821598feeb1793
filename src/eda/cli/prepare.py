"""`eda prepare`: other people's datasets as shards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eda.cli.terminal import progress

# A copy of the names of `eda.data.readers`: --help must not wait for numpy.
NAMES = (
    "breaking-bad", "garf", "rpf", "folders", "3dmatch", "3dzeromatch", "kitti",
    "breaking-bad-pack", "3dmatch-pack", "kitti-pack",
)  # fmt: skip


def _print_options(name: str | None) -> None:
    """Print what can be given to --set for a kind of dataset, and the defaults."""
    if name is None:
        return
    from eda.data.readers import options_of

    for key, default in options_of(name).items():
        typer.echo(f"{key}={'+'.join(default) if isinstance(default, tuple) else default}")
    raise typer.Exit


def prepare(
    name: Annotated[str, typer.Argument(help=f"The kind of dataset: {', '.join(NAMES)}.")],
    source: Annotated[Path, typer.Argument(help="Path of its files.")],
    folder: Annotated[Path, typer.Argument(help="Folder to write to. An interrupted run continues where it stopped.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="OPTION=VALUE", help="Set an option of the reader, e.g. --set split=val."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out puzzles that cannot be read, and count them.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bar.")] = False,
    options: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=_print_options,
            is_eager=True,
            help="List the options of a kind of dataset.",
        ),
    ] = None,
) -> None:
    """Convert a published dataset, or folders of pieces, into a dataset to train and to evaluate on."""
    from eda.data.storage.prepare import prepare as write

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
