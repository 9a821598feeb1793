"""`eda assemble`: a folder of pieces in, an assembly out. `eda models`: the models that ship with the package."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eda.budget import Stage
from eda.cli.stages import stages
from eda.cli.terminal import table_console

if TYPE_CHECKING:
    import numpy as np

    from eda.assembly import Assembly
    from eda.data.piece_files import InputNotes, PieceFile, UsablePieces

NOTHING_PLACED = 3
# Points wanted of every piece, plenty for judging and for pictures; `sampled` gives several times as many.
_POINTS = 1500


def assemble(
    pieces: Annotated[
        list[Path], typer.Argument(help="Files or folders of files: meshes or point clouds, one piece each.")
    ],
    folder: Annotated[Path, typer.Option("--out", "-o", help="The folder to write the result to.")],
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PIECE=POSE.json", help="A piece whose pose is known: a 3x4 or 4x4 matrix. May be repeated."
        ),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Assemblies to sample from the network.")] = 16,
    steps: Annotated[int, typer.Option(min=1, help="Integration steps per round.")] = 10,
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds of integration, each starting where the last one ended.")
    ] = 1,
    solver: Annotated[str, typer.Option(help="The integrator: rk1, rk4, rkmk4 or adaptive.")] = "rk1",
    seed: Annotated[int, typer.Option(min=0, help="Random seed: the same seed gives the same result.")] = 0,
    refine: Annotated[
        bool, typer.Option("--refine/--no-refine", help="Refine and combine the samples, or rank them as they are.")
    ] = True,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds after which the best result so far is returned.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A model's name (see `eda models`), its file, or none (scans only). By default, chosen by the pieces."
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where the results of pairs of many scans are kept, so that a stopped run goes on. [OUT.pairs]",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="The torch device for the network, such as cpu or cuda.")] = "cpu",
    alternative_megabytes: Annotated[
        float,
        typer.Option(min=0, help="What the moved files of all alternatives after the first may take; 0 writes none."),
    ] = 200,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier result in the folder.")] = False,
    in_place: Annotated[
        bool,
        typer.Option("--in-place", help="The pieces are given in their true poses: print the error of the result."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only errors.")] = False,
) -> None:
    """Put pieces together. Exit codes: 0 done, 2 bad input, 3 no piece could be placed."""
    from eda.assembly import AssembleConfig, RankConfig
    from eda.assembly import assemble as run
    from eda.data.piece_files import InputNotes
    from eda.output.result_files import write_claimed
    from eda.output.result_folder import claimed_folder
    from eda.render.input_piece import InputPiece

    config = AssembleConfig(samples, steps, rounds, solver, seed, RankConfig(refine=refine), time_limit)
    command = shlex.join(["eda", *sys.argv[1:]])
    with claimed_folder(folder, overwrite, pieces) as claimed, stages(hidden=quiet or as_json) as tell:
        usable = _read(pieces)
        files, notes = usable.pieces, InputNotes.of(usable)
        if not quiet:
            _tell(notes)
        names = [file.name for file in files]
        clouds, normals = zip(*[_points(file, seed) for file in files], strict=True)
        assembly = run(
            clouds, normals, names=names, pins=_pins(pin or [], names), model=model, device=device, config=config,
            cache=cache or _beside(folder), progress=tell,
        )  # fmt: skip
        tell(Stage.WRITE, 0.0)
        given = zip(names, assembly.clouds.points, assembly.clouds.normals, files, strict=True)
        inputs = [InputPiece(*piece) for piece in given]
        record = write_claimed(assembly, inputs, claimed, command=command, notes=notes, megabytes=alternative_megabytes)
    if as_json:
        typer.echo(json.dumps(record, indent=2))
    elif not quiet:
        _print_result(assembly, folder, in_place, list(notes.refused))
    raise typer.Exit(NOTHING_PLACED if assembly.is_empty else 0)


def models() -> None:
    """List the models that ship with the package."""
    from eda.weights import SHIPPED

    for shipped in SHIPPED:
        typer.echo(f"{shipped.name:16} {shipped.regime}: {shipped.purpose}")
        typer.echo(f"{'':16} {shipped.card}")


def _beside(folder: Path) -> Path:
    """The folder of the results of pairs, which is made if there are many scans: it must outlive the result folder."""
    place = folder.resolve()
    return place.with_name(f"{place.name}.pairs")


def _read(paths: list[Path]) -> UsablePieces:
    from eda.data.piece_files import read_usable_pieces
    from eda.errors import InputError

    usable = read_usable_pieces(paths)
    if len(usable.pieces) < 2:
        for reason in usable.refused.values():
            raise InputError(reason)
        raise InputError(f"{paths[0]}: an assembly needs at least 2 pieces, found {len(usable.pieces)}")
    return usable


def _tell(notes: InputNotes) -> None:
    """Say on stderr what was noticed about the pieces."""
    from eda.errors import InputWarning

    for text in notes.doubts:
        warnings.warn(text, InputWarning, stacklevel=1)
    for line in notes.repair_lines:
        typer.echo(f"eda: {line}", err=True)


def _points(file: PieceFile, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Points of a piece, and outward normals if the file tells which side is outside."""
    import numpy as np

    from eda.data.piece_files import sample_piece

    points, normals, oriented = sample_piece(file, _POINTS, np.random.default_rng(seed))
    return points, normals if oriented else None


