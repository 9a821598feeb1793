"""The progress of a run: printed lines, a log, TensorBoard where it is installed, validation and pictures.

All processes of a run have a `Watcher`; those that do not report have no folder to write to.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eda.data import Example
from eda.data.focused_puzzles import dense_pieces, puzzle_of
from eda.lie import SE3
from eda.metrics import pairwise_geodesic
from eda.model import Eda
from eda.model_config import EdaConfig
from eda.nn import NetworkConfig
from eda.pieces import Puzzle
from eda.train.config import TrainConfig
from eda.train.log import RunLog
from eda.train.writing import writing

# A step is rejected when its loss is this many times the median of the last `_WINDOW` steps.
SPIKE = 20.0
_WINDOW = 200

# Puzzles, sampled poses and where the picture goes -> the picture, (height, width, 3) bytes.
Draw = Callable[[Sequence[Puzzle], Sequence[SE3], Path], np.ndarray]
MAX_DRAWN = 4  # puzzles in a picture

_BOARD = "tensorboard"


def loss_names(config: EdaConfig) -> tuple[str, ...]:
    """The parts of the loss that a run reports: the total first, then fields of `TrainingLoss`."""
    if not isinstance(config.network, NetworkConfig):
        return ("loss", "rotation", "translation", "auxiliary")
    of_field = "motions" if config.network.pose_field == "search" else "synchronisation"
    return ("loss", "rotation", "translation", "breaks", "matches", of_field)


@dataclass(frozen=True)
class Step:
    """The losses and the gradient of one step of the optimiser."""

    parts: Tensor  # as `loss_names`; the mean over its batches
    gradient: float  # the norm before clipping


class Watcher:
    """Reports to `folder` and through `say`; without a folder it only looks for failed steps."""

    def __init__(
        self,
        config: TrainConfig,
        folder: Path | None,
        say: Callable[[str], None],
        examples: Sequence[Example] = (),
        draw: Draw | None = None,
    ) -> None:
        self._config, self._folder, self._say, self._draw = config, folder, say, draw
        self._entries = RunLog(folder) if folder else None
        self._names = loss_names(config.model)
        self._examples = list(examples)
        self._recent: deque[float] = deque(maxlen=_WINDOW)
        self._since: list[Tensor] = []
        self._board = _tensorboard(folder)
        self._started = time.perf_counter()
        self._first = self._total = 0
        self._waited = self._busy = 0.0

    def begin(self, step: int, total: int) -> None:
        """Start the clock at the first step of this process."""
        self._started, self._first, self._total = time.perf_counter(), step, total
        if step:
            self._say(f"resuming at step {step:,} of {total:,}")

    def trouble(self, made: Step) -> str | None:
        """Why a step must be rejected, if it must: a loss that is not finite, or far above those before."""
        loss = float(made.parts[0])
        if not math.isfinite(loss) or not math.isfinite(made.gradient):
            return f"loss {loss}, gradient {made.gradient}"
        usual = sorted(self._recent)[len(self._recent) // 2] if len(self._recent) == _WINDOW else math.inf
        if loss > SPIKE * usual:
            return f"loss {loss:.3g} where {usual:.3g} is usual"
        self._recent.append(loss)
        return None

    def report_trouble(self, trouble: str, step: int) -> None:
        """Report that the run went back to an earlier step."""
        self._recent.clear()
        self._say(f"trouble: {trouble}; went back to step {step:,}")
        self._log({"step": step, "trouble": trouble})

    def report_damage(self, files: Sequence[Path], step: int) -> None:
        """Report that newer states could not be used, so that the run went back to an earlier step."""
        for file in files:
            self._say(f"{file.name} is damaged; went back to the state before it, of step {step:,}")
            self._log({"step": step, "damaged": file.name})

    def report_stop(self, step: int) -> None:
        """Report that a signal ended the run before its last step."""
        self._say(f"stopped at step {step:,} of {self._total:,}; run the same command again to go on")

    def stepped(self, step: int, made: Step, seconds: float, waited: float) -> None:
        """Report a step that was made; `waited` are the seconds spent waiting for data since the run started."""
        self._since.append(made.parts)
        self._busy += seconds
        if step % self._config.watch.log_every and step < self._total:  # the last step is always reported
            return
        means = torch.stack(self._since).mean(0).tolist()
        share = (waited - self._waited) / max(self._busy, 1e-9)
        speed = len(self._since) / max(self._busy, 1e-9)
        entry: dict[str, Any] = {"step": step, **dict(zip(self._names, means, strict=True))}
        entry |= {"gradient": made.gradient, "steps_per_second": speed, "waiting": share}
        self._since, self._waited, self._busy = [], waited, 0.0
        left = (time.perf_counter() - self._started) / max(1, step - self._first) * (self._total - step)
        values = "  ".join(f"{name} {entry[name]:.4f}" for name in self._names)
        self._say(f"{step:7,}/{self._total:,}  {values}  {speed:.2f} steps/s  {share:.0%} waiting  {_clock(left)} left")
        self._log(entry)

    @torch.no_grad()
    def validate(self, step: int, model: Eda) -> None:
        """Sample assemblies of the validation puzzles and report the paper's error (Sec. 6.1)."""
        if not self._examples:
            return
        puzzles = [self._puzzle(example, model) for example in self._examples]
        sampled, errors = [], []
        for index, puzzle in enumerate(puzzles):
            generator = torch.Generator().manual_seed(index)
            poses = model.sample(
                puzzle.to(device=model.device).pieces, steps=self._config.watch.validation_steps, generator=generator
            )[0].to(device="cpu")
            sampled.append(poses)
            errors.append(float(pairwise_geodesic(poses, puzzle.solution, puzzle.pieces)[0]))
        summary = _summary(errors, puzzles)
        self._say(f"{step:7,} validation: " + ", ".join(f"{name} {value:.1f}" for name, value in summary.items()))
        self._log({"step": step, "validation": summary})
        if self._draw and self._folder:
            path = self._folder / f"assemblies-{step:07d}.png"
            with writing(path):
                picture = self._draw(puzzles[:MAX_DRAWN], sampled[:MAX_DRAWN], path)
            if self._board:
                self._board.add_image("assemblies", picture, step, dataformats="HWC")

    def _puzzle(self, example: Example, model: Eda) -> Puzzle:
        """An example as the model is shown it."""
        points = self._config.model.budget.of(example.num_pieces)
        if not model.config.focus:
            return example.downsample(points).puzzle()
        dense = dense_pieces(example, points).to(device=model.device)
        return puzzle_of(example, model.focus(dense).to(device="cpu"))

    def _log(self, entry: dict[str, Any]) -> None:
        if self._entries:
            self._entries.append(entry)
        if self._board and self._folder:
            with writing(self._folder / _BOARD):
                self._add_scalars(entry)

    def _add_scalars(self, entry: dict[str, Any]) -> None:
        for name, value in entry.items():
            for key, number in value.items() if isinstance(value, dict) else [(name, value)]:
                if name != "step" and not isinstance(number, str):
                    self._board.add_scalar(key if key == name else f"{name}/{key}", number, entry["step"])


def _summary(errors: list[float], puzzles: list[Puzzle]) -> dict[str, float]:
    """The mean and median error in degrees, and quantiles over the puzzles of two pieces."""
    degrees = torch.tensor(errors)
    pairs = torch.tensor([puzzle.pieces.num_pieces == 2 for puzzle in puzzles])
    summary = {"mean": float(degrees.mean()), "median": float(degrees.median())}
    if bool(pairs.any()):
        summary |= {f"pairs {q}%": float(degrees[pairs].quantile(q / 100)) for q in (10, 25, 50)}
    return summary


def _tensorboard(folder: Path | None) -> Any:
    """A writer of TensorBoard events; None where the package is not installed or there is no folder."""
    if folder is None:
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    with writing(folder / _BOARD):
        return SummaryWriter(folder / _BOARD)


def _clock(seconds: float) -> str:
    minutes = int(seconds // 60)
    return f"{minutes // 60}:{minutes % 60:02d} h" if minutes >= 60 else f"{minutes}:{int(seconds % 60):02d} min"
