"""`eda rooms`: a dataset of pairs of scans of rooms that never were."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eda.cli.options import meshes_at
from eda.cli.terminal import progress

if TYPE_CHECKING:
    from eda.data.mesh_files import MeshSource

SHARD_SIZE = 25  # rooms; each gives several pairs, of some thousand points


def rooms(
    folder: Annotated[Path, typer.Argument(help="Where to write; an interrupted run goes on where it stopped.")],
    rooms: Annotated[int, typer.Option(min=1, help="How many.")] = 300,
    scans: Annotated[int, typer.Option(help="Scans of a room.")] = 14,
    pairs: Annotated[int, typer.Option(help="Pairs of them that are written, at most.")] = 10,
    objects: Annotated[
        Path | None,
        typer.Option(
            help="Closed meshes to put about: a mesh, a folder of meshes, or a pack. Without it, things of our own."
        ),
    ] = None,
    licences: Annotated[
        str | None, typer.Option(help='Of a pack, only meshes with these licences, e.g. "CC BY,CC0".')
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same rooms.")] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Processes that work at the same time; 0: all cores.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Make up furnished rooms, scan them, and write pairs of scans as a dataset."""
    from eda.data.build import Plan, build
    from eda.data.rooms import RoomSource

    source = RoomSource(seed, meshes_at(objects, licences), scans=scans, pairs=pairs)
    if source.objects is not None:
        _check_usable(source.objects, quiet)
    plan = Plan(source, rooms, source.description(), shard_size=SHARD_SIZE)
    with progress("scanning", hidden=quiet) as advance:
        done = build(plan, folder, workers=workers or os.cpu_count() or 1, progress=advance)
    typer.echo(f"{folder}: {done.num_examples} pairs of scans of {rooms} rooms")


def _check_usable(objects: MeshSource, quiet: bool) -> None:
    """Before the work, not in its middle: nearly every room takes some of them."""
    with progress("reading objects", hidden=quiet) as advance:
        for index in range(len(objects)):
            objects.solid(index)
            advance(index + 1, len(objects))
