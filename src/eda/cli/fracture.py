"""`eda fracture`: a dataset of broken objects, our own or yours."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eda.cli.options import listed, meshes_at
from eda.cli.terminal import progress

if TYPE_CHECKING:
    from eda.data import BuildResult, FractureConfig, FractureSource
    from eda.data.fracture.puzzle_folders import PuzzleCounts

# What options of more than a line are for.
MESHES = "What to break: a mesh, a folder of meshes, or a pack of meshes. If not given, objects are generated."
CHIPS = "Share of the objects that break into a body and chips; a small --min-volume lets chips be small."
FOREIGN = "Chance, for each piece, that a piece of another object is added."
EROSION = "Widest gap along the breaks, as a share of the object's size."
SHAPES = "Which generated objects to break: all, train, thick, thin, held_out, or kinds, separated by commas."
FORM = "shards: a dataset to train and to evaluate on; meshes: a folder of PLY files for every puzzle."


def fracture(
    folder: Annotated[Path, typer.Argument(help="Folder to write to. An interrupted run continues where it stopped.")],
    meshes: Annotated[Path | None, typer.Argument(help=MESHES)] = None,
    puzzles: Annotated[int, typer.Option(min=1, help="Number of puzzles; meshes are broken in turn.")] = 1000,
    pieces: Annotated[str, typer.Option(metavar="MIN-MAX", help="Number of pieces of a puzzle.")] = "2-8",
    roughness: Annotated[float, typer.Option(help="Roughness of the breaks, as a share of the object's size.")] = 0.02,
    min_volume: Annotated[float, typer.Option(help="Smallest volume of a piece, as a share of the object's.")] = 0.025,
    chips: Annotated[float, typer.Option(help=CHIPS)] = 0.0,
    missing: Annotated[float, typer.Option(help="Chance of each piece to be left out.")] = 0.0,
    foreign: Annotated[float, typer.Option(help=FOREIGN)] = 0.0,
    erosion: Annotated[float, typer.Option(help=EROSION)] = 0.0,
    points: Annotated[int, typer.Option(help="Number of points of a puzzle.")] = 4000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed; the same seed gives the same puzzles.")] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Number of processes; 0: one for every core.")] = 0,
    kinds: Annotated[
        str, typer.Option(help="Ways to break, separated by commas; each object breaks in one of them.")
    ] = "rough,cells,shell",
    shapes: Annotated[str, typer.Option(help=SHAPES)] = "all",
    licences: Annotated[
        str | None, typer.Option(help='Take only meshes of a pack with these licences, e.g. "CC BY,CC0".')
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out meshes that cannot be read or broken, and count them.")
    ] = False,
    form: Annotated[str, typer.Option("--as", help=FORM)] = "shards",
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bar.")] = False,
) -> None:
    """Break objects into rough pieces that fit together, and write them as a dataset."""
    from eda.data import FractureConfig, Plan, build
    from eda.data.fracture import write_puzzles
    from eda.settings import check_choice

    done: BuildResult | PuzzleCounts
    check_choice("--as", form, ("shards", "meshes"))
    least, most = _range(pieces)
    config = FractureConfig(
        min_pieces=least, max_pieces=most, roughness=roughness, min_volume=min_volume, chips=chips, missing=missing,
        foreign=foreign, erosion=erosion, num_points=points, kinds=listed(kinds),
    )  # fmt: skip
    source = _source(config, seed, meshes, shapes, licences, puzzles)
    workers = workers or os.cpu_count() or 1
    with progress("breaking", hidden=quiet) as advance:
        if form == "meshes":
            done = write_puzzles(source, folder, skip_bad=skip_bad, workers=workers, progress=advance)
        else:
            plan = Plan.from_source(source, source.description(), skip_bad=skip_bad)
            done = build(plan, folder, workers=workers, progress=advance)
    typer.echo(f"{folder}: {done.num_examples} puzzles")
    if done.num_skipped:
        typer.echo(f"  {done.num_skipped} skipped: they cannot be read or broken")


def _source(
    config: FractureConfig, seed: int, meshes: Path | None, shapes: str, licences: str | None, puzzles: int
) -> FractureSource:
    from eda.data import FractureSource
    from eda.data.fracture.shapes import kinds_of

    chosen = meshes_at(meshes, licences)
    kinds = kinds_of(listed(shapes)) if chosen is None else None
    return FractureSource(config, seed, kinds, chosen, puzzles)


def _range(text: str) -> tuple[int, int]:
    from eda.errors import InputError

    match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text)
    if not match:
        raise InputError(f"--pieces {text}: expected a number or a range, e.g. 2-8")
    return int(match[1]), int(match[2] or match[1])
