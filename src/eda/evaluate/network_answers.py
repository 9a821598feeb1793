"""A network as a source of answers: samples of its flow, as they come.

The assembly of a puzzle depends on the seed and its place in the source, not on the puzzles that happen to be sampled
together with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch

from eda.assembly import Clouds, choose_model, outward_normals
from eda.cloud import estimate_normals
from eda.errors import DivergedError
from eda.evaluate.answers import Answer
from eda.evaluate.scatter import ScatteredPuzzle, generator_of
from eda.lie import SE3
from eda.metrics import align_on
from eda.model import Eda
from eda.nn import NetworkConfig, Paths
from eda.pieces import Pieces
from eda.settings import check_whole

NEIGHBORS = 16  # by which unoriented normals are estimated


@dataclass(frozen=True)
class Sampling:
    """How assemblies are drawn."""

    samples: int = 1  # K, of each puzzle in a repeat
    repeats: int = 3  # R, with noise of their own, to see how much it matters
    solver: str = "rk4"
    steps: int = 20
    rounds: int = 1  # how often the flow is followed, each time from where it ended
    points: int | None = None  # of a puzzle that the network sees, about; None: as in its training
    seed: int = 0
    paths: Paths = "all"  # what of the network is used, see `Eda.trajectory`
    batch_points: int = 20_000  # of the puzzles that are sampled together, at most

    def __post_init__(self) -> None:
        for name in ("samples", "repeats", "steps", "rounds", "batch_points"):
            check_whole(name, getattr(self, name), 1, 2**31)
        check_whole("points", 1 if self.points is None else self.points, 1, 2**31)
        check_whole("seed", self.seed, 0, 2**63)


@dataclass(frozen=True)
class NetworkAnswers:
    """The samples of a model, or of the model that suits each puzzle. With `anchored`, the largest piece is pinned.

    One pin only moves the finished assembly, so it is applied to that.
    """

    model: Eda | Callable[[ScatteredPuzzle], tuple[str, Eda]]
    sampling: Sampling = Sampling()
    anchored: bool = False

    def settings(self) -> dict[str, Any]:
        """How the samples are drawn."""
        settings = asdict(self.sampling)
        if isinstance(self.model, Eda) and self.sampling.points is None:
            settings["points"] = self.model.config.num_points
        return {key: settings[key] for key in ("solver", "steps", "rounds", "points", "paths", "seed")}

    def answers(self, puzzles: Iterable[ScatteredPuzzle]) -> Iterator[Answer]:
        """Sampled in batches."""
        for batch in _batches((self._part(puzzle) for puzzle in puzzles), self.sampling):
            for answer in _sample_batch(batch, self.sampling):
                yield _pinned(answer) if self.anchored else answer

    def _part(self, puzzle: ScatteredPuzzle) -> _Part:
        name, model = (None, self.model) if isinstance(self.model, Eda) else self.model(puzzle)
        return _Part(puzzle, _pieces(puzzle, model, self.sampling.points), model, name)


def suitable_model(device: str) -> Callable[[ScatteredPuzzle], tuple[str, Eda]]:
    """A function that gives the shipped model for a puzzle, chosen by its pieces as the assembler does."""
    load = lru_cache(lambda name: Eda.load(name, device=device))

    def choose(puzzle: ScatteredPuzzle) -> tuple[str, Eda]:
        name = choose_model(Clouds.of(puzzle.clouds(), puzzle.normals())).model
        return name, load(name)

    return choose


@dataclass(frozen=True)
class _Part:
    """One puzzle of a batch."""

    puzzle: ScatteredPuzzle
    pieces: Pieces
    model: Eda
    model_name: str | None


def _pieces(puzzle: ScatteredPuzzle, model: Eda, points: int | None) -> Pieces:
    """What the network is given; with estimated normals where it needs some and there are none."""
    example, network = puzzle.example, model.config.network
    points = points or model.config.budget.of(example.num_pieces)
    if model.takes_normals and example.normals is None:
        unoriented = isinstance(network, NetworkConfig) and network.normals == "unoriented"
        estimate = partial(estimate_normals, k=NEIGHBORS) if unoriented else outward_normals
        normals = np.concatenate([estimate(cloud.astype(np.float64)) for cloud in example.clouds()])
        puzzle = replace(puzzle, example=replace(example, normals=normals.astype(np.float32)))
    if not model.config.focus:
        return puzzle.pieces(points, normals=model.takes_normals)
    dense = puzzle.dense_pieces(points, normals=model.takes_normals).to(device=model.device)
    return model.focus(dense, points).to(device="cpu")


def _batches(parts: Iterable[_Part], sampling: Sampling) -> Iterator[list[_Part]]:
    """Puzzles in order, of one model, as many at a time as the bound on points allows, and at least one."""
    batch: list[_Part] = []
    room = sampling.batch_points
    for part in parts:
        cost = len(part.pieces.points) * sampling.samples
        if batch and (cost > room or part.model is not batch[0].model):
            yield batch
            batch, room = [], sampling.batch_points
        batch.append(part)
        room -= cost
    if batch:
        yield batch


def _sample_batch(batch: list[_Part], sampling: Sampling) -> list[Answer]:
    """The wall time of a batch is shared out by points."""
    model = batch[0].model
    device = model.device
    pieces = Pieces.collate([part.pieces for part in batch]).to(device=device)
    options = {name: getattr(sampling, name) for name in ("solver", "steps", "rounds", "paths")}
    repeats, seconds = [], []
    for repeat in range(sampling.repeats):
        noise = _noise(batch, sampling, repeat).to(device)
        start = time.perf_counter()
        try:
            poses = model.sample(pieces, sampling.samples, noise=noise, **options)
        except FloatingPointError as error:
            names = f"{batch[0].puzzle.example.name} to {batch[-1].puzzle.example.name}"
            raise DivergedError(f"the model breaks down on one of the puzzles {names}: {error}") from error
        repeats.append(pieces.to_user(poses).to("cpu"))  # waits for the device
        seconds.append(time.perf_counter() - start)
    motions, columns = SE3.stack(repeats), torch.split(torch.arange(pieces.num_pieces), pieces.counts.tolist())
    share = [len(part.pieces.points) / len(pieces.points) for part in batch]
    return [
        Answer(part.puzzle, motions[:, :, own], np.array(seconds) * weight, model=part.model_name)
        for part, own, weight in zip(batch, columns, share, strict=True)
    ]


def _noise(batch: list[_Part], sampling: Sampling, repeat: int) -> SE3:
    """(K, N) where the flow begins; every puzzle draws from a generator of its own."""
    draws = [
        part.model.sample_noise(
            part.pieces,
            sampling.samples,
            generator_of(sampling.seed, part.puzzle.index, repeat + 1),  # 0 turned the pieces
        )
        for part in batch
    ]
    return SE3(torch.cat([d.rotation for d in draws], dim=1), torch.cat([d.translation for d in draws], dim=1))


def _pinned(answer: Answer) -> Answer:
    shape, puzzle = answer.poses.shape, answer.puzzle
    flat = answer.poses.reshape(-1, shape[-1])
    moved = [align_on(flat[i], puzzle.solution, puzzle.anchor) for i in range(len(flat))]
    return replace(answer, poses=SE3.stack(moved).reshape(*shape))
