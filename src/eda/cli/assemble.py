"""`eda assemble`: a folder of pieces in, an assembly out. `eda models`: which weights there are."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import numpy as np

    from eda.assembly import Assembly
    from eda.view.deliver import Given

NOTHING_PLACED = 3
# Points wanted of every piece, plenty for judging and for pictures; `sampled` gives several times as many.
_POINTS = 1500


def assemble(
    pieces: Annotated[list[Path], typer.Argument(help="Files or folders: meshes, or clouds with normals.")],
    folder: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")],
    samples: Annotated[int, typer.Option(min=1, help="Assemblies to draw before judging.")] = 32,
    steps: Annotated[int, typer.Option(min=1, help="Of the solver.")] = 20,
    solver: Annotated[str, typer.Option(help="rk1, rk4, rkmk4 or adaptive.")] = "rk4",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")] = 0,
    model: Annotated[str, typer.Option(help="The name of a model (`eda models`) or its file.")] = "fracture-small",
    time_limit: Annotated[float | None, typer.Option(min=1, help="Seconds after which nothing new is tried.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what lies in the folder.")] = False,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="The pieces lie in their true places: say how far off the result is.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Put broken pieces together. Exit code 0 done, 2 bad input, 3 no piece could be placed."""
    from eda.assembly import AssembleConfig, RankConfig
    from eda.assembly import assemble as run
    from eda.view.deliver import check_free, deliver

    check_free(folder, overwrite)
    given = _read(pieces, seed)
    config = AssembleConfig(samples, steps, solver, seed, RankConfig(time_limit=time_limit))
    with _stages(hidden=quiet or as_json) as stage:
        assembly = run(
            [piece.points for piece in given],
            [piece.normals for piece in given],
            names=[piece.name for piece in given],
            model=model,
            config=config,
            progress=stage,
        )
        stage("writing", 0.0)
        deliver(assembly, given, folder, command=shlex.join(["eda", *sys.argv[1:]]), overwrite=overwrite)
    if as_json:
        typer.echo(json.dumps(assembly.as_dict(), indent=2))
    elif not quiet:
        _print_result(assembly, folder, given if in_place else None)
    raise typer.Exit(0 if assembly.best.placed.any() else NOTHING_PLACED)


def models() -> None:
    """List the models that ship with the package."""
    from eda.weights import SHIPPED

    for shipped in SHIPPED:
        typer.echo(f"{shipped.name:16} {shipped.purpose}")
        typer.echo(f"{'':16} {shipped.card}")


def _read(paths: list[Path], seed: int) -> list[Given]:
    import numpy as np

    from eda.data.piece_files import read_pieces, sampled
    from eda.errors import InputError
    from eda.view.deliver import Given

    files = read_pieces(paths)
    if len(files) < 2:
        raise InputError(f"{paths[0]}: an assembly needs at least 2 pieces, found {len(files)}")
    given = []
    for index, file in enumerate(files):
        points, normals, oriented = sampled(file, _POINTS, np.random.default_rng([seed, index]))
        if not oriented:
            raise InputError(
                f"{file.path}: which side is outside cannot be told: give a closed mesh, or points with outward normals"
            )
        given.append(Given(file.name, points, normals, file.path if file.scene_index is None else None))
    return given


@contextmanager
def _stages(*, hidden: bool) -> Iterator[Callable[[str, float], None]]:
    """A line on stderr that says what is being done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:24}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as bar:
        task = bar.add_task("reading", total=1.0)
        yield lambda what, done: bar.update(task, description=what, completed=done)


def _print_result(assembly: Assembly, folder: Path, truth: list[Given] | None) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    best, console = assembly.best, Console()
    placed = f"{int(best.placed.sum())} of {len(best.placed)} pieces placed"
    console.print(f"{placed}, {best.probability:.0%} sure, in {assembly.seconds:.1f} s")
    table = Table("piece", "confidence", "touches")
    for i, name in enumerate(assembly.names):
        touching = ", ".join(escape(assembly.names[j]) for j in (-best.joints[i]).argsort() if best.joints[i, j] > 0)
        table.add_row(escape(name), f"{best.confidence[i]:.0%}" if best.placed[i] else "unplaced", touching)
    console.print(table)
    if truth is not None:
        degrees, share = _distance_from_identity(best.poses, truth)
        console.print(f"against the truth: {degrees:.1f} degrees and {share:.1%} of the size off, over all pairs")
    console.print(f"open {folder / 'report.html'}")


def _distance_from_identity(poses: np.ndarray, given: list[Given]) -> tuple[float, float]:
    """The paper's pairwise errors of pieces that lay in place: degrees, and lengths relative to the size."""
    import torch

    from eda.lie import SE3
    from eda.metrics import pairwise_geodesic
    from eda.pieces import Puzzle

    puzzle = Puzzle.from_assembled([piece.points for piece in given], dtype=torch.float64)
    found = puzzle.pieces.from_user(SE3.from_matrix(torch.from_numpy(poses)))
    degrees, distance = pairwise_geodesic(found, puzzle.solution, puzzle.pieces)
    return float(degrees), float(distance)
