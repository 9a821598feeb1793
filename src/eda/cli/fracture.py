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
    from eda.data.build import Built
    from eda.data.fracture import FractureConfig
    from eda.data.piece_folders import Written
    from eda.data.puzzles import FractureSource


def fracture(
    folder: Annotated[Path, typer.Argument(help="Where to write; an interrupted run goes on where it stopped.")],
    meshes: Annotated[
        Path | None,
        typer.Argument(help="What to break: a mesh, a folder of meshes, or a pack. Without it, shapes of our own."),
    ] = None,
    puzzles: Annotated[int, typer.Option(min=1, help="How many; meshes are broken in turn.")] = 1000,
    pieces: Annotated[str, typer.Option(metavar="MIN-MAX", help="Pieces of a puzzle.")] = "2-8",
    roughness: Annotated[float, typer.Option(help="Of the breaks, relative to the object's size.")] = 0.02,
    min_volume: Annotated[float, typer.Option(help="Of a piece, as a share of the object.")] = 0.025,
    missing: Annotated[float, typer.Option(help="Chance of each piece to be left out.")] = 0.0,
    foreign: Annotated[float, typer.Option(help="Chance, for each piece, of one of another object beside it.")] = 0.0,
    erosion: Annotated[float, typer.Option(help="Widest gap along the breaks, relative to the object's size.")] = 0.0,
    points: Annotated[int, typer.Option(help="Points of a puzzle.")] = 4000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same puzzles.")] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Processes that break at the same time; 0: all cores.")] = 0,
    kinds: Annotated[
        str, typer.Option(help="Ways to break; every object breaks in one of them.")
    ] = "rough,cells,shell",
    shapes: Annotated[
        str, typer.Option(help="Our own shapes: all, train, held_out, or kinds separated by commas.")
    ] = "all",
    licences: Annotated[
        str | None, typer.Option(help='Of a pack, only meshes with these licences, e.g. "CC BY,CC0".')
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out meshes that cannot be broken, and count them.")
    ] = False,
    form: Annotated[
        str, typer.Option("--as", help="shards, to learn from; or meshes, a folder of PLY files for every puzzle.")
    ] = "shards",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Break objects into rough pieces that fit, and write them as a dataset."""
    from eda.data.build import Plan, build
    from eda.data.fracture import FractureConfig
    from eda.data.piece_folders import write_puzzles
    from eda.settings import check_choice

    done: Built | Written
    check_choice("--as", form, ("shards", "meshes"))
    least, most = _range(pieces)
    config = FractureConfig(
        min_pieces=least, max_pieces=most, roughness=roughness, min_volume=min_volume, missing=missing,
        foreign=foreign, erosion=erosion, num_points=points, kinds=listed(kinds),
    )  # fmt: skip
    source = _source(config, seed, meshes, shapes, licences)
    workers = workers or os.cpu_count() or 1
    with progress("breaking", hidden=quiet) as advance:
        if form == "meshes":
            done = write_puzzles(source, puzzles, folder, skip_bad=skip_bad, workers=workers, progress=advance)
        else:
            plan = Plan(source, puzzles, source.description(), skip_bad=skip_bad)
            done = build(plan, folder, workers=workers, progress=advance)
    typer.echo(f"{folder}: {done.num_examples} puzzles")
    if done.num_skipped:
        typer.echo(f"  {done.num_skipped} skipped: they cannot be read or broken")


def _source(
    config: FractureConfig, seed: int, meshes: Path | None, shapes: str, licences: str | None
) -> FractureSource:
    from eda.data.puzzles import FractureSource
    from eda.data.shapes import HELD_OUT_KINDS, SHAPES, TRAIN_KINDS

    chosen = meshes_at(meshes, licences)
    if chosen is not None:
        return FractureSource(config, seed, meshes=chosen)
    named = {"all": tuple(SHAPES), "train": TRAIN_KINDS, "held_out": HELD_OUT_KINDS}
    return FractureSource(config, seed, named.get(shapes) or listed(shapes))


def _range(text: str) -> tuple[int, int]:
    from eda.errors import InputError

    match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text)
    if not match:
        raise InputError(f"--pieces {text}: expected a number or a range, e.g. 2-8")
    return int(match[1]), int(match[2] or match[1])
