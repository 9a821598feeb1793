"""The training loop against plain ones; exact resume; and what it does about trouble."""

import copy
import itertools
import json
import math
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from datasets import dataset_of, lumpy_example, tiny_run
from torch import Tensor

import eda.model
import eda.train.watch
from eda import SE3, Eda, InputError
from eda.data import Dataset
from eda.data.augment import Augmentation
from eda.data.loader import Batch
from eda.train import DataConfig, OptimizerConfig, Ranks, Run, TrainConfig, WatchConfig, Watcher, join, train
from eda.train.loop import Objective, learning_rate
from eda.train.watch import SPIKE, Step

ALONE = Ranks(0, 1, torch.device("cpu"))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    examples = [lumpy_example(i, 2 + i % 2, 24) for i in range(10)]
    return dataset_of(tmp_path_factory.mktemp("train") / "data", examples)


def silent(config: TrainConfig) -> Watcher:
    return Watcher(config, None, lambda line: None)


def trained(config: TrainConfig, folder: Path, watcher: Watcher | None = None) -> Run:
    folder.mkdir(exist_ok=True)
    return train(config, folder, ALONE, watcher or silent(config))


def numbers(run: Run) -> list[Tensor]:
    """All that training changes: the weights, their average, the optimiser."""
    states = run.optimizer.state_dict()["state"]
    moments = [states[index][name] for index in sorted(states) for name in sorted(states[index])]
    return [*run.model.state_dict().values(), *run.average.state_dict().values(), *moments]


def assert_same_bits(a: Run, b: Run) -> None:
    assert (a.step, a.used) == (b.step, b.used)
    for x, y in zip(numbers(a), numbers(b), strict=True):
        assert torch.equal(x, y)


def parameters(run: Run) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in run.model.parameters()]


def assert_close(a: list[Tensor], b: list[Tensor], atol: float) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


# -- one step ----------------------------------------------------------------------------------------------


def test_the_learning_rate_warms_up_and_falls_as_a_cosine():
    settings = OptimizerConfig(steps=110, lr=2.0, final_lr=0.1, warmup=10)
    rates = [learning_rate(settings, step) for step in range(111)]
    assert rates[:10] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0])
    assert rates[10] == 2.0
    assert rates[60] == pytest.approx((2.0 + 0.2) / 2)
    assert rates[35] == pytest.approx(0.2 + 1.8 * (1 + math.sqrt(0.5)) / 2)
    assert rates[110] == pytest.approx(0.2)
    assert learning_rate(settings, 500) == pytest.approx(0.2)
    assert all(a > b for a, b in itertools.pairwise(rates[10:]))
    assert learning_rate(OptimizerConfig(steps=4, lr=1.0, warmup=0), 0) == 1.0
    assert learning_rate(OptimizerConfig(steps=4, lr=1.0, warmup=9), 3) == pytest.approx(4 / 9)


def test_steps_are_those_of_a_plain_loop(dataset, tmp_path):
    """AdamW on clipped gradients at the scheduled rates, and the average of the weights by hand."""
    config = tiny_run(dataset.folders[0], steps=6, lr=0.01, clip=0.5, ema=0.8, weight_decay=0.3)
    run = Run(config, tmp_path, ALONE)
    model = copy.deepcopy(run.model)
    objective = Objective(model, config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.3)
    schedule = [0.01 / 3, 0.02 / 3, 0.01, 0.01, 0.0075, 0.0025]  # a warm-up of 3, then a cosine over 3
    mine, theirs = run.loader.batches(), run.loader.batches()
    average: list[Tensor] = []
    for number, rate in enumerate(schedule):
        made = run.advance(mine)
        run.accept()
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        parts = objective(next(theirs), number)
        parts[0].backward()
        norm = math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters()))
        for p in model.parameters():
            p.grad *= min(1.0, 0.5 / norm)
        optimizer.step()
        now = [p.detach().clone() for p in model.parameters()]
        average = now if not average else [0.8 * a + 0.2 * p for a, p in zip(average, now, strict=True)]
        torch.testing.assert_close(made.parts, parts.detach())
        assert made.gradient == pytest.approx(norm, rel=1e-4)
        assert norm > 0.5, "nothing to clip"
    assert_close(parameters(run), now, atol=1e-5)
    assert_close([p.detach() for p in run.averaged.parameters()], average, atol=1e-5)
    assert (run.step, run.used) == (6, 6)


