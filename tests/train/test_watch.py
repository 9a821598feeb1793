"""Who watches a run sees trouble, from which it goes back and on; and what a person is told of it."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.small_datasets import lumpy_example, tiny_run
from support.training_runs import ALONE, Killed, assert_same_bits, silent, trained
from torch import Tensor

import eda.train.watch
from eda import SE3, Eda, EdaConfig
from eda.data.storage.loader import Batch
from eda.errors import DivergedError
from eda.train import OptimizerConfig, Run, TrainConfig, WatchConfig, Watcher
from eda.train.loop import Objective
from eda.train.watch import SPIKE, Step, loss_names

NAMES = loss_names(EdaConfig())

# -- trouble -----------------------------------------------------------------------------------------------


def spoiled(monkeypatch: pytest.MonkeyPatch, number: int, spoil: Callable[[Tensor, Eda], Tensor]) -> None:
    """The loss of one batch is another; a run that does not get past it is killed."""
    forward, calls = Objective.forward, []

    def forward_or_worse(self: Objective, batch: Batch, at: int) -> Tensor:
        calls.append(at)
        if len(calls) > 50:
            raise Killed
        parts = forward(self, batch, at)
        return spoil(parts, self.model) if at == number else parts

    monkeypatch.setattr(Objective, "forward", forward_or_worse)


def not_a_number(parts: Tensor, model: Eda) -> Tensor:
    return parts * torch.nan


def steep(parts: Tensor, model: Eda) -> Tensor:
    """The same loss, with an infinite gradient."""
    weight = next(model.parameters())
    return parts + (weight - weight.detach()).abs().sum().sqrt()


def high(parts: Tensor, model: Eda) -> Tensor:
    return parts * 1000


def skipped(config: TrainConfig, folder: Path, steps: int, resume_at: int) -> Run:
    """By hand: some steps, then on with batch `resume_at`."""
    folder.mkdir()
    run = Run(config, folder, ALONE)
    batches = run.loader.batches()
    for _ in range(steps):
        run.advance(batches)
        run.accept()
    run.used = resume_at
    batches = run.loader.batches(resume_at)
    while run.step < config.optimizer.steps:
        run.advance(batches)
        run.accept()
    return run


@pytest.mark.parametrize(("spoil", "number", "kept"), [(not_a_number, 4, 3), (steep, 4, 3), (not_a_number, 1, 1)])
def test_a_run_goes_back_and_on_with_other_batches(dataset, tmp_path, monkeypatch, spoil, number, kept):
    """From batch 4 to the state of step 3; from batch 1, before there is a state, to where it was."""
    config, lines = tiny_run(dataset.folders[0], steps=6), []
    expected = skipped(config, tmp_path / "by hand", kept, number + 1)
    spoiled(monkeypatch, number, spoil)
    (tmp_path / "run").mkdir()
    run = trained(config, tmp_path / "run", Watcher(config, tmp_path / "run", lines.append))
    assert_same_bits(run, expected)
    assert run.used == 6 + number + 1 - kept
    assert [line for line in lines if "trouble" in line and f"went back to step {kept}" in line]
    logged = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in logged if "trouble" in entry] == [kept]


def test_a_run_goes_back_from_a_spike(dataset, tmp_path, monkeypatch):
    config = tiny_run(dataset.folders[0], steps=6)
    expected = skipped(config, tmp_path / "by hand", 3, 5)
    spoiled(monkeypatch, 4, high)
    monkeypatch.setattr(eda.train.watch, "_WINDOW", 4)
    assert_same_bits(trained(config, tmp_path / "run"), expected)


def test_a_spike_is_a_loss_far_above_the_usual():
    watcher = silent(TrainConfig())

    def trouble(loss: float, gradient: float = 1.0) -> str | None:
        return watcher.trouble(Step(torch.tensor([loss, 0, 0, 0, 0, 0]), gradient))

    assert trouble(1e9) is None, "nothing is usual yet"
    usual = [1.0, 3.0] * 100
    assert [trouble(loss) for loss in usual] == [None] * 200
    assert trouble(3.0 * SPIKE * 0.99) is None
    assert "where 3 is usual" in trouble(3.0 * SPIKE * 1.01)
    assert "nan" in trouble(math.nan)
    assert "inf" in trouble(1.0, math.inf)
    watcher.report_trouble("spike", 5)
    assert trouble(1e9) is None, "after going back it has to be learned again what is usual"


def test_a_run_that_only_meets_trouble_gives_up(dataset, tmp_path, monkeypatch):
    calls = []

    def always(self: Objective, batch: Batch, number: int) -> Tensor:
        calls.append(number)
        if len(calls) > 50:
            raise Killed
        return next(self.model.parameters()).sum() * torch.full((len(NAMES),), torch.nan)

    monkeypatch.setattr(Objective, "forward", always)
    with pytest.raises(DivergedError, match="steps in a row failed"):
        trained(tiny_run(dataset.folders[0]), tmp_path / "run")


# -- what a person sees ------------------------------------------------------------------------------------


def entries(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_the_log_has_the_means_since_the_last_line(tmp_path):
    config, lines = TrainConfig(optimizer=OptimizerConfig(steps=6), watch=WatchConfig(log_every=3)), []
    watcher = Watcher(config, tmp_path, lines.append)
    watcher.begin(0, 6)
    for step in range(1, 7):
        watcher.stepped(
            step, Step(torch.tensor([step, 2.0 * step, 0.0, 1.0, 0.5, 0.25]), gradient=step / 10), 0.5, 0.1 * step
        )
    first, second = entries(tmp_path)
    assert (first["step"], first["loss"], first["rotation"], first["breaks"]) == (3, 2.0, 4.0, 1.0)
    assert (first["matches"], first["motions"]) == (0.5, 0.25)
    assert (second["step"], second["loss"], second["gradient"]) == (6, 5.0, 0.6)
    assert second["steps_per_second"] == pytest.approx(2.0)
    assert second["waiting"] == pytest.approx(0.2)
    assert len(lines) == 2
    assert "3/6" in lines[0]
    assert "loss 2.0000" in lines[0]


def test_the_last_step_is_logged_however_short_the_run():
    lines: list[str] = []
    watcher = Watcher(TrainConfig(watch=WatchConfig(log_every=20)), None, lines.append)
    watcher.begin(0, 7)
    for step in range(1, 8):
        watcher.stepped(step, Step(torch.ones(len(NAMES)), gradient=1.0), 0.5, 0.0)
    assert len(lines) == 1
    assert "7/7" in lines[0]


def test_a_run_that_goes_on_says_so():
    lines: list[str] = []
    watcher = Watcher(TrainConfig(), None, lines.append)
    watcher.begin(0, 10)
    assert lines == []
    watcher.begin(4, 10)
    assert lines == ["resuming at step 4 of 10"]


def test_a_run_is_validated_as_often_as_asked(dataset, tmp_path):
    config = tiny_run(dataset.folders[0], steps=5)
    watch = WatchConfig(log_every=5, checkpoint_every=5, validate_every=2, validation_steps=1)
    config = replace(config, watch=watch)
    (tmp_path / "run").mkdir()
    watcher = Watcher(config, tmp_path / "run", lambda line: None, dataset[:3])
    trained(config, tmp_path / "run", watcher)
    logged = [entry for entry in entries(tmp_path / "run") if "validation" in entry]
    assert [entry["step"] for entry in logged] == [2, 4]
    for entry in logged:
        assert 0 < entry["validation"]["median"] <= 180
        assert 0 < entry["validation"]["mean"] <= 180
        assert "pairs 50%" in entry["validation"]


def test_validation_is_the_mean_error_of_the_model_given(dataset, tmp_path, monkeypatch):
    """A model that knows the solution makes no error; one that leaves a piece turned by 90 degrees does."""
    quarter = torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    pairs = [lumpy_example(i, 2, 12) for i in range(2)]

    def answered(turn: Tensor) -> dict[str, float]:
        solutions = iter([example.downsample(60).puzzle().solution for example in pairs])

        def sample(pieces, **options):
            solution = next(solutions)
            rotation = torch.stack([solution.rotation[0], turn @ solution.rotation[1]])
            return SE3(rotation, solution.translation)[None]

        config = tiny_run(dataset.folders[0])
        model = Eda(config.model)
        monkeypatch.setattr(model, "sample", sample)
        Watcher(config, tmp_path, lambda line: None, pairs).validate(1, model)
        return entries(tmp_path)[-1]["validation"]

    assert answered(torch.eye(3))["mean"] == pytest.approx(0, abs=0.1)
    assert answered(quarter)["mean"] > 20


def test_nobody_hears_of_a_run_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    watcher = silent(replace(TrainConfig(), watch=WatchConfig(log_every=1)))
    watcher.begin(0, 2)
    watcher.stepped(1, Step(torch.zeros(6), 1.0), 1.0, 0.0)
    watcher.report_trouble("none", 1)
    assert not list(tmp_path.iterdir())