def _pins(words: list[str], names: list[str]) -> dict[int | str, np.ndarray]:
    """Known motions by piece, from options PIECE=FILE; a name may contain an equals sign too."""
    from eda.assembly import read_pin
    from eda.errors import InputError

    pins: dict[int | str, np.ndarray] = {}
    for word in words:
        name = max((name for name in names if word.startswith(f"{name}=")), key=len, default=None)
        if name is None:
            raise InputError(f"--pin {word}: expected PIECE=POSE.json with one of the pieces {', '.join(names)}")
        if name in pins:
            raise InputError(f"--pin {word}: {name} is pinned twice")
        pins[name] = read_pin(Path(word[len(name) + 1 :]), name)
    return pins


def _print_result(assembly: Assembly, folder: Path, in_place: bool, refused: list[str]) -> None:
    import numpy as np
    from rich.markup import escape
    from rich.table import Table

    best, console = assembly.best, table_console()
    placed = f"{int(best.placed.sum())} of {len(best.placed)} pieces placed"
    console.print(f"{placed}, probability {best.probability:.0%}, in {assembly.seconds:.1f} s")
    console.print(escape(str(assembly.verdict)))
    console.print(f"model {escape(assembly.model)} ({escape(assembly.why)})")
    for note in assembly.notes:
        console.print(note)
    table = Table("piece", "confidence", "touches")
    for i, name in enumerate(assembly.names):
        touching = ", ".join(escape(assembly.names[j]) for j in (-best.joints[i]).argsort() if best.joints[i, j] > 0)
        table.add_row(escape(name), _confidence(assembly, i), best.why_unplaced(i) or touching)
    for name in refused:
        table.add_row(escape(name), "left out", "")
    console.print(table)
    if in_place and best.placed.sum() > 1:
        degrees, share = assembly.compare(np.tile(np.eye(4), (len(assembly.names), 1, 1)))
        pairs = f"all pairs of the {int(best.placed.sum())} pieces placed"
        console.print(f"against the truth: mean error over {pairs} {degrees:.1f} degrees and {share:.1%} of the size")
    console.print(f"open {escape(str(folder / 'report.html'))}", soft_wrap=True)


def _confidence(assembly: Assembly, piece: int) -> str:
    if piece in assembly.pinned:
        return "pinned"
    return f"{assembly.best.confidence[piece]:.0%}" if assembly.best.placed[piece] else "unplaced"
