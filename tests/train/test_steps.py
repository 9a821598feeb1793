"""The steps of the training loop are those of a plain one, and every weight takes part in them."""

import copy
import itertools
import math
from dataclasses import replace

import pytest
import torch
from support.small_datasets import tiny_run
from support.training_runs import ALONE, numbers, trained
from torch import Tensor

from eda import SE3
from eda.data.augment import Augmentation
from eda.data.storage.loader import Batch
from eda.flow import NOISES, TAU_SAMPLERS
from eda.train import DataConfig, OptimizerConfig, Run, join
from eda.train.loop import Objective, learning_rate


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


def parameters(run: Run) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in run.model.parameters()]


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


def test_mixed_precision_keeps_the_weights_as_they_are(dataset, tmp_path):
    run = trained(tiny_run(dataset.folders[0], steps=2, bfloat16=True), tmp_path / "run")
    assert {tensor.dtype for tensor in run.model.parameters()} == {torch.float32}
    assert all(bool(tensor.isfinite().all()) for tensor in numbers(run))


# -- who takes part ----------------------------------------------------------------------------------------


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
    network = replace(config.model.network, match_width=8, matching="complementary", time_in_encoder=False)
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


# -- several batches a step --------------------------------------------------------------------------------


def noise_of(pieces, noise_std, *, samples, generator):
    """Noise that the pieces alone decide, so that it is the same in any batch."""
    first = pieces.points[pieces.sizes.cumsum(0) - pieces.sizes]
    return SE3.exp(torch.cat([3 * first, first], dim=-1))[None]


def test_accumulated_gradients_are_those_of_the_whole_batch(dataset, tmp_path, monkeypatch):
    monkeypatch.setitem(NOISES, "haar_gaussian", noise_of)
    monkeypatch.setitem(TAU_SAMPLERS, "uniform", lambda count, generator: torch.full((count,), 0.4))
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
