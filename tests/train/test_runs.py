"""A run begins with the weights it is given, goes on to the same bits after a kill, and leaves a model."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.small_datasets import tiny_run
from support.training_runs import ALONE, Killed, assert_same_bits, trained
from torch import Tensor

from eda import Eda, InputError
from eda.data.augment import Augmentation
from eda.train import Run, TrainConfig, Watcher
from eda.train.watch import Step

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


# What matches places, by its settings, and the modules that it adds.
MATCHING, ADDED = {"match_width": 8, "match_layers": 1}, ("network.matcher.", "network.motions.")


@pytest.mark.parametrize("settings", [{}, MATCHING])
def test_a_run_begins_with_the_weights_of_a_model(dataset, tmp_path, settings):
    config = with_network(timeless_run(dataset.folders[0]), **settings)
    config = replace(config, begin_with=saved(config, tmp_path / "old.safetensors"))
    run = Run(config, tmp_path, ALONE)
    for model in (run.model, run.averaged):
        assert model.state_dict().keys() == Eda(config.model).state_dict().keys()
        assert_weights(model, Eda(config.model, seed=11).state_dict())


def test_a_run_that_matches_places_may_begin_with_a_model_that_does_not(dataset, tmp_path):
    """What the model has is taken over, bit by bit; what is new is as the seed of the run makes it."""
    plain = timeless_run(dataset.folders[0])
    begun = replace(plain, begin_with=saved(plain, tmp_path / "old.safetensors"))
    config = with_network(begun, **MATCHING)
    run = Run(config, tmp_path, ALONE)
    old, new = Eda(plain.model, seed=11).state_dict(), Eda(config.model, seed=plain.seed).state_dict()
    for model in (run.model, run.averaged):
        assert model.config == config.model
        assert model.state_dict().keys() == new.keys()
        assert_weights(model, old)
        for prefix in ADDED:
            assert_weights(model, new, prefix)
    assert {name for name in new if not name.startswith(ADDED)} == old.keys()
    assert not torch.equal(old["network.embedding.weight"], new["network.embedding.weight"])


def test_a_run_keeps_its_own_settings_beside_the_weights_it_begins_with(dataset, tmp_path):
    plain = tiny_run(dataset.folders[0])
    begun = replace(plain, begin_with=saved(plain, tmp_path / "old.safetensors"))
    config = replace(begun, model=replace(begun.model, noise_std=0.123))
    assert Run(config, tmp_path, ALONE).model.config == config.model


OTHER_NETWORKS = {
    "other channels": ({}, {"channels": 4}),
    "other neighbours": ({}, {"num_neighbors": 5}),
    "no break head": ({"break_head": False}, {"match_width": 8}),
    "no break head in the recipe": ({}, {"break_head": False, "match_width": 8}),
    "other channels and new matches": ({}, {"channels": 4, "match_width": 8}),
    "other layers of matches": ({"match_width": 8, "match_layers": 1}, {"match_width": 8}),
    "other matches": ({"match_width": 8}, {"match_width": 12}),
    "matches that the recipe does without": ({"match_width": 8}, {}),
}


@pytest.mark.parametrize("name", OTHER_NETWORKS)
def test_a_run_does_not_begin_with_another_network(dataset, tmp_path, name):
    before, asked = (with_network(timeless_run(dataset.folders[0]), **settings) for settings in OTHER_NETWORKS[name])
    config = replace(asked, begin_with=saved(before, tmp_path / "old.safetensors"))
    with pytest.raises(InputError, match=r"old\.safetensors: its network is not the one of this recipe"):
        Run(config, tmp_path, ALONE)


def test_every_weight_that_matches_places_takes_part_in_a_step(dataset, tmp_path):
    run = Run(with_network(timeless_run(dataset.folders[0]), **MATCHING), tmp_path, ALONE)
    run.advance(run.loader.batches())
    assert all(p.grad is not None and p.grad.isfinite().all() for p in run.model.parameters())
    for prefix in ADDED:
        assert sum(float(p.grad.norm()) for n, p in run.model.named_parameters() if n.startswith(prefix)) > 0


# -- a run that was stopped --------------------------------------------------------------------------------


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
