"""`eda train`: a recipe, a dataset and a folder. An interrupted run resumes where it stopped."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eda.cli import failures

if TYPE_CHECKING:
    import numpy as np

    from eda.data import Example
    from eda.lie import SE3
    from eda.pieces import Puzzle
    from eda.train import Ranks, TrainConfig

STOPPED = 4  # the exit code of a run that a signal ended before its last step


def train(
    recipe: Annotated[str, typer.Argument(help="The name of a recipe. `eda train list` prints them all.")],
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the run. It is created if needed.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Dataset to train on. Join several with +, as in data/scans+data/rooms.")
    ] = None,
    validation: Annotated[Path | None, typer.Option(help="Dataset to measure the error on during training.")] = None,
    begin_with: Annotated[Path | None, typer.Option(help="Model file to take the first weights from.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting, as in optimizer.lr=3e-4. Can be repeated.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda. Default: cuda if available.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of CPU threads.")] = None,
) -> None:
    """Train a model. Run the same command again to resume. On several devices: `torchrun -m eda.cli train ...`.

    Ctrl-C, or SIGTERM, ends the run after the current step, with its state saved, and exit code 4.
    """
    if recipe == "list":
        _list_recipes()
        return
    import torch

    from eda.errors import InputError
    from eda.train import WriteError

    if folder is None:
        raise InputError("no folder for the run: give one with --out")
    if threads:
        torch.set_num_threads(threads)
    places = {"data.train": data, "data.validation": validation, "begin_with": begin_with}
    given = [f"{name}={place}" for name, place in places.items() if place]
    config = _config_of(recipe, [*given, *(settings or [])])
    _check_readable(config)
    try:
        done = _run(config, folder, device)
    except WriteError as error:
        if failures.debug.get():
            raise
        print(f"eda: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    if not done:
        raise typer.Exit(STOPPED)


def _run(config: TrainConfig, folder: Path, device: str | None) -> bool:
    """Train in this process, one of several or alone. Returns whether the last step was made."""
    from eda.train import Watcher, join
    from eda.train import train as run_training

    with join(device) as ranks, _claimed(folder, config, ranks):
        reports = ranks.rank == 0
        watcher = Watcher(
            config,
            folder if reports else None,
            _print if reports else (lambda line: None),
            _validation_examples(config) if reports else (),
            _draw,
        )
        return run_training(config, folder, ranks, watcher).done


def _print(line: str) -> None:
    from eda.train import WriteError, writing

    try:
        with writing(Path("standard output")):
            print(line, flush=True)
    except WriteError:
        # The line is still in the buffer; without this, Python would fail again on it when it ends.
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise


def _config_of(recipe: str, settings: list[str]) -> TrainConfig:
    from eda.errors import InputError
    from eda.recipes import RECIPES
    from eda.registry import look_up
    from eda.train import overridden

    config = overridden(look_up(RECIPES, "recipe", recipe)(), settings)
    if not config.data.train:
        raise InputError("no dataset to train on: give one with --data (`eda fracture` makes one)")
    return config


def _check_readable(config: TrainConfig) -> None:
    """Raises `InputError` for data or weights that cannot be read, before anything is written to the folder."""
    from eda import Eda
    from eda.data import Dataset

    Dataset.from_text(config.data.train)
    if config.data.validation:
        Dataset(config.data.validation)
    if config.begin_with:
        Eda.load(config.begin_with)


def _list_recipes() -> None:
    from eda.recipes import RECIPES

    for name, recipe in RECIPES.items():
        summary, *_ = (recipe.__doc__ or "").strip().splitlines() or [""]
        typer.echo(f"{name:16} {summary}")


@contextmanager
def _claimed(folder: Path, config: TrainConfig, ranks: Ranks) -> Iterator[None]:
    """Keep other commands out of the folder while the first process of a run works in it, and make it ready."""
    from eda.atomic import remove_partial_files
    from eda.folder_lock import FolderLock
    from eda.train import writing

    if ranks.rank != 0:
        yield
        return
    with ExitStack() as stack:
        with writing(folder):
            stack.enter_context(FolderLock(folder))
            _claim(folder, config)
            remove_partial_files(folder)
        yield


def _claim(folder: Path, config: TrainConfig) -> None:
    """Create the folder and write the config into it. A run is resumed only with the config that it started with."""
    from eda.atomic import write_atomically
    from eda.errors import InputError
    from eda.train import is_disk_full

    record, values = folder / "config.json", _plain(config)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if record.is_file():
            _check_same(_recorded(json.loads(record.read_bytes())["config"], folder), values, folder)
        write_atomically(record, json.dumps({"config": values, **_environment()}, indent=2).encode())
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError) or is_disk_full(error):
            raise
        raise InputError(f"{folder}: cannot be used as the folder of a run ({error})") from error


def _plain(config: TrainConfig) -> dict[str, Any]:
    """As JSON knows it."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def _recorded(values: Any, folder: Path) -> dict[str, Any]:
    """The config of a run that an older Eda may have begun, in the words of this one."""
    from eda.errors import InputError
    from eda.train import TrainConfig

    try:
        return _plain(TrainConfig.from_dict(values))
    except InputError as error:
        raise InputError(f"{folder}: holds a run with other settings ({error}); choose another folder") from error


def _check_same(before: dict[str, Any], now: dict[str, Any], folder: Path) -> None:
    """Raises `InputError` for a changed config; only the settings in `watch` may change."""
    from eda.errors import InputError

    changed = [name for name in now if name != "watch" and before.get(name) != now[name]]
    if changed:
        raise InputError(f"{folder}: holds a run with another {', '.join(changed)}; choose another folder")


def _environment() -> dict[str, Any]:
    """The versions and the command line, for the record."""
    import platform

    import numpy as np
    import torch

    import eda

    versions = {"eda": eda.__version__, "torch": torch.__version__, "numpy": np.__version__}
    return {"versions": {**versions, "python": platform.python_version()}, "command": sys.argv}


def _draw(puzzles: Sequence[Puzzle], sampled: Sequence[SE3], path: Path) -> np.ndarray:
    """Draw a row per puzzle: its solution, and the sample, aligned on the largest piece. Returns the picture."""
    import io

    import numpy as np

    from eda.atomic import write_atomically
    from eda.metrics import align_on
    from eda.render import SheetStyle, contact_sheet

    tiles = []
    for number, (puzzle, poses) in enumerate(zip(puzzles, sampled, strict=True), start=1):
        found = align_on(poses, puzzle.solution, int(puzzle.pieces.sizes.argmax()))
        tiles += [_placed(puzzle, puzzle.solution, f"{number}, solution"), _placed(puzzle, found, "sample")]
    page, file = contact_sheet(tiles, SheetStyle(columns=2, view=160, breaks=False)), io.BytesIO()
    page.save(file, "PNG", optimize=True)
    write_atomically(path, file.getvalue())
    return np.asarray(page)


def _placed(puzzle: Puzzle, poses: SE3, name: str) -> Example:
    """The pieces at these poses, as an example that can be drawn."""
    from eda.data import Example

    moved = puzzle.pieces.move(poses)
    bounds = moved.sizes.tolist()
    normals = None if moved.normals is None else [part.numpy() for part in moved.normals.split(bounds)]
    return Example.from_clouds(name, [part.numpy() for part in moved.points.split(bounds)], normals)


def _validation_examples(config: TrainConfig) -> list[Example]:
    from eda.data import Dataset

    if not config.data.validation:
        return []
    return Dataset(config.data.validation)[: config.watch.validation_puzzles]