def test_batches_have_noise_of_their_own_that_their_number_decides(dataset, tmp_path):
    run = Run(tiny_run(dataset.folders[0]), tmp_path, ALONE)
    batch = next(run.loader.batches())
    losses = [run.objective(batch, number)[0].item() for number in (0, 1, 0)]
    assert losses[0] == losses[2] != losses[1]
    other = Objective(run.model, replace(run.config, seed=4))
    assert other(batch, 0)[0].item() != losses[0]


def test_the_loss_is_told_all_that_is_known_of_a_batch(dataset, tmp_path, monkeypatch):
    config = tiny_run(dataset.folders[0])
    config = replace(config, data=replace(config.data, draws=3, augmentation=Augmentation(foreign=1.0)))
    run, calls = Run(config, tmp_path, ALONE), []
    loss = run.model.loss
    monkeypatch.setattr(run.model, "loss", lambda *a, **options: calls.append(options) or loss(*a, **options))
    batch = next(run.loader.batches())
    run.objective(batch, 0)
    assert calls[0]["draws"] == 3
    assert calls[0]["pyramid"] is batch.pyramid
    assert not batch.own.all()
    assert torch.equal(calls[0]["labels"].own, batch.own)
    assert torch.equal(calls[0]["labels"].on_break, batch.on_break)


def test_every_weight_takes_part_in_a_step_also_where_nobody_knows_the_breaks(dataset, tmp_path):
    """Processes that exchange gradients must agree on whose; a batch without labels changes no weight of the head."""
    config = tiny_run(dataset.folders[0])
    assert config.model.network.break_head
    run = Run(config, tmp_path, ALONE)
    batch = replace(next(run.loader.batches()), on_break=None)
    parts = run.objective(batch, 0)
    parts[0].backward()
    assert all(p.grad is not None for p in run.model.parameters())
    assert not any(p.grad.any() for p in run.model.network.breaks.parameters())
    assert float(parts[3].detach()) == 0


def test_every_weight_takes_part_in_a_step_also_without_draws_but_only_some_learn(dataset, tmp_path):
    """Of a network that matches places, what only the flow would teach has a gradient of zero."""
    config = tiny_run(dataset.folders[0])
    network = replace(config.model.network, match_width=8, match_mates=True, time_in_encoder=False)
    model, data = replace(config.model, network=network), replace(config.data, draws=0)
    run = Run(replace(config, model=model, data=data), tmp_path, ALONE)
    parts = run.objective(next(run.loader.batches()), 0)
    parts[0].backward()
    assert all(p.grad is not None for p in run.model.parameters())
    learned = {name.split(".")[1] for name, p in run.model.named_parameters() if p.grad.any()}
    assert learned == {"embedding", "down", "breaks", "matcher"}
    total, rotation, translation, breaks, matches, motions = parts.detach().tolist()
    assert rotation == translation == motions == 0
    assert total == pytest.approx(0.3 * breaks + matches)
    assert breaks > 0
    assert matches > 0


def noise_of(pieces, noise_std, *, samples, generator):
    """Noise that the pieces alone decide, so that it is the same in any batch."""
    first = pieces.points[pieces.sizes.cumsum(0) - pieces.sizes]
    return SE3.exp(torch.cat([3 * first, first], dim=-1))[None]


