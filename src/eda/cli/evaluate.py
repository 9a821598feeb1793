"""`eda evaluate`: how well a model, or any other system, assembles the puzzles of a source."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eda.cli.terminal import progress

if TYPE_CHECKING:
    from eda.data import Example
    from eda.evaluate import Answer, Evaluation, Sampling
    from eda.model import Eda

# What options of more than a line are for.
DATA = (
    "Where the puzzles are: a dataset, a folder of pieces in assembled position, fracture:KEY=VALUE,..., "
    "rooms:KEY=VALUE,... or KIND:PATH."
)
PREDICTIONS = "Score the poses in this file, of any system, instead of a model."
PROTOCOL = "pairwise, breaking_bad, breaking_bad_anchored, registration or breaks."
POINTS = "Points of a puzzle that the network sees, about; as in training, if not given."
EXPORT_INPUTS = "Write the pieces as a system is given them into this folder, and stop."


def evaluate(
    data: Annotated[str, typer.Option(help=DATA)],
    model: Annotated[Path | None, typer.Option(help="A model file, or the name of a model that ships.")] = None,
    predictions: Annotated[Path | None, typer.Option(help=PREDICTIONS)] = None,
    protocol: Annotated[str, typer.Option(help=PROTOCOL)] = "pairwise",
    samples: Annotated[int, typer.Option(min=1, help="Assemblies of a puzzle; its figures are their means.")] = 1,
    repeats: Annotated[int, typer.Option(min=1, help="Runs with other noise, for the ± of the table.")] = 3,
    solver: Annotated[str, typer.Option(help="Of the flow, e.g. rk1 or rk4.")] = "rk4",
    steps: Annotated[int, typer.Option(min=1, help="Of the solver, in a round.")] = 20,
    rounds: Annotated[int, typer.Option(min=1, help="How often the flow is followed.")] = 1,
    points: Annotated[int | None, typer.Option(min=8, help=POINTS)] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first puzzles.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the turns of the pieces and of the noise.")] = 0,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; the best there is, if not given.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all figures; - prints them.")] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write a line for every assembly.")] = None,
    markdown_file: Annotated[Path | None, typer.Option("--markdown", help="Write the table.")] = None,
    save_predictions: Annotated[Path | None, typer.Option(help="Write the assemblies.")] = None,
    export_inputs: Annotated[Path | None, typer.Option(help=EXPORT_INPUTS)] = None,
) -> None:
    """Measure how well puzzles are assembled. Every convention is described in docs/evaluate.md."""
    from eda.data.sources import open_examples
    from eda.evaluate import PROTOCOLS, Sampling, scattered, summarize, write_inputs
    from eda.settings import check_choice

    check_choice("--protocol", protocol, tuple(PROTOCOLS))
    _check_writable(json_file, csv_file, markdown_file, save_predictions)
    source = open_examples(data)
    examples = itertools.islice(iter(source), limit)
    if export_inputs:
        write_inputs(export_inputs, scattered(examples, seed), seed, anchored=PROTOCOLS[protocol].anchored)
        return
    _check_who_answers(protocol, model, predictions, save_predictions)
    loaded = None if model is None else _loaded(model, device)
    seen = points or (loaded.config.num_points if loaded else Sampling.points)
    sampling = Sampling(samples, repeats, solver, steps, rounds, seen, seed)
    total = len(source) if limit is None else min(limit, len(source))
    with progress("evaluating", hidden=str(json_file) == "-") as advance:
        evaluation, drawn_by = _measured(
            protocol, loaded, predictions, examples, sampling, lambda done: advance(done, total)
        )
    by = {} if model is None else {"model": str(model)}
    report = {"data": data, **by, **drawn_by, **summarize(evaluation)}
    _write(evaluation, report, json_file, csv_file, markdown_file)
    if str(json_file) != "-":
        _print_table(report)
    if save_predictions:
        _save(save_predictions, evaluation, drawn_by["seed"])


def _check_who_answers(
    protocol: str, model: Path | None, predictions: Path | None, save_predictions: Path | None
) -> None:
    from eda.errors import InputError
    from eda.evaluate import PROTOCOLS

    if (model is None) == (predictions is None):
        raise InputError("give either --model or --predictions")
    if PROTOCOLS[protocol].score is None and (model is None or save_predictions):
        raise InputError(f"--protocol {protocol} measures what a --model says of points: there are no poses")


def _measured(
    protocol: str,
    model: Eda | None,
    predictions: Path | None,
    examples: Iterator[Example],
    sampling: Sampling,
    tell: Callable[[int], None],
) -> tuple[Evaluation, dict[str, Any]]:
    """The figures, and what of their making belongs in the report."""
    from eda.evaluate import PROTOCOLS
    from eda.evaluate import evaluate as measure

    if PROTOCOLS[protocol].score is None:
        assert model is not None
        return _breaks(model, examples, sampling, tell)
    answers, drawn_by = _answers(model, predictions, examples, sampling, PROTOCOLS[protocol].anchored)
    return measure(answers, protocol, progress=tell), drawn_by


def _answers(
    model: Eda | None,
    predictions: Path | None,
    examples: Iterator[Example],
    sampling: Sampling,
    anchored: bool,
) -> tuple[Iterator[Answer], dict[str, Any]]:
    """Who answers, and what of it belongs in the report."""
    from eda.evaluate import looked_up, read_predictions, sampled

    if predictions is not None:
        read = read_predictions(predictions)
        return looked_up(read, examples), {"predictions": str(predictions), "seed": read.seed}
    assert model is not None
    settings = {name: getattr(sampling, name) for name in ("solver", "steps", "rounds", "points", "seed")}
    return sampled(model, examples, sampling, anchored=anchored), settings


def _breaks(
    model: Eda, examples: Iterator[Example], sampling: Sampling, tell: Callable[[int], None]
) -> tuple[Evaluation, dict[str, Any]]:
    """What a model says of breaks, measured, and what of it belongs in the report."""
    from eda.evaluate import evaluate_breaks

    points, seed = sampling.points, sampling.seed
    measured = evaluate_breaks(model, examples, points=points, seed=seed, progress=tell)
    return measured, {"points": points, "seed": seed}


def _loaded(model: Path, device: str | None) -> Eda:
    """The model, on the device that was asked for or the best there is."""
    import torch

    from eda.model import Eda
    from eda.settings import check_choice

    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    check_choice("--device", kind, ("cpu", "cuda"))
    return Eda.load(model, device=kind)


def _check_writable(*paths: Path | None) -> None:
    """Before the work begins, not after it."""
    from eda.errors import InputError

    for path in paths:
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise InputError(f"{path}: cannot be written; it must be a file in a folder that exists")


def _write(
    evaluation: Evaluation, report: dict[str, Any], json_file: Path | None, csv_file: Path | None, markdown: Path | None
) -> None:
    from eda.atomic import write_atomically
    from eda.evaluate import as_csv
    from eda.evaluate import markdown as as_markdown

    text = json.dumps(report, indent=2)
    if str(json_file) == "-":
        typer.echo(text)
    elif json_file:
        write_atomically(json_file, f"{text}\n".encode())
    if csv_file:
        write_atomically(csv_file, as_csv(evaluation).encode())
    if markdown:
        write_atomically(markdown, as_markdown(report).encode())


def _save(path: Path, evaluation: Evaluation, seed: int) -> None:
    from eda.evaluate import Predictions, write_predictions

    write_predictions(path, Predictions.of(seed, evaluation.names, evaluation.poses))


def _print_table(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from eda.evaluate import table

    headings, rows = table(report)
    title = f"{report.get('model', report.get('predictions'))} on {report['data']}, {report['protocol']}"
    printed = Table(title=escape(title))
    for column, heading in enumerate(headings):
        printed.add_column(escape(heading), justify="right" if column else "left")
    for row in rows:
        printed.add_row(*row)
    console = Console()
    console.print(printed)
    if report["seconds_per_puzzle"] is not None:
        work = "look at a puzzle" if report["protocol"] == "breaks" else f"assemble a puzzle {report['samples']} times"
        console.print(f"{report['seconds_per_puzzle']:.3g} s to {work}.")
