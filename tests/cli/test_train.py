"""`eda train`: real commands that are killed, interrupted and go on; and what it refuses."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file
from support.commands import run_command
from support.full_disk import full_disk
from support.small_datasets import command_of, dataset_of, lumpy_example, tiny_run
from typer.testing import CliRunner

import eda.cli
import eda.train
from eda import Eda, InputError
from eda.data import Dataset
from eda.folder_lock import FolderLock
from eda.recipes import RECIPES
from eda.train import Ranks, TrainConfig, Watcher

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
STATE = "state.safetensors"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    folder = tmp_path_factory.mktemp("train cli")
    return dataset_of(folder / "data", [lumpy_example(i, 2 + i % 2, 24) for i in range(6)])


def words_for(dataset: Dataset, out: Path, *more: object, steps: int) -> list[str]:
    return ["train", *command_of(tiny_run(dataset.folders[0], steps=steps)), "--out", str(out), *map(str, more)]


def invoke(*words: object):
    return CliRunner().invoke(eda.cli.app, [str(word) for word in words])


# -- killed and interrupted --------------------------------------------------------------------------------


def sent_after(words: list[str], folder: Path, step: int, number: signal.Signals) -> tuple[int, str, str]:
    """The command in a process of its own, which gets a signal after a step. -> exit code, stdout, stderr.

    The signal reaches the whole group, as Ctrl-C does: also the process that loads data.
    """
    command = [sys.executable, "-m", "eda.cli", *words, "--threads", "1"]
    process = subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 300
    while process.poll() is None and max(logged_steps(folder), default=0) < step and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(process.pid, number)
    said, complaints = process.communicate(timeout=300)
    return process.returncode, said, complaints


def logged_steps(folder: Path) -> list[int]:
    log = folder / "log.jsonl"
    return [json.loads(line)["step"] for line in log.read_text().splitlines()] if log.is_file() else []


def progress_of(folder: Path) -> dict[str, int]:
    with safe_open(folder / STATE, framework="pt") as file:
        return json.loads(file.metadata()["progress"])


def long_run(dataset: Dataset, folder: Path) -> list[str]:
    return words_for(dataset, folder, "--set", "data.workers=1", steps=25)


@pytest.fixture(scope="module")
def killed(dataset, tmp_path_factory) -> Path:
    """The folder of a run that was killed after about 5 of its 25 steps."""
    folder = tmp_path_factory.mktemp("killed")
    code, _, complaints = sent_after(long_run(dataset, folder), folder, 5, signal.SIGKILL)
    assert code == -signal.SIGKILL, complaints
    assert 3 <= progress_of(folder)["step"] <= max(logged_steps(folder)) < 25
    return folder


@pytest.fixture(scope="module")
def interrupted(dataset, killed) -> Path:
    """The same folder, after the run has gone on and was interrupted."""
    saved, reached = progress_of(killed)["step"], max(logged_steps(killed))
    code, said, complaints = sent_after(long_run(dataset, killed), killed, reached + 2, signal.SIGINT)
    assert (code, complaints) == (4, ""), "stopped, neither done nor failed"
    assert f"resuming at step {saved} of 25" in said
    assert "of 25; run the same command again to go on" in said.splitlines()[-1]
    return killed


def test_an_interrupted_run_has_saved_its_last_step(interrupted):
    step = logged_steps(interrupted)[-1]
    assert progress_of(interrupted) == {"step": step, "used": step}
    assert 5 < step < 25
    assert Eda.load(interrupted / "model.safetensors").config.noise_std == 0.5


def test_a_run_that_was_killed_and_interrupted_ends_in_the_same_bits(dataset, interrupted, tmp_path):
    for folder in (interrupted, tmp_path):
        result = invoke(*long_run(dataset, folder))
        assert result.exit_code == 0, result.exception
    ends = [load_file(folder / STATE) for folder in (interrupted, tmp_path)]
    assert ends[0].keys() == ends[1].keys()
    assert [name for name in ends[0] if not torch.equal(ends[0][name], ends[1][name])] == []
    assert {name.split(".")[0] for name in ends[0]} == {"model", "average", "optimizer"}
    assert progress_of(interrupted) == progress_of(tmp_path) == {"step": 25, "used": 25}


# -- the folder of a run -----------------------------------------------------------------------------------


@pytest.fixture
def no_training(monkeypatch) -> list[TrainConfig]:
    """Training does nothing; gives the configs that it was called with."""
    calls: list[TrainConfig] = []

    def train(config: TrainConfig, folder: Path, ranks: Ranks, watcher: Watcher) -> SimpleNamespace:
        calls.append(config)
        return SimpleNamespace(done=True)

    monkeypatch.setattr(eda.train, "train", train)
    return calls


def test_the_command_runs_what_it_was_told(dataset, tmp_path, no_training):
    result = invoke(
        "train", "kitti-3", "--data", dataset.folders[0], "--out", tmp_path / "a/b", "--set", "optimizer.lr=0.5"
    )
    assert result.exit_code == 0, result.exception
    expected = RECIPES["kitti-3"]()
    expected = dataclasses.replace(
        expected,
        data=dataclasses.replace(expected.data, train=str(dataset.folders[0])),
        optimizer=dataclasses.replace(expected.optimizer, lr=0.5),
    )
    assert no_training == [expected]
    record = json.loads((tmp_path / "a/b/config.json").read_text())
    assert TrainConfig.from_dict(record["config"]) == expected
    assert record["versions"].keys() == {"eda", "torch", "numpy", "python"}
    assert record["command"]


def test_the_folder_of_another_run_is_refused(dataset, tmp_path, no_training):
    def run(*more: str):
        return invoke("train", "kitti-3", "--data", dataset.folders[0], "--out", tmp_path / "run", *more)

    assert run().exit_code == 0
    before = (tmp_path / "run" / "config.json").read_bytes()
    for setting, changed in [("optimizer.lr=0.5", "optimizer"), ("seed=5", "seed"), ("data.draws=9", "data")]:
        error = run("--set", setting).exception
        assert isinstance(error, InputError)
        assert f"another {changed}; choose another folder" in str(error)
    assert (tmp_path / "run" / "config.json").read_bytes() == before
    assert run("--set", "watch.log_every=7").exit_code == 0, "how often one hears of a run may change"
    assert len(no_training) == 2


def test_a_run_of_before_settings_were_renamed_goes_on(dataset, tmp_path, no_training):
    given = ("train", "kitti-3", "--data", dataset.folders[0], "--out", tmp_path)
    assert invoke(*given).exit_code == 0
    record = json.loads((tmp_path / "config.json").read_text())
    network = record["config"]["model"]["network"]
    del network["matching"]
    network |= {"match_mates": False, "pair_width": 0, "pair_level": 1, "pair_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps(record))
    assert invoke(*given).exit_code == 0
    network["pair_width"] = 8
    (tmp_path / "config.json").write_text(json.dumps(record))
    error = invoke(*given).exception
    assert isinstance(error, InputError)
    assert f"{tmp_path}: holds a run with other settings (pair_width is 8" in str(error)


@pytest.mark.parametrize("record", [b"{", b"{}", b"\xff"])
def test_a_record_that_cannot_be_read_is_an_input_error(dataset, tmp_path, no_training, record):
    (tmp_path / "config.json").write_bytes(record)
    error = invoke("train", "kitti-3", "--data", dataset.folders[0], "--out", tmp_path).exception
    assert isinstance(error, InputError)
    assert str(tmp_path) in str(error)
    assert (tmp_path / "config.json").read_bytes() == record


@pytest.mark.parametrize("record", [b"[]", b'{"config": 3}'])
def test_a_record_of_another_form_is_an_input_error(dataset, tmp_path, no_training, record):
    (tmp_path / "config.json").write_bytes(record)
    error = invoke("train", "kitti-3", "--data", dataset.folders[0], "--out", tmp_path).exception
    assert isinstance(error, InputError)


def test_a_folder_that_cannot_be_made_is_an_input_error(dataset, tmp_path):
    (tmp_path / "file").write_bytes(b"mine")
    error = invoke("train", "kitti-3", "--data", dataset.folders[0], "--out", tmp_path / "file" / "run").exception
    assert isinstance(error, InputError)
    assert str(error).startswith(f"{tmp_path / 'file' / 'run'}: cannot be created")


# -- one run at a time -------------------------------------------------------------------------------------


def test_a_folder_in_which_another_run_works_is_refused(dataset, tmp_path):
    (tmp_path / "run").mkdir()
    words = words_for(dataset, tmp_path / "run", steps=1)
    with FolderLock(tmp_path / "run"):
        result = run_command(*words)
        assert (result.returncode, list((tmp_path / "run").iterdir())) == (2, [])
        assert result.stderr.count("\n") == 1
        assert f"{tmp_path / 'run'}: another process ({os.getpid()}) is writing there" in result.stderr
    assert invoke(*words).exit_code == 0


def test_a_run_keeps_others_out_of_its_folder_until_it_ends(dataset, tmp_path, monkeypatch):
    tried = []

    def train(config: TrainConfig, folder: Path, ranks: Ranks, watcher: Watcher) -> SimpleNamespace:
        with pytest.raises(InputError, match="is writing there"), FolderLock(folder):
            pass
        tried.append(folder)
        return SimpleNamespace(done=True)

    monkeypatch.setattr(eda.train, "train", train)
    assert invoke(*words_for(dataset, tmp_path / "run", steps=1)).exit_code == 0
    assert tried == [tmp_path / "run"]
    with FolderLock(tmp_path / "run"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["run"], "the lock leaves nothing behind"


def test_what_killed_runs_left_half_written_is_removed(dataset, tmp_path, no_training):
    left = tmp_path / f".{STATE}.12345.eda-partial"
    left.write_bytes(b"half")
    (tmp_path / "notes.partial").write_bytes(b"mine")
    assert invoke("train", "kitti-3", "--data", dataset.folders[0], "--out", tmp_path).exit_code == 0
    assert not left.exists()
    assert (tmp_path / "notes.partial").exists()


# -- damage and full disks ---------------------------------------------------------------------------------


def flip_last_bit(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def test_a_damaged_state_is_reported_and_the_one_before_is_used(dataset, tmp_path):
    """After steps 3 and 4 were saved: step 4 is made again, to the same bits."""
    words = words_for(dataset, tmp_path, steps=4)
    assert invoke(*words).exit_code == 0
    good = (tmp_path / STATE).read_bytes()
    flip_last_bit(tmp_path / STATE)
    result = invoke(*words)
    assert result.exit_code == 0, result.exception
    assert f"{STATE} is damaged; went back to the state before it, of step 3" in result.output
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [entry for entry in logged if "damaged" in entry] == [{"step": 3, "damaged": STATE}]
    assert (tmp_path / STATE).read_bytes() == good


def test_two_damaged_states_are_an_input_error_and_stay(dataset, tmp_path):
    words = words_for(dataset, tmp_path, steps=4)
    assert invoke(*words).exit_code == 0
    states = [tmp_path / STATE, tmp_path / "state.before.safetensors"]
    for path in states:
        flip_last_bit(path)
    error = invoke(*words).exception
    assert isinstance(error, InputError)
    assert "the saved state is damaged" in str(error)
    assert all(path.is_file() for path in states)


# File -> the state that is there when it cannot be written: validation and the log come with every step.
UNWRITABLE = {
    STATE: None,
    "model.safetensors": 3,
    "config.json": None,
    "assemblies-0000002.png": None,
    "assemblies-0000004.png": 3,
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_a_full_disk_is_told_in_a_sentence_and_the_run_goes_on_later(dataset, tmp_path, monkeypatch, name):
    words = words_for(
        dataset, tmp_path / "run", "--validation", dataset.folders[0], "--set", "watch.validate_every=2",
        "--set", "watch.validation_puzzles=1", "--set", "watch.validation_steps=1", steps=5,
    )  # fmt: skip
    write = Path.write_bytes

    def write_or_fail(self: Path, content: bytes) -> int:
        return (full_disk if self.name.startswith(f".{name}.") else write)(self, content)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", write_or_fail)
        result = invoke(*words)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit), result.exception
    (sentence,) = result.stderr.splitlines()
    assert sentence.startswith(f"eda: {tmp_path / 'run'}")
    assert "cannot be written (No space left on device)" in sentence
    assert sentence.endswith("free some space and run the same command again")
    saved = UNWRITABLE[name]
    assert (tmp_path / "run" / STATE).is_file() == (saved is not None)
    assert saved is None or progress_of(tmp_path / "run")["step"] == saved
    assert not list((tmp_path / "run").glob(".*"))
    assert invoke(*words).exit_code == 0
    assert progress_of(tmp_path / "run")["step"] == 5


def test_a_log_on_a_full_disk_is_told_in_a_sentence(dataset, tmp_path):
    (tmp_path / "log.jsonl").symlink_to("/dev/full")
    result = invoke(*words_for(dataset, tmp_path, steps=5))
    assert result.exit_code == 1
    assert f"eda: {tmp_path / 'log.jsonl'}: cannot be written (No space left on device)" in result.stderr


def test_a_terminal_on_a_full_disk_is_told_in_a_sentence(dataset, tmp_path):
    words = [sys.executable, "-m", "eda.cli", *words_for(dataset, tmp_path, steps=5)]
    with open("/dev/full", "w") as full:
        result = subprocess.run(words, env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 1
    (sentence,) = result.stderr.splitlines()
    assert sentence.startswith("eda: standard output: cannot be written (No space left on device)")


def test_a_folder_that_may_not_be_written_to_is_an_input_error(dataset, tmp_path, monkeypatch):
    def forbidden(self: Path, content: bytes) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_bytes", forbidden)
    error = invoke(*words_for(dataset, tmp_path, steps=1)).exception
    assert isinstance(error, InputError)
    assert "cannot be used as the folder of a run" in str(error)


# -- what is refused ---------------------------------------------------------------------------------------


def test_recipes_are_listed_with_what_they_are():
    result = invoke("train", "list")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert [line.split()[0] for line in lines] == list(RECIPES)
    assert all(recipe.__doc__.strip() in line for recipe, line in zip(RECIPES.values(), lines, strict=True))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mystery", "--out", "run"], "the recipe 'mystery' is not known here .there are breaking-bad"),
        (["kitti-3"], "no folder for the run: give one with --out"),
        (["kitti-3", "--out", "run"], "no dataset to train on.*--data"),
        (["kitti-3", "--out", "run", "--data", "x", "--set", "optimizer.rate=1"], "no setting 'optimizer.rate'"),
        (["kitti-3", "--out", "run", "--data", "nowhere"], "nowhere: not a dataset"),
        (["kitti-3", "--out", "run", "--data", "data", "--validation", "nowhere"], "nowhere: not a dataset"),
    ],
)
def test_what_cannot_be_run_is_an_input_error(dataset, monkeypatch, tmp_path, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(dataset.folders[0])
    error = invoke("train", *words).exception
    assert isinstance(error, InputError), error
    with pytest.raises(InputError, match=message):
        raise error


def test_a_dataset_whose_name_is_a_number_is_found(dataset, monkeypatch, tmp_path, no_training):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "2024").symlink_to(dataset.folders[0])
    assert invoke("train", "kitti-3", "--out", "run", "--data", "2024").exit_code == 0
    assert no_training[0].data.train == "2024"


def test_an_unknown_device_is_an_input_error(dataset, tmp_path, no_training):
    error = invoke(*words_for(dataset, tmp_path / "run", "--device", "abacus", steps=1)).exception
    assert isinstance(error, InputError)


def test_validation_is_on_the_dataset_given(dataset, tmp_path):
    words = words_for(
        dataset, tmp_path / "run", "--validation", dataset.folders[0], "--set", "watch.validate_every=1",
        "--set", "watch.validation_puzzles=2", "--set", "watch.validation_steps=1", steps=1,
    )  # fmt: skip
    result = invoke(*words)
    assert result.exit_code == 0, result.exception
    assert "validation: mean" in result.output


def test_assemblies_are_drawn_as_often_as_they_are_validated(dataset, tmp_path):
    words = words_for(
        dataset, tmp_path / "run", "--validation", dataset.folders[0], "--set", "watch.validate_every=2",
        "--set", "watch.validation_puzzles=1", "--set", "watch.validation_steps=1", steps=2,
    )  # fmt: skip
    assert invoke(*words).exit_code == 0
    (picture,) = (tmp_path / "run").glob("*.png")
    assert picture.name == "assemblies-0000002.png"
    with Image.open(picture) as page:
        shade = np.asarray(page.convert("L"), dtype=float)
    left, right = np.array_split(shade, 2, axis=1)
    assert left.std() > 5, "the puzzle as it is"
    assert right.std() > 5, "the puzzle as sampled"
    assert np.abs(left - right).mean() > 0.5, "which an untrained model does not find"


@pytest.mark.parametrize("what", ["--data", "--validation", "--begin-with"])
def test_a_run_that_cannot_begin_leaves_nothing_behind(dataset, tmp_path, what):
    given = {"--data": dataset.folders[0], what: tmp_path / "nowhere"}
    words = [word for pair in given.items() for word in pair]
    error = invoke("train", "kitti-3", *words, "--out", tmp_path / "run").exception
    assert isinstance(error, InputError)
    assert not (tmp_path / "run").exists()
