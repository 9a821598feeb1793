"""The training loop, all of it in one place, for one process and for many (`torchrun`).

In: a `TrainConfig` and a folder. Out: in that folder, the state (to resume from), `model.safetensors` (the averaged
weights, to use) and the log. A step depends on the config and on its number only, so a run that was killed and resumed
ends in the same bits as one that was not.
"""

from __future__ import annotations

import dataclasses
import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from eda.data import Dataset
from eda.data.storage.batches import BatchPlan
from eda.data.storage.loader import Batch, Graphs, Loader
from eda.errors import DivergedError, InputError
from eda.model import Eda
from eda.nn import NetworkConfig
from eda.nn.protocol import Labels
from eda.train.checkpoint import load_state, save_state
from eda.train.config import OptimizerConfig, TrainConfig
from eda.train.ranks import Ranks
from eda.train.watch import Step, Watcher, loss_names
from eda.train.writing import writing

MODEL_FILE = "model.safetensors"

# Failed steps in a row after which the run gives up.
MAX_FAILED_STEPS = 10


class Objective(nn.Module):
    """The loss as a module, since that is what DistributedDataParallel wraps."""

    def __init__(self, model: Eda, config: TrainConfig) -> None:
        super().__init__()
        self.model, self.config = model, config

    def forward(self, batch: Batch, number: int) -> Tensor:
        """The parts of the loss on batch `number` of all batches, in the order of `loss_names`."""
        seed = np.random.SeedSequence([self.config.seed, number]).generate_state(1, np.uint64)[0] >> 1
        device = batch.pyramid.pieces.points.device
        loss = self.model.loss(
            batch.puzzle,
            pyramid=batch.pyramid,
            draws=self.config.data.draws,
            labels=Labels(batch.on_break, batch.own),
            generator=torch.Generator(device).manual_seed(int(seed)),
        )
        zero = self._zero_of_all_weights()
        _, *names = loss_names(self.config.model)
        parts = (getattr(loss, name) for name in names)
        return torch.stack([loss.total + zero, *(zero if part is None else part for part in parts)])

    def _zero_of_all_weights(self) -> Tensor:
        """Zero, as a function of every weight, so that each has a gradient.

        Processes then agree on whose gradients they exchange, also on a batch without labels or without draws.
        """
        return sum(0 * weight.sum() for weight in self.model.parameters())  # type: ignore[return-value]


class Run:
    """A run in its folder: the model, its average, the optimiser, the data, and how far it is."""

    def __init__(self, config: TrainConfig, folder: Path, ranks: Ranks) -> None:
        self.config, self.folder, self.ranks = config, folder, ranks
        self.model = _first_model(config).to(ranks.device)
        self.objective = self._distributed(Objective(self.model, config))
        self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(config.optimizer.ema))
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=config.optimizer.lr, weight_decay=config.optimizer.weight_decay
        )
        self.loader = self._loader()
        self.step = self.used = 0  # steps made; batches used, more than one a step after a rollback
        self.damaged: tuple[Path, ...] = ()  # states that the last `resume` passed over
        self.resume()

    def _distributed(self, objective: nn.Module) -> nn.Module:
        if self.ranks.world == 1:
            return objective
        return DistributedDataParallel(objective)

    def _loader(self) -> Loader:
        data = self.config.data
        plan = BatchPlan(
            points_per_batch=data.points_per_batch,
            points_per_example=self.config.model.num_points,
            points_per_piece=self.config.model.points_per_piece,
            max_pieces=data.max_pieces,
            seed=self.config.seed,
            rank=self.ranks.rank,
            world=self.ranks.world,
        )
        graphs = Graphs(**self.model.pyramid_settings)
        return Loader(Dataset.from_text(data.train), plan, graphs, data.augmentation, data.workers, self._focused)

    @property
    def _focused(self) -> float:
        """The share of puzzles that are shown with a focus; the break head learns from the others."""
        return self.config.data.focused if self.config.model.focus else 0.0

    def resume(self) -> None:
        """Restore the last good state on disk, if there is one."""
        restored = load_state(self.folder, self.model, self.average, self.optimizer)
        if restored is None:
            return
        self.step, self.used = restored.progress["step"], restored.progress["used"]
        self.damaged = restored.damaged
        if self.ranks.rank == 0:
            for file in restored.damaged:
                file.unlink(missing_ok=True)  # or the next save would replace the good one by it

    def save(self) -> None:
        """Write the state, and the averaged weights as a model file. Raises `WriteError`."""
        if self.ranks.rank == 0:
            progress = {"step": self.step, "used": self.used}
            save_state(self.folder, self.model, self.average, self.optimizer, progress)
            with writing(self.folder / MODEL_FILE):
                self.averaged.save(self.folder / MODEL_FILE)

    @property
    def done(self) -> bool:
        """Whether the last step of the config is made."""
        return self.step >= self.config.optimizer.steps

    @property
    def averaged(self) -> Eda:
        """The model with the averaged weights: the one to use."""
        assert isinstance(self.average.module, Eda)
        return self.average.module

    def advance(self, batches: Iterator[Batch]) -> Step:
        """The gradients of the next step, clipped; `accept` makes the step. Returns its losses and gradient norm."""
        settings = self.config.optimizer
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(settings, self.step)
        self.optimizer.zero_grad()
        parts = []
        for last in [False] * (settings.accumulate - 1) + [True]:
            parts.append(self._backward(next(batches).to(self.ranks.device), last))
            self.used += 1
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip))
        return Step(self.ranks.mean(torch.stack(parts).mean(0)), norm)

    def _backward(self, batch: Batch, last: bool) -> Tensor:
        """Add the gradients of a batch; they are exchanged with the other ranks at the `last` one of a step."""
        settings, number = self.config.optimizer, self.used * self.ranks.world + self.ranks.rank
        local_only = isinstance(self.objective, DistributedDataParallel) and not last
        precision = torch.autocast(self.ranks.device.type, torch.bfloat16, enabled=settings.bfloat16)
        with self.objective.no_sync() if local_only else nullcontext(), precision:  # type: ignore[operator]
            parts = self.objective(batch, number)
            (parts[0] / settings.accumulate).backward()
        return parts.detach()

    def accept(self) -> None:
        """Update the weights by their gradients, and the average."""
        self.optimizer.step()
        self.average.update_parameters(self.model)
        self.step += 1


