"""`eda reproduce`: the paper's tables and figures, with baselines in the same run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eda.cli.options import PUZZLES
from eda.cli.terminal import labelled_progress

if TYPE_CHECKING:
    from eda.reproduce import Request

WHAT = "The name of a table or figure; all for every one. `eda reproduce list` prints the names."
SCALE = (
    "cpu: on generated data, or on the data that --data names, with the models that ship. paper: the paper's recipes "
    "on its datasets, as a plan of commands."
)
DATA = f"{PUZZLES} At the paper's scale, the folder of the paper's dataset as KIND:FOLDER."
EXECUTE = "At the paper's scale, run the commands instead of printing them. What is done is not done again."


def reproduce(
    what: Annotated[str, typer.Argument(help=WHAT)],
    folder: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the results. The same command continues an interrupted run."),
    ] = None,
    scale: Annotated[str, typer.Option(help=SCALE)] = "cpu",
    data: Annotated[str | None, typer.Option(help=DATA)] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. --set puzzles=20. Can be repeated."),
    ] = None,
    options: Annotated[bool, typer.Option("--options", help="List the settings of WHAT, and stop.")] = False,
    run_plan: Annotated[bool, typer.Option("--execute", help=EXECUTE)] = False,
    processes: Annotated[int, typer.Option(min=1, help="Processes that train, one for each GPU of the plan.")] = 3,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of CPU threads.")] = None,
) -> None:
    """Reproduce a table or figure of the paper. Our figures stand beside the printed ones, in columns of their own."""
    from eda.errors import InputError
    from eda.reproduce import EXPERIMENTS, Request

    if what == "list":
        _list()
        return
    if options:
        _list_settings(what)
        return
    if folder is None:
        raise InputError("no folder for the results: give one with --out")
    _check(what, scale, data, settings, run_plan, threads)
    if threads:
        import torch

        torch.set_num_threads(threads)
    chosen = dict(_split(text) for text in settings or [])
    if data and scale == "cpu":
        chosen["data"] = data
    command = shlex.join(["eda", *sys.argv[1:]])
    requests = [Request(name, chosen, folder, command) for name in (EXPERIMENTS if what == "all" else [what])]
    for request in requests:
        request.experiment.numbers()  # settings are checked before the first one begins
    for request in requests:
        if scale == "cpu":
            _measure(request)
        else:
            _plan(request, data, processes, run_plan)


def _check(
    what: str, scale: str, data: str | None, settings: list[str] | None, run_plan: bool, threads: int | None
) -> None:
    """Raises `InputError` for options that do not go together."""
    from eda.errors import InputError
    from eda.settings import check_choice

    check_choice("--scale", scale, ("cpu", "paper"))
    if run_plan and scale == "cpu":
        raise InputError("--execute runs the plan of the paper's scale: add --scale paper")
    if what == "all" and scale == "paper":
        raise InputError("--scale paper: name one table or figure instead of all; each needs its own dataset")
    if what == "all" and (data or settings):
        raise InputError("--data and --set belong to one table or figure: name it instead of all")
    if threads and scale == "paper":
        raise InputError("--threads belongs to the scale of a CPU: leave it out with --scale paper")


def _list() -> None:
    from eda.reproduce import EXPERIMENTS

    for name, kind in EXPERIMENTS.items():
        typer.echo(f"{name:14} {kind.title} ({kind.numbers()})")


def _list_settings(name: str) -> None:
    """Print what can be given to --set for an experiment, and the defaults."""
    from eda.errors import InputError
    from eda.reproduce import experiment_kind

    if name == "all":
        raise InputError("--options lists the settings of one table or figure: name it instead of all")
    for key, default in experiment_kind(name).defaults().items():
        typer.echo(f"{key}={'+'.join(default) if isinstance(default, tuple) else default}")


def _measure(request: Request) -> None:
    from eda.evaluate import markdown
    from eda.reproduce import reproduce as measure

    try:
        with labelled_progress(request.name, hidden=False) as advance:
            findings = measure(request, _say, advance)
    except KeyboardInterrupt:
        _say(f"finished puzzles are kept in {request.file('.jsonl')}; the same command goes on from there")
        raise
    for table in findings.tables:
        typer.echo(markdown(table.table()))
    typer.echo(f"{request.file('.md')}")


def _plan(request: Request, data: str | None, processes: int, run_plan: bool) -> None:
    from eda.reproduce import execute, plan_of

    plan = plan_of(request, data, processes)
    if run_plan:
        execute(request, plan, _say)
    else:
        typer.echo(plan.script(), nl=False)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _split(text: str) -> tuple[str, str]:
    from eda.errors import InputError

    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set {text}: expected KEY=VALUE")
    return key.strip(), value.strip()
