"""`eda train`: a recipe, a dataset and a folder; interrupted runs go on where they stopped."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np

    from eda.data import Example
    from eda.lie import SE3
    from eda.pieces import Puzzle
    from eda.train import TrainConfig


def train(
    recipe: Annotated[str, typer.Argument(help="The name of a recipe; `eda train list` shows them.")],
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="The run's folder; made if it is not there.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The dataset to learn from; several are joined by +: data/scans+data/rooms.")
    ] = None,
    validation: Annotated[Path | None, typer.Option(help="A dataset of unseen objects to measure on.")] = None,
    begin_with: Annotated[Path | None, typer.Option(help="A model file whose weights to begin with.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting: optimizer.lr=3e-4. May be repeated.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; the best there is, if not given.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads of this process.")] = None,
) -> None:
    """Train a model. Run it again with the same folder to go on. On many devices: `torchrun -m eda.cli train ...`."""
    if recipe == "list":
        _list_recipes()
        return
    import torch

    from eda.errors import InputError
    from eda.train import Watcher, join
    from eda.train import train as run_training

    if folder is None:
        raise InputError("where should the run be kept? give a folder with --out")
    if threads:
        torch.set_num_threads(threads)
    places = {"data.train": data, "data.validation": validation, "begin_with": begin_with}
    given = [f"{name}={place}" for name, place in places.items() if place]
    config = _resolved(recipe, [*given, *(settings or [])])
    _check_readable(config)
    with join(device) as ranks:
        if ranks.rank == 0:
            _claim(folder, config)
        speaks = ranks.rank == 0
        watcher = Watcher(
            config,
            folder if speaks else None,
            (lambda line: print(line, flush=True)) if speaks else (lambda line: None),
            _validation_examples(config) if speaks else (),
            _draw,
        )
        run_training(config, folder, ranks, watcher)


def _resolved(recipe: str, settings: list[str]) -> TrainConfig:
    from eda.errors import InputError
    from eda.recipes import RECIPES
    from eda.train import overridden

    if recipe not in RECIPES:
        raise InputError(f"no recipe {recipe!r}; there are {', '.join(RECIPES)}")
    config = overridden(RECIPES[recipe](), settings)
    if not config.data.train:
        raise InputError("no dataset to learn from: give one with --data (`eda fracture` makes one)")
    return config


def _check_readable(config: TrainConfig) -> None:
    """Before a folder is claimed: a run that cannot begin leaves nothing in the way of one that can."""
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
        typer.echo(f"{name:16} {(recipe.__doc__ or '').strip()}")


def _claim(folder: Path, config: TrainConfig) -> None:
    """Make the folder and write down what runs in it; an old run goes on only with the config that it began with."""
    from eda.atomic import write_atomically
    from eda.errors import InputError

    record = folder / "config.json"
    values = json.loads(json.dumps(dataclasses.asdict(config)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if record.is_file():
            _check_same(dict(json.loads(record.read_bytes())["config"]), values, folder)
        write_atomically(record, json.dumps({"config": values, **_circumstances()}, indent=2).encode())
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{folder}: cannot be used as the folder of a run ({error})") from error


def _check_same(before: dict[str, Any], now: dict[str, Any], folder: Path) -> None:
    """Only how often a person hears of the run may change."""
    from eda.errors import InputError

    changed = [name for name in now if name != "watch" and before.get(name) != now[name]]
    if changed:
        raise InputError(f"{folder}: holds a run with another {', '.join(changed)}; choose another folder")


def _circumstances() -> dict[str, Any]:
    import platform

    import numpy as np
    import torch

    import eda

    versions = {"eda": eda.__version__, "torch": torch.__version__, "numpy": np.__version__}
    return {"versions": {**versions, "python": platform.python_version()}, "command": sys.argv}


def _draw(puzzles: Sequence[Puzzle], sampled: Sequence[SE3], path: Path) -> np.ndarray:
    """A row for every puzzle: as it is, and as it was sampled, seen from where its largest piece is right."""
    import io

    import numpy as np

    from eda.atomic import write_atomically
    from eda.metrics import aligned_on
    from eda.view import SheetStyle, contact_sheet

    tiles = []
    for number, (puzzle, poses) in enumerate(zip(puzzles, sampled, strict=True), start=1):
        found = aligned_on(poses, puzzle.solution, int(puzzle.pieces.sizes.argmax()))
        tiles += [_placed(puzzle, puzzle.solution, f"{number}, as it is"), _placed(puzzle, found, "as sampled")]
    page, file = contact_sheet(tiles, SheetStyle(columns=2, view=160, breaks=False)), io.BytesIO()
    page.save(file, "PNG", optimize=True)
    write_atomically(path, file.getvalue())
    return np.asarray(page)


def _placed(puzzle: Puzzle, poses: SE3, name: str) -> Example:
    """The pieces at some poses, to be drawn."""
    from eda.data import Example

    moved = puzzle.pieces.moved(poses)
    bounds = moved.sizes.tolist()
    normals = None if moved.normals is None else [part.numpy() for part in moved.normals.split(bounds)]
    return Example.from_clouds(name, [part.numpy() for part in moved.points.split(bounds)], normals)


def _validation_examples(config: TrainConfig) -> list[Example]:
    from eda.data import Dataset

    if not config.data.validation:
        return []
    return Dataset(config.data.validation)[: config.watch.validation_puzzles]
