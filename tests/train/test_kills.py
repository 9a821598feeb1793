"""A run that is killed in the middle of a checkpoint goes on to the same bits."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from safetensors.torch import load_file
from support.small_datasets import command_of, tiny_run
from typer.testing import CliRunner

import eda.cli

TESTS = Path(__file__).parents[1]
STEPS = 7  # the state is saved after 3, 6 and 7


def kill_half_written(prefix: str, number: int) -> None:
    """Die by SIGKILL when half of the `number`-th file of that name is written."""
    write, left = Path.write_bytes, [number]

    def half(self: Path, content: bytes) -> int:
        left[0] -= self.name.startswith(f".{prefix}.")
        if left[0]:
            return write(self, content)
        write(self, content[: len(content) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("killed before")

    Path.write_bytes = half  # type: ignore[method-assign]


def kill_before_rename(to: str, number: int) -> None:
    """Die by SIGKILL before a file gets that name for the `number`-th time."""
    replace, left = os.replace, [number]

    def replace_or_die(source: Path, target: Path) -> None:
        left[0] -= Path(target).name == to
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)

    os.replace = replace_or_die  # type: ignore[assignment]


LAST, PREVIOUS, MODEL = "state.safetensors", "state.before.safetensors", "model.safetensors"

# Moments of one run, each where the one before has left it -> what kills it, and the names that are then in the folder.
MOMENTS: dict[str, tuple[Callable[[], None], set[str]]] = {
    "half of the second state": (lambda: kill_half_written(LAST, 2), {LAST, MODEL, "partial"}),
    "the new state without its name": (lambda: kill_before_rename(LAST, 1), {PREVIOUS, MODEL, "partial"}),
    "half of the model": (lambda: kill_half_written(MODEL, 1), {LAST, PREVIOUS, MODEL, "partial"}),
}


def killed_at(moment: str, words: list[str]) -> subprocess.CompletedProcess:
    """The command in a process of its own, up to that moment."""
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, __file__, moment, *words], env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def names_in(folder: Path) -> set[str]:
    found = {"partial" if path.name.endswith("partial") else path.name for path in folder.iterdir()}
    return found - {"config.json", "log.jsonl", "tensorboard"}


def test_a_run_that_was_killed_while_it_saved_ends_in_the_same_bytes(dataset, tmp_path):
    command = ["train", *command_of(tiny_run(dataset.folders[0], steps=STEPS)), "--out"]
    killed, at_once = tmp_path / "killed", tmp_path / "at once"
    for moment, (_, left) in MOMENTS.items():
        result = killed_at(moment, [*command, str(killed), "--threads", "1"])
        assert result.returncode == -signal.SIGKILL, result.stderr
        assert names_in(killed) == left, moment
    for folder in (killed, at_once):
        assert CliRunner().invoke(eda.cli.app, [*command, str(folder)]).exit_code == 0
        assert names_in(folder) == {LAST, PREVIOUS, MODEL}
    for name in (LAST, MODEL):
        assert (killed / name).read_bytes() == (at_once / name).read_bytes(), name
    assert {name.split(".")[0] for name in load_file(killed / LAST)} == {"model", "average", "optimizer"}


if __name__ == "__main__":
    MOMENTS[sys.argv[1]][0]()
    eda.cli.app(sys.argv[2:])