def _first_model(config: TrainConfig) -> Eda:
    """A model with new weights, or with those of the model file that the run starts from."""
    if not config.begin_with:
        return Eda(config.model, seed=config.seed)
    before, network = Eda.load(config.begin_with), config.model.network
    accepted = [network]
    if isinstance(network, NetworkConfig):
        accepted += [network.without_matches, dataclasses.replace(network, pose_field="search")]
    if before.config.network not in accepted:
        raise InputError(f"{config.begin_with}: its network is not the one of this recipe")
    model = Eda(config.model, seed=config.seed)
    model.load_state_dict(before.state_dict(), strict=False)  # correspondences, or what follows from them, may be new
    return model


def learning_rate(settings: OptimizerConfig, step: int) -> float:
    """The rate at a step: a linear warm-up, then a cosine down to `final_lr`."""
    if step < settings.warmup:
        return settings.lr * (step + 1) / settings.warmup
    share = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    cosine = 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))
    return settings.lr * (settings.final_lr + (1 - settings.final_lr) * cosine)


def train(config: TrainConfig, folder: Path, ranks: Ranks, watcher: Watcher) -> Run:
    """Train until the last step of the config, or until a signal asks to stop; resumes from the state in `folder`."""
    run = Run(config, folder, ranks)
    batches = run.loader.batches(run.used)
    failed = 0
    watcher.begin(run.step, config.optimizer.steps)
    watcher.report_damage(run.damaged, run.step)
    with _stop_on_signal() as asked_to_stop:
        while not run.done and not ranks.any(asked_to_stop[0]):
            start = time.perf_counter()
            made = run.advance(batches)
            trouble = watcher.trouble(made)
            if trouble:
                failed += 1
                if failed == MAX_FAILED_STEPS:
                    raise DivergedError(f"{folder}: {failed} steps in a row failed, the last one with {trouble}")
                used = run.used
                run.resume()
                run.used = used  # the batches that led there are not tried again
                watcher.report_damage(run.damaged, run.step)
                watcher.report_trouble(trouble, run.step)
                continue
            run.accept()
            failed = 0
            watcher.stepped(run.step, made, time.perf_counter() - start, run.loader.waited)
            if run.step % config.watch.checkpoint_every == 0:
                run.save()
            if run.step % config.watch.validate_every == 0:
                watcher.validate(run.step, run.averaged)
    run.save()
    if not run.done:
        watcher.report_stop(run.step)
    return run


@contextmanager
def _stop_on_signal() -> Iterator[list[bool]]:
    """A flag that SIGINT and SIGTERM set, so that the current step can finish; a second signal interrupts at once."""
    asked = [False]

    def ask(number: int, frame: object) -> None:
        if asked[0]:
            raise KeyboardInterrupt
        asked[0] = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
