"""`eda rooms`: a dataset of pairs of scans of generated rooms."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eda.cli.options import meshes_at
from eda.cli.terminal import progress

if TYPE_CHECKING:
    from eda.data.fracture import Meshes

SHARD_SIZE = 25  # rooms; each gives several pairs, of some thousand points


def rooms(
    folder: Annotated[Path, typer.Argument(help="Folder to write to. An interrupted run continues where it stopped.")],
    rooms: Annotated[int, typer.Option(min=1, help="Number of rooms.")] = 300,
    scans: Annotated[int, typer.Option(help="Number of scans of a room.")] = 14,
    pairs: Annotated[int, typer.Option(help="Largest number of pairs of scans to write for a room.")] = 10,
    objects: Annotated[
        Path | None,
        typer.Option(
            help="Closed meshes to place in the rooms, beside generated objects: a mesh, a folder of meshes, or a pack."
        ),
    ] = None,
    licences: Annotated[
        str | None, typer.Option(help='Take only meshes of a pack with these licences, e.g. "CC BY,CC0".')
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed; the same seed gives the same rooms.")] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Number of processes; 0: one for every core.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bar.")] = False,
) -> None:
    """Generate furnished rooms, scan them with a virtual depth camera, and write pairs of scans as a dataset."""
    from eda.data import Plan, RoomSource, build

    source = RoomSource(seed, meshes_at(objects, licences), scans=scans, pairs=pairs, rooms=rooms)
    if source.objects is not None:
        _check_usable(source.objects, quiet)
    plan = Plan(source.pairs_of_room, rooms, source.description(), shard_size=SHARD_SIZE)
    with progress("scanning", hidden=quiet) as advance:
        done = build(plan, folder, workers=workers or os.cpu_count() or 1, progress=advance)
    typer.echo(f"{folder}: {done.num_examples} pairs of scans of {rooms} rooms")


def _check_usable(objects: Meshes, quiet: bool) -> None:
    """Before the work, not in its middle: nearly every room takes some of them."""
    with progress("reading objects", hidden=quiet) as advance:
        for index in range(len(objects)):
            objects.solid(index)
            advance(index + 1, len(objects))
