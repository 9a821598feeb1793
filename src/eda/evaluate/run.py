"""Measuring: the answers of a model, or of any other system, against the truth.

In: examples, one after the other. Out: an `Evaluation`. The assembly of a puzzle depends on the seed and its place in
the source, not on the puzzles that happen to be sampled together with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from eda.data import Example
from eda.errors import InputError
from eda.evaluate.predictions import Predictions
from eda.evaluate.protocols import PROTOCOLS, Protocol, Score
from eda.evaluate.scatter import Scattered, generator_of, scattered
from eda.evaluate.summary import Evaluation
from eda.lie import SE3
from eda.metrics import aligned_on
from eda.model import Eda
from eda.pieces import Pieces
from eda.settings import check_choice, check_whole


@dataclass(frozen=True)
class Sampling:
    """How assemblies are drawn."""

    samples: int = 1  # K, of each puzzle in a repeat
    repeats: int = 3  # R, with noise of their own, to see how much it matters
    solver: str = "rk4"
    steps: int = 20
    rounds: int = 1  # how often the flow is followed, each time from where it ended
    points: int = 1000  # of a puzzle that the network sees, about
    seed: int = 0
    batch_points: int = 20_000  # of the puzzles that are sampled together, at most

    def __post_init__(self) -> None:
        for name in ("samples", "repeats", "steps", "rounds", "points", "batch_points"):
            check_whole(name, getattr(self, name), 1, 2**31)
        check_whole("seed", self.seed, 0, 2**63)


@dataclass(frozen=True)
class Answer:
    """The assemblies of one puzzle."""

    puzzle: Scattered
    poses: SE3  # (R, K, N) float64, given -> assembled
    seconds: np.ndarray | None = None  # (R,) wall time


def evaluate(
    answers: Iterable[Answer], protocol_name: str = "pairwise", *, progress: Callable[[int], None] | None = None
) -> Evaluation:
    """Score answers as they come; `progress` hears how many there were."""
    check_choice("protocol", protocol_name, tuple(PROTOCOLS))
    protocol = PROTOCOLS[protocol_name]
    if protocol.score is None:
        raise InputError(f"the protocol {protocol_name!r} does not score assemblies: use evaluate_breaks")
    names, num_pieces, figures, poses = [], [], [], []
    seconds: list[np.ndarray] = []
    for answer in answers:  # their clouds are let go: a source may be larger than the memory
        names.append(answer.puzzle.example.name)
        num_pieces.append(len(answer.puzzle.own))
        figures.append(_figures(protocol, protocol.score, answer))
        poses.append(answer.poses)
        seconds.extend([] if answer.seconds is None else [answer.seconds])
        if progress:
            progress(len(names))
    _check_alike(poses)
    return Evaluation(
        protocol_name=protocol_name,
        names=names,
        num_pieces=np.array(num_pieces),
        values={name: np.stack([each[name] for each in figures]) for name in protocol.metrics},
        poses=poses,
        seconds=np.stack(seconds) if seconds else None,
    )


def looked_up(predictions: Predictions, examples: Iterable[Example]) -> Iterator[Answer]:
    """Answers that somebody wrote down. A puzzle without one is an `InputError`: left out is not solved."""
    for puzzle in scattered(examples, predictions.seed):
        name, count = puzzle.example.name, puzzle.example.num_pieces
        if name not in predictions.poses:
            raise InputError(f"no prediction for the puzzle {name!r}")
        poses = predictions.poses[name]
        if poses.shape[-1] != count:
            raise InputError(f"{name}: {count} pieces but predicted poses for {poses.shape[-1]}")
        yield Answer(puzzle, poses)


def sampled(
    model: Eda, examples: Iterable[Example], sampling: Sampling | None = None, *, anchored: bool = False
) -> Iterator[Answer]:
    """Answers of a model. With `anchored`, the largest piece is pinned at its true place.

    One pin only moves the finished assembly, so it is applied to that.
    """
    for batch in _batches(model, examples, sampling or Sampling()):
        for answer in _sample_batch(model, batch, sampling or Sampling()):
            yield _pinned(answer) if anchored else answer


def _pinned(answer: Answer) -> Answer:
    shape, puzzle = answer.poses.shape, answer.puzzle
    moved = [aligned_on(poses, puzzle.solution, puzzle.anchor) for poses in _each(answer.poses)]
    return Answer(puzzle, SE3.stack(moved).reshape(*shape), answer.seconds)


def _each(poses: SE3) -> list[SE3]:
    """The assemblies (N,) of poses (R, K, N)."""
    flat = poses.reshape(-1, poses.shape[-1])
    return [flat[i] for i in range(len(flat))]


# -- scoring ---------------------------------------------------------------------------------------------------------


def _figures(protocol: Protocol, score: Score, answer: Answer) -> dict[str, np.ndarray]:
    """Every figure as (R, K); foreign pieces are left out."""
    own, solution, clouds = answer.puzzle.own, answer.puzzle.solution, answer.puzzle.clouds()
    solution, clouds = solution[own], [clouds[i] for i in own]
    scores = [score(poses[own], solution, clouds) for poses in _each(answer.poses)]
    shape = answer.poses.shape[:2]
    return {name: np.array([each[name] for each in scores]).reshape(shape) for name in protocol.metrics}


def _check_alike(poses: list[SE3]) -> None:
    if not poses:
        raise InputError("no puzzles to evaluate on")
    shapes = {tuple(each.shape[:2]) for each in poses}
    if len(shapes) > 1:
        raise InputError(f"all puzzles need as many repeats and samples as the others, got {sorted(shapes)}")


# -- sampling --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """One puzzle of a batch."""

    index: int  # in the source
    puzzle: Scattered
    pieces: Pieces


def _batches(model: Eda, examples: Iterable[Example], sampling: Sampling) -> Iterator[list[_Part]]:
    """Puzzles in order, as many at a time as the bound on points allows, and at least one."""
    normals = model.takes_normals
    batch: list[_Part] = []
    room = sampling.batch_points
    for index, puzzle in enumerate(scattered(examples, sampling.seed)):
        pieces = puzzle.pieces(sampling.points, normals=normals)
        cost = len(pieces.points) * sampling.samples
        if batch and cost > room:
            yield batch
            batch, room = [], sampling.batch_points
        batch.append(_Part(index, puzzle, pieces))
        room -= cost
    if batch:
        yield batch


def _sample_batch(model: Eda, batch: list[_Part], sampling: Sampling) -> list[Answer]:
    """The wall time of a batch is shared out by points."""
    device = model.device
    pieces = Pieces.collate([part.pieces for part in batch]).to(device=device)
    repeats, seconds = [], []
    for repeat in range(sampling.repeats):
        noise = _noise(model, batch, sampling, repeat).to(device)
        start = time.perf_counter()
        try:
            options = {"solver": sampling.solver, "steps": sampling.steps, "rounds": sampling.rounds}
            poses = model.sample(pieces, sampling.samples, noise=noise, **options)
        except FloatingPointError as error:
            names = f"{batch[0].puzzle.example.name} to {batch[-1].puzzle.example.name}"
            raise InputError(f"the model breaks down on one of the puzzles {names}: {error}") from error
        repeats.append(pieces.to_user(poses).to("cpu"))  # waits for the device
        seconds.append(time.perf_counter() - start)
    motions, columns = SE3.stack(repeats), torch.split(torch.arange(pieces.num_pieces), pieces.counts.tolist())
    share = [len(part.pieces.points) / len(pieces.points) for part in batch]
    return [
        Answer(part.puzzle, motions[:, :, own], np.array(seconds) * weight)
        for part, own, weight in zip(batch, columns, share, strict=True)
    ]


def _noise(model: Eda, batch: list[_Part], sampling: Sampling, repeat: int) -> SE3:
    """(K, N) where the flow begins; every puzzle draws from a generator of its own."""
    draws = [
        model.sample_noise(
            part.pieces,
            sampling.samples,
            generator_of(sampling.seed, part.index, repeat + 1),  # 0 turned the pieces
        )
        for part in batch
    ]
    return SE3(torch.cat([d.rotation for d in draws], dim=1), torch.cat([d.translation for d in draws], dim=1))
