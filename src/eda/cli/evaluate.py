"""`eda evaluate`: how well a model, the whole assembler, or any other system assembles the puzzles of a source."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eda.cli.evaluation_report import Output, write_report
from eda.cli.evaluation_request import Measurement, Request
from eda.cli.options import PUZZLES, listed
from eda.cli.terminal import progress

if TYPE_CHECKING:
    from eda.evaluate import Evaluation, PuzzleSet, Record

# Help that takes more than a line.
MODEL = (
    "A model file, or the name of a model that ships. With --assemble or --parts, chosen by the pieces if not given."
)
PREDICTIONS = "Score the poses in this file, written by any other system, instead of a model."
ASSEMBLE = "Measure the whole assembler, as `eda assemble` runs it, instead of single samples of a model."
PARTS = (
    "Measure on the same puzzles: the whole system, the system without refinement, a single sample, a single sample "
    "of pairs alone, and one of the plain Croco path."
)
PROTOCOL = (
    "How to measure: pairwise, breaking_bad, breaking_bad_anchored, registration, conventions (pairwise, breaking_bad "
    "and registration at once) or breaks."
)
SAMPLES = (
    "Assemblies drawn per puzzle. A model draws 1 if not given, and its figures are means over them; the assembler "
    "draws 16 if not given, and makes one answer of them."
)
REPEATS = "Runs of a model with different noise, for the ± of the table: 3 if not given. The assembler runs once."
SOLVER = "Integrator of the flow: rk1, rk4, rkmk4 or adaptive. If not given, rk4 for a model and rk1 for the assembler."
STEPS = "Integration steps per round: 20 for a model and 10 for the assembler, if not given."
POINTS = "About how many points of a puzzle a single sample sees; as many as in training, if not given."
LIMIT = "Measure at most this many puzzles: every k-th, evenly over the whole source, and not the first ones."
PER_GROUP = "Measure at most this many puzzles of each group (the first property of --by), chosen evenly within it."
BY = "Print the figures by these properties, separated by commas: pieces, category, scene, overlap."
FOREIGN = "The chance that a piece of another puzzle of the source is put beside the pieces of a puzzle."
JSON = "Write all figures to this file; - prints them. A run that was stopped goes on if the command is repeated."
EXPORT_INPUTS = "Write the pieces as a system is given them into this folder, and stop."


def evaluate(
    data: Annotated[str, typer.Option(help=PUZZLES)],
    model: Annotated[str | None, typer.Option(help=MODEL)] = None,
    predictions: Annotated[Path | None, typer.Option(help=PREDICTIONS)] = None,
    assemble: Annotated[bool, typer.Option("--assemble", help=ASSEMBLE)] = False,
    parts: Annotated[bool, typer.Option("--parts", help=PARTS)] = False,
    protocol: Annotated[str, typer.Option(help=PROTOCOL)] = "pairwise",
    limit: Annotated[int | None, typer.Option(min=1, help=LIMIT)] = None,
    per_group: Annotated[int | None, typer.Option(min=1, help=PER_GROUP)] = None,
    by: Annotated[str, typer.Option(help=BY)] = "pieces",
    foreign: Annotated[float, typer.Option(min=0, max=1, help=FOREIGN)] = 0.0,
    samples: Annotated[int | None, typer.Option(min=1, help=SAMPLES)] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help=REPEATS)] = None,
    solver: Annotated[str | None, typer.Option(help=SOLVER)] = None,
    steps: Annotated[int | None, typer.Option(min=1, help=STEPS)] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the flow, each from where the last one ended.")] = 1,
    points: Annotated[int | None, typer.Option(min=8, help=POINTS)] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the pieces' random rotations and of the noise.")] = 0,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; the best there is, if not given.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help=JSON)] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write one line for every assembly.")] = None,
    markdown_file: Annotated[Path | None, typer.Option("--markdown", help="Write the tables as Markdown.")] = None,
    diagram_file: Annotated[
        Path | None, typer.Option("--diagram", help="Draw the reliability of the probabilities as SVG.")
    ] = None,
    save_predictions: Annotated[Path | None, typer.Option(help="Write the assemblies to this file.")] = None,
    export_inputs: Annotated[Path | None, typer.Option(help=EXPORT_INPUTS)] = None,
) -> None:
    """Measure how well puzzles are assembled. Every convention is described in docs/evaluate.md."""
    from eda.data.sources import open_examples
    from eda.evaluate import PROPERTIES, PROTOCOLS, PuzzleSet, write_inputs
    from eda.settings import check_choice

    properties = listed(by)
    check_choice("--protocol", protocol, tuple(PROTOCOLS))
    for name in properties or ("",):
        check_choice("--by", name, tuple(PROPERTIES))
    output = Output(json_file, csv_file, markdown_file, diagram_file, save_predictions)
    output.check()
    source = open_examples(data)
    subset: dict[str, Any] = {"limit": limit, "per_group": per_group, "by": properties[0], "foreign": foreign}
    if export_inputs:
        given = PuzzleSet.choose(source, seed=seed, **subset).scatter()
        write_inputs(export_inputs, given, seed, anchored=PROTOCOLS[protocol].anchored)
        return
    request = Request(
        protocol, model, predictions, assemble, parts, samples, repeats, solver, steps, rounds, points, seed, device
    )
    request.check(output)
    measurements = request.measurements()
    turned_by = next(iter(measurements.values())).settings["seed"]  # a file of predictions has a seed of its own
    puzzles = PuzzleSet.choose(source, seed=turned_by, **subset)
    what = {"data": data, **({} if model is None else {"model": model})}
    subset["by"] = properties
    measured = _measure(measurements, puzzles, {**what, "protocol": protocol, **subset}, output)
    write_report(measured, {part: one.settings for part, one in measurements.items()}, what, output)


def _measure(
    measurements: dict[str, Measurement], puzzles: PuzzleSet, command: dict[str, Any], output: Output
) -> dict[str, Evaluation]:
    """Measure all puzzles; what is finished is kept in a journal until the report is written."""
    from eda.evaluate import Journal

    settings = {part: measurement.settings for part, measurement in measurements.items()}
    journal = Journal(output.journal, {**command, "settings": settings})
    total, measured = len(measurements) * len(puzzles), {}
    with _resumable(output.journal), progress("evaluating", hidden=str(output.json) == "-") as advance:
        for number, (part, measurement) in enumerate(measurements.items()):
            finished: Sequence[Record] = journal.finished(part)
            done = number * len(puzzles) + len(finished)

            def keep(record: Record, part: str = part) -> None:
                nonlocal done
                done += 1
                journal.keep(part, record)
                advance(done, total)

            advance(done, total)
            left = puzzles.scatter([record.index for record in finished])
            measured[part] = measurement.run(left, by=command["by"], finished=finished, keep=keep)
    return measured


@contextmanager
def _resumable(journal: Path | None) -> Iterator[None]:
    """Says where finished puzzles are kept, if the work is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        if journal is not None and journal.is_file():
            print(f"eda: finished puzzles are kept in {journal}; the same command goes on from there", file=sys.stderr)
        raise
