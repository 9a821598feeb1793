"""Two processes make the steps that one makes with twice as many batches a step."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed
from safetensors.torch import load_file, save_file
from support.small_datasets import command_of, dataset_of, lumpy_example, tiny_run
from support.soft_matches import MATCHED

import eda.cli
import eda.train
from eda import Eda
from eda.data import Dataset
from eda.train import Ranks, Run, TrainConfig, Watcher
from eda.train.loop import Objective

STEPS = 3
SPOILED = 5  # the number of a batch whose loss is not a number: of the second process, in its second step


def config_of(dataset: Path, accumulate: int) -> TrainConfig:
    return tiny_run(dataset, steps=STEPS, accumulate=accumulate)


def matching_config(config: TrainConfig, draws: int) -> TrainConfig:
    """Two steps of a network that matches places, too; what learns nothing stays as it is."""
    network = replace(config.model.network, matching="complementary", **MATCHED)
    optimizer = replace(config.optimizer, steps=2, accumulate=1, weight_decay=0.0, warmup=0)
    return replace(
        config,
        model=replace(config.model, network=network),
        optimizer=optimizer,
        data=replace(config.data, draws=draws),
    )


def with_a_spoiled_batch(forward):
    def spoiled(self, batch, number):
        return forward(self, batch, number) * (torch.nan if number == SPOILED else 1)

    return spoiled


def take_part(words: list[str]) -> None:
    """What each of the processes does: the command, and then to write down the weights that it ends with."""
    Objective.forward = with_a_spoiled_batch(Objective.forward)
    training = eda.train.train

    def written_down(config: TrainConfig, folder: Path, ranks: Ranks, watcher: Watcher) -> Run:
        run = training(config, folder, ranks, watcher)
        save_file(dict(run.model.state_dict()), folder / f"rank {ranks.rank} of {ranks.world}.safetensors")
        answers = {"mean": ranks.mean(torch.tensor([ranks.rank, 7.0])), "any": torch.tensor(ranks.any(ranks.rank == 1))}
        save_file({**answers, "none": torch.tensor(ranks.any(False))}, folder / f"answers {ranks.rank}.safetensors")
        for draws in (0, 1):
            other = matching_config(config, draws)
            where = folder / f"{draws} draws"
            where.mkdir(exist_ok=True)
            matched = training(other, where, ranks, Watcher(other, None, lambda line: None))
            save_file(dict(matched.model.state_dict()), where / f"rank {ranks.rank}.safetensors")
        return run

    eda.train.train = written_down
    eda.cli.app(words, standalone_mode=False)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    """Enough for every step to have batches of the first epoch."""
    folder = tmp_path_factory.mktemp("distributed") / "data"
    return dataset_of(folder, [lumpy_example(i, 2, 30) for i in range(40)], shard_size=8)


@pytest.fixture(scope="module")
def two_processes(dataset, tmp_path_factory) -> Path:
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("this build of torch has no gloo, which connects processes on CPUs")
    folder = tmp_path_factory.mktemp("two")
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = ["train", *command_of(config_of(dataset.folders[0], accumulate=2)), "--out", str(folder), "--threads", "1"]
    result = subprocess.run(
        [*torchrun, __file__, *words],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "find_unused_parameters" not in result.stderr
    return folder


@pytest.fixture(scope="module")
def one_process(dataset, tmp_path_factory) -> Run:
    config = config_of(dataset.folders[0], accumulate=4)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Objective, "forward", with_a_spoiled_batch(Objective.forward))
        folder = tmp_path_factory.mktemp("one")
        alone = Ranks(0, 1, torch.device("cpu"))
        return eda.train.train(config, folder, alone, Watcher(config, None, lambda line: None))


def test_processes_end_with_the_same_weights(two_processes):
    first, second = (load_file(two_processes / f"rank {rank} of 2.safetensors") for rank in (0, 1))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_processes_know_of_each_other(two_processes):
    for rank in (0, 1):
        answers = load_file(two_processes / f"answers {rank}.safetensors")
        assert answers["mean"].tolist() == [0.5, 7.0]
        assert bool(answers["any"]), "one of them was asked to stop, so both stop"
        assert not bool(answers["none"])


def test_two_processes_make_the_steps_of_one(two_processes, one_process):
    """Also after a batch of one of them had to be left out. Sums of gradients are in another order."""
    weights = load_file(two_processes / "rank 0 of 2.safetensors")
    assert one_process.step == STEPS
    assert one_process.used == 4 * (STEPS + 1)
    for name, expected in one_process.model.state_dict().items():
        assert (weights[name] - expected).norm() <= 1e-6 * expected.norm(), name
    begin = Eda(one_process.config.model, seed=one_process.config.seed).state_dict()
    assert not any(torch.equal(begin[name], weights[name]) for name in weights)


def test_the_first_process_saves_the_state_of_all(two_processes, one_process):
    run = Run(config_of(Path(one_process.config.data.train), 2), two_processes, Ranks(0, 1, torch.device("cpu")))
    assert (run.step, run.used) == (STEPS, 2 * (STEPS + 1))
    weights = load_file(two_processes / "rank 1 of 2.safetensors")
    assert all(torch.equal(tensor, weights[name]) for name, tensor in run.model.state_dict().items())


@pytest.mark.parametrize("draws", [0, 1])
def test_processes_agree_on_whose_gradients_they_exchange_also_without_draws(two_processes, dataset, draws):
    """A network that matches places; without draws, what only the flow would teach is as it was in the beginning."""
    first, second = (load_file(two_processes / f"{draws} draws" / f"rank {rank}.safetensors") for rank in (0, 1))
    assert all(torch.equal(first[name], second[name]) for name in first)
    config = matching_config(config_of(dataset.folders[0], accumulate=2), draws)
    begin = Eda(config.model, seed=config.seed).state_dict()
    assert begin.keys() == first.keys()
    learned = {name.split(".")[1] for name in begin if not torch.equal(begin[name], first[name])}
    beside = {"embedding", "down", "matcher", "breaks"}
    assert learned == (beside | {"time", "croco", "head", "motions"} if draws else beside)


if __name__ == "__main__":
    take_part(sys.argv[1:])
