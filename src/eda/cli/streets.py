"""`eda streets`: a dataset of clips of drives through generated streets."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from eda.cli.terminal import progress

SHARD_SIZE = 50  # clips; each of some ten thousand points

FRAMES = "Number of frames of a clip, each one rotation of the lidar."
SPACING = "Metres from a frame to the next, as the crow flies; the paper's are 100."
AZIMUTH = "Degrees between two firings; coarser is faster, and measures fewer points far away."
DISTORTION = "Leave in how the car moves during a rotation, instead of correcting it."
NEIGHBORS = "Estimate normals from so many nearest points, with unknown sign; 0: no normals."


def streets(
    folder: Annotated[Path, typer.Argument(help="Folder to write to. An interrupted run continues where it stopped.")],
    clips: Annotated[int, typer.Option(min=1, help="Number of clips, each of a street of its own.")] = 300,
    frames: Annotated[str, typer.Option(metavar="MIN-MAX", help=FRAMES)] = "2",
    spacing: Annotated[str, typer.Option(metavar="MIN-MAX", help=SPACING)] = "5-10",
    beams: Annotated[str, typer.Option(help="Beams of the lidar: 64 or 32.")] = "64",
    reach: Annotated[float, typer.Option("--range", help="Metres beyond which nothing is measured.")] = 80.0,
    azimuth: Annotated[float, typer.Option(help=AZIMUTH)] = 0.2,
    distortion: Annotated[bool, typer.Option("--distortion", help=DISTORTION)] = False,
    grid: Annotated[float, typer.Option(help="Metres of the grid on which clouds are thinned.")] = 0.5,
    neighbors: Annotated[int, typer.Option(help=NEIGHBORS)] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Random seed; the same seed gives the same clips.")] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Number of processes; 0: one for every core.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bar.")] = False,
) -> None:
    """Generate streets, drive through them with a simulated spinning lidar, and write clips of frames as a dataset."""
    from eda.data import Plan, StreetSource, build

    source = StreetSource.from_settings(
        {
            "clips": clips, "seed": seed, "frames": frames, "spacing": spacing, "grid": grid, "neighbors": neighbors,
            "beams": beams, "range": reach, "azimuth": azimuth, "distortion": distortion,
        }
    )  # fmt: skip
    plan = replace(Plan.from_source(source, source.description()), shard_size=SHARD_SIZE)
    with progress("driving", hidden=quiet) as advance:
        done = build(plan, folder, workers=workers or os.cpu_count() or 1, progress=advance)
    typer.echo(f"{folder}: {done.num_examples} clips")