def test_accumulated_gradients_are_those_of_the_whole_batch(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(eda.model, "sample_noise", noise_of)
    monkeypatch.setitem(eda.model.TAU_SAMPLERS, "uniform", lambda count, generator: torch.full((count,), 0.4))
    config = tiny_run(dataset.folders[0], accumulate=3, clip=1e9)
    network = replace(config.model.network, break_head=False)  # whose loss is a mean over points, not over puzzles
    model, data = (
        replace(config.model, network=network, tau_sampler="uniform"),
        replace(config.data, points_per_batch=1),
    )
    config = replace(config, model=model, data=data)  # one puzzle in every batch
    run = Run(config, tmp_path, ALONE)
    batches = run.loader.batches()
    parts = [next(batches) for _ in range(3)]
    run.advance(iter(parts))
    accumulated = [p.grad.clone() for p in run.model.parameters()]
    run.model.zero_grad()
    run.objective(Batch.collate(parts), 0)[0].backward()
    whole = [p.grad for p in run.model.parameters()]
    assert_close(accumulated, whole, atol=1e-5 * max(float(gradient.abs().max()) for gradient in whole))
    assert run.used == 3


def test_reported_losses_are_the_means_of_a_step(dataset, tmp_path):
    run = Run(tiny_run(dataset.folders[0], accumulate=2), tmp_path, ALONE)
    batches = run.loader.batches()
    two = [next(batches) for _ in range(2)]
    expected = torch.stack([run.objective(batch, number).detach() for number, batch in enumerate(two)]).mean(0)
    torch.testing.assert_close(run.advance(iter(two)).parts, expected)


def test_mixed_precision_keeps_the_weights_as_they_are(dataset, tmp_path):
    run = trained(tiny_run(dataset.folders[0], steps=2, bfloat16=True), tmp_path / "run")
    assert {tensor.dtype for tensor in run.model.parameters()} == {torch.float32}
    assert all(bool(tensor.isfinite().all()) for tensor in numbers(run))


# -- a run -------------------------------------------------------------------------------------------------


def test_a_run_leaves_a_model_with_the_averaged_weights(dataset, tmp_path):
    run = trained(tiny_run(dataset.folders[0], steps=3), tmp_path / "run")
    loaded = Eda.load(tmp_path / "run" / "model.safetensors")
    assert loaded.config == run.config.model
    assert torch.equal(loaded.network.embedding.weight, run.averaged.network.embedding.weight)
    assert not torch.equal(loaded.network.embedding.weight, run.model.network.embedding.weight)


def test_a_run_that_is_done_stays_as_it_is(dataset, tmp_path):
    config = tiny_run(dataset.folders[0], steps=3)
    assert_same_bits(trained(config, tmp_path / "run"), trained(config, tmp_path / "run"))


# -- what a run begins with --------------------------------------------------------------------------------


def with_network(config: TrainConfig, **settings: object) -> TrainConfig:
    return replace(config, model=replace(config.model, network=replace(config.model.network, **settings)))


def saved(config: TrainConfig, path: Path) -> str:
    """Weights of another seed than the run's."""
    Eda(config.model, seed=11).save(path)
    return str(path)


def assert_weights(found: Eda, expected: dict[str, Tensor], what: str = "") -> None:
    """Those whose names begin with `what`; and there are some."""
    names = [name for name in expected if name.startswith(what)]
    assert names
    for name in names:
        assert torch.equal(found.state_dict()[name], expected[name]), name


def timeless_run(folder: Path) -> TrainConfig:
    """One whose encoder does not see tau, which matching asks for."""
    return with_network(tiny_run(folder), time_in_encoder=False)


# The paths between pieces, by settings, and the modules that they add.
PATHS = {
    "pairs": ({"pair_width": 8, "pair_layers": 1}, ("network.pairs.",)),
    "matches": ({"match_width": 8, "match_layers": 1}, ("network.matcher.", "network.motions.")),
    "both": ({"pair_width": 8, "match_width": 8}, ("network.pairs.", "network.matcher.", "network.motions.")),
}


@pytest.mark.parametrize("paths", [{}, *(settings for settings, _ in PATHS.values())])
def test_a_run_begins_with_the_weights_of_a_model(dataset, tmp_path, paths):
    config = with_network(timeless_run(dataset.folders[0]), **paths)
    config = replace(config, begin_with=saved(config, tmp_path / "old.safetensors"))
    run = Run(config, tmp_path, ALONE)
    for model in (run.model, run.averaged):
        assert model.state_dict().keys() == Eda(config.model).state_dict().keys()
        assert_weights(model, Eda(config.model, seed=11).state_dict())


@pytest.mark.parametrize("name", PATHS)
def test_a_run_with_a_path_between_pieces_may_begin_with_a_model_without(dataset, tmp_path, name):
    """What the model has is taken over, bit by bit; what is new is as the seed of the run makes it."""
    plain = timeless_run(dataset.folders[0])
    begun = replace(plain, begin_with=saved(plain, tmp_path / "old.safetensors"))
    settings, added = PATHS[name]
    config = with_network(begun, **settings)
    run = Run(config, tmp_path, ALONE)
    old, new = Eda(plain.model, seed=11).state_dict(), Eda(config.model, seed=plain.seed).state_dict()
    for model in (run.model, run.averaged):
        assert model.config == config.model
        assert model.state_dict().keys() == new.keys()
        assert_weights(model, old)
        for prefix in added:
            assert_weights(model, new, prefix)
    assert {name for name in new if not name.startswith(added)} == old.keys()
    assert not torch.equal(old["network.embedding.weight"], new["network.embedding.weight"])


def test_a_run_keeps_its_own_settings_beside_the_weights_it_begins_with(dataset, tmp_path):
    plain = tiny_run(dataset.folders[0])
    begun = replace(plain, begin_with=saved(plain, tmp_path / "old.safetensors"))
    config = replace(begun, model=replace(begun.model, noise_std=0.123))
    assert Run(config, tmp_path, ALONE).model.config == config.model


OTHER_NETWORKS = {
    "other channels": ({}, {"channels": 4}),
    "other neighbours": ({}, {"num_neighbors": 5}),
    "no break head": ({"break_head": False}, {"pair_width": 8}),
    "no break head in the recipe": ({}, {"break_head": False, "pair_width": 8}),
    "other channels and new pairs": ({}, {"channels": 4, "pair_width": 8}),
    "other pairs": ({"pair_width": 8}, {"pair_width": 12}),
    "other layers of pairs": ({"pair_width": 8, "pair_layers": 1}, {"pair_width": 8}),
    "pairs that the recipe does without": ({"pair_width": 8}, {}),
    "other matches": ({"match_width": 8}, {"match_width": 12}),
    "matches that the recipe does without": ({"match_width": 8}, {"pair_width": 8}),
}


@pytest.mark.parametrize("name", OTHER_NETWORKS)
def test_a_run_does_not_begin_with_another_network(dataset, tmp_path, name):
    before, asked = (with_network(timeless_run(dataset.folders[0]), **settings) for settings in OTHER_NETWORKS[name])
    config = replace(asked, begin_with=saved(before, tmp_path / "old.safetensors"))
    with pytest.raises(InputError, match=r"old\.safetensors: its network is not the one of this recipe"):
        Run(config, tmp_path, ALONE)


@pytest.mark.parametrize("name", PATHS)
def test_every_weight_of_a_path_between_pieces_takes_part_in_a_step(dataset, tmp_path, name):
    settings, added = PATHS[name]
    run = Run(with_network(timeless_run(dataset.folders[0]), **settings), tmp_path, ALONE)
    run.advance(run.loader.batches())
    assert all(p.grad is not None and p.grad.isfinite().all() for p in run.model.parameters())
    for prefix in added:
        assert sum(float(p.grad.norm()) for n, p in run.model.named_parameters() if n.startswith(prefix)) > 0


# -- a run that was stopped --------------------------------------------------------------------------------


class Killed(BaseException):
    """Ends a run at once, as a kill does."""


class Killer(Watcher):
    """Kills the run after a step."""

    def __init__(self, config: TrainConfig, at: int) -> None:
        super().__init__(config, None, lambda line: None)
        self._at = at

    def stepped(self, step: int, made: Step, seconds: float, waited: float) -> None:
        if step == self._at:
            raise Killed


def changed(config: TrainConfig) -> TrainConfig:
    """Everything that could go wrong with exactness: chance, a curriculum, several draws and batches a step."""
    data = replace(config.data, augmentation=Augmentation(0.7, 0.3, 0.3), max_pieces=(2, 4), draws=2)
    return replace(config, data=data, optimizer=replace(config.optimizer, accumulate=2))


def test_a_run_that_was_killed_ends_in_the_same_bits(dataset, tmp_path):
    """Killed after 2 steps, it begins anew; killed after 5, it goes on from the 3rd."""
    config = changed(tiny_run(dataset.folders[0], steps=8))
    for at, kept in [(2, 0), (5, 3)]:
        with pytest.raises(Killed):
            trained(config, tmp_path / "killed", Killer(config, at))
        assert Run(config, tmp_path / "killed", ALONE).step == kept
    assert_same_bits(trained(config, tmp_path / "killed"), trained(config, tmp_path / "at once"))


# -- signals -----------------------------------------------------------------------------------------------


class Signaller(Watcher):
    """Sends signals to the process after the 2nd step."""

    def __init__(self, config: TrainConfig, *numbers: int) -> None:
        super().__init__(config, None, lambda line: None)
        self._numbers = numbers

    def stepped(self, step: int, made: Step, seconds: float, waited: float) -> None:
        if step == 2:
            for number in self._numbers:
                os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_after_its_step_with_its_state_saved(dataset, tmp_path, number):
    config = tiny_run(dataset.folders[0], steps=50)
    before = signal.getsignal(number)
    run = trained(config, tmp_path / "run", Signaller(config, number))
    assert run.step == 2
    assert signal.getsignal(number) is before
    assert_same_bits(run, Run(config, tmp_path / "run", ALONE))
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_a_second_signal_interrupts_at_once(dataset, tmp_path):
    config = tiny_run(dataset.folders[0], steps=50)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        trained(config, tmp_path / "run", Signaller(config, signal.SIGINT, signal.SIGINT))
    assert signal.getsignal(signal.SIGINT) is before


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
    monkeypatch.setattr(eda.train.watch, "_REMEMBERED", 4)
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
        return next(self.model.parameters()).sum() * torch.tensor([torch.nan] * 4)

    monkeypatch.setattr(Objective, "forward", always)
    with pytest.raises(InputError):
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


def test_a_run_that_goes_on_says_so():
    lines: list[str] = []
    watcher = Watcher(TrainConfig(), None, lines.append)
    watcher.begin(0, 10)
    assert lines == []
    watcher.begin(4, 10)
    assert lines == ["going on from step 4 of 10"]


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
        solutions = iter([example.thinned(60).puzzle().solution for example in pairs])

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


# -- one process -------------------------------------------------------------------------------------------


def test_one_process_is_its_own_mean():
    values = torch.tensor([1.0, 2.0])
    assert ALONE.mean(values) is values
    assert ALONE.any(True) is True
    assert ALONE.any(False) is False


def test_without_torchrun_there_is_one_process(monkeypatch):
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with join("cpu") as ranks:
        assert (ranks.rank, ranks.world, ranks.device) == (0, 1, torch.device("cpu"))


def test_the_data_of_a_run_are_those_of_its_config(dataset, tmp_path):
    config = tiny_run(dataset.folders[0])
    data = DataConfig(str(dataset.folders[0]), points_per_batch=77, max_pieces=(3, 5), workers=2)
    run = Run(replace(config, data=data, model=replace(config.model, num_points=33)), tmp_path, ALONE)
    plan, graphs = run.loader.plan, run.loader.graphs
    assert (plan.points_per_example, plan.points_per_batch, plan.max_pieces, plan.seed) == (33, 77, (3, 5), 3)
    assert (graphs.num_levels, graphs.ratio, graphs.num_neighbors, graphs.num_nearest) == (1, 0.25, 4, 1)
    assert run.loader.workers == 2
    assert run.loader.augmentation == Augmentation()
