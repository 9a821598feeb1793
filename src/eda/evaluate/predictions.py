"""Assemblies as a file, so that any system can be scored: what it is given, and what it answers.

A system gets the pieces as `write_inputs` writes them, each about the origin and turned at random, and answers with one
4 x 4 matrix a piece that moves it from there to its assembled place. The frame of the whole is its own choice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eda.atomic import write_atomically
from eda.data.piece_files import Geometry, ply_bytes
from eda.data.reading import read_json
from eda.errors import InputError
from eda.evaluate.answers import Answer
from eda.evaluate.scatter import ScatteredPuzzle
from eda.lie import SE3
from eda.registration.rigid import is_rigid

FORMAT, INPUTS, VERSION = "eda-predictions", "eda-inputs", 1

# How far a matrix may be from a rotation and still be one that was rounded.
_ROUNDING = 1e-3


@dataclass(frozen=True)
class Predictions:
    """The assemblies of many puzzles, all in R repeats of K samples."""

    seed: int  # by which the pieces were turned before they were given
    poses: Mapping[str, SE3]  # name of a puzzle -> (R, K, N) float64, given -> assembled

    @staticmethod
    def of(seed: int, names: Sequence[str], poses: Sequence[SE3]) -> Predictions:
        """From lists. Answers are found by name, so no two puzzles may share one."""
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"several puzzles are called {twice!r}, so their predictions cannot be told apart")
        return Predictions(seed, dict(zip(names, poses, strict=True)))


@dataclass(frozen=True)
class PredictionAnswers:
    """Answers that somebody wrote down. A puzzle without one is an `InputError`: left out is not solved."""

    path: Path
    predictions: Predictions

    @staticmethod
    def read(path: Path) -> PredictionAnswers:
        """From a file."""
        return PredictionAnswers(path, read_predictions(path))

    def settings(self) -> dict[str, Any]:
        """The file, and the seed by which pieces were turned."""
        return {"predictions": str(self.path), "seed": self.predictions.seed}

    def answers(self, puzzles: Iterable[ScatteredPuzzle]) -> Iterator[Answer]:
        """Found by the names of the puzzles."""
        for puzzle in puzzles:
            name, count = puzzle.example.name, puzzle.example.num_pieces
            if name not in self.predictions.poses:
                raise InputError(f"no prediction for the puzzle {name!r}")
            poses = self.predictions.poses[name]
            if poses.shape[-1] != count:
                raise InputError(f"{name}: {count} pieces but predicted poses for {poses.shape[-1]}")
            yield Answer(puzzle, poses)


def read_predictions(path: Path) -> Predictions:
    """Read a file that somebody wrote. Raises `InputError` for what is not a table of rigid motions."""
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f'{path}: not a file of predictions (it should begin with {{"format": "{FORMAT}", ...}})')
    if content.get("version") != VERSION:
        raise InputError(f"{path}: predictions of version {content.get('version')!r}; this Eda reads {VERSION}")
    seed, poses = content.get("seed"), content.get("poses")
    if type(seed) is not int or seed < 0:
        raise InputError(f"{path}: no seed; copy it from the inputs.json that the pieces came with")
    if not isinstance(poses, dict) or not poses:
        raise InputError(f"{path}: no poses: a table from names of puzzles to matrices")
    return Predictions(seed, {name: _motions(value, f"{path}: {name}") for name, value in poses.items()})


def write_predictions(path: Path, predictions: Predictions) -> None:
    """The file that `read_predictions` reads: a puzzle's poses as repeats, samples, pieces, rows, columns."""
    poses = {name: motions.matrix().tolist() for name, motions in predictions.poses.items()}
    content = {"format": FORMAT, "version": VERSION, "seed": predictions.seed, "poses": poses}
    write_atomically(path, json.dumps(content).encode())


def _motions(value: Any, where: str) -> SE3:
    try:
        matrix = np.array(value, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InputError(f"{where}: not a list of 4 x 4 matrices, one for every piece ({error})") from error
    if matrix.ndim not in (3, 4, 5) or matrix.shape[-2:] != (4, 4) or not matrix.size:
        raise InputError(f"{where}: expected (pieces, 4, 4), got {matrix.shape}; repeats and samples may come first")
    drawn = {3: (1, 1), 4: (len(matrix), 1), 5: matrix.shape[:2]}[matrix.ndim]  # repeats, samples
    matrix = matrix.reshape(*drawn, *matrix.shape[-3:])
    if not np.isfinite(matrix).all():
        raise InputError(f"{where}: matrices with NaN or infinite entries")
    if not is_rigid(matrix, _ROUNDING):
        raise InputError(f"{where}: not rigid motions; the upper left 3 x 3 of a matrix must be a rotation")
    if not np.allclose(matrix[..., 3, :], [0, 0, 0, 1], atol=_ROUNDING):
        raise InputError(f"{where}: the last row of a matrix must be 0 0 0 1; matrices act on column vectors")
    return SE3.from_matrix(torch.from_numpy(matrix)).polish()


def write_inputs(folder: Path, puzzles: Iterable[ScatteredPuzzle], seed: int, *, anchored: bool = False) -> None:
    """The pieces as a system is given them: a folder of PLY files a puzzle, and `inputs.json` that lists them.

    With `anchored`, the list also tells where the largest piece belongs.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: not empty; choose another folder for the inputs")
    listed: list[dict[str, Any]] = []
    for index, puzzle in enumerate(puzzles):
        place = folder / f"{index:05d}"
        place.mkdir(parents=True)
        names = [f"piece_{i:03d}.ply" for i in range(puzzle.example.num_pieces)]
        clouds, normals = puzzle.clouds(), puzzle.normals()
        for i, name in enumerate(names):
            cloud = Geometry(clouds[i], None if normals is None else normals[i])
            write_atomically(place / name, ply_bytes(cloud))
        listed.append({"name": puzzle.example.name, "pieces": [f"{place.name}/{name}" for name in names]})
        if anchored:
            pose = puzzle.solution[puzzle.anchor].matrix().tolist()
            listed[-1]["anchor"] = {"piece": puzzle.anchor, "pose": pose}
    content = {"format": INPUTS, "version": VERSION, "seed": seed, "puzzles": listed}
    write_atomically(folder / "inputs.json", json.dumps(content, indent=1).encode())
