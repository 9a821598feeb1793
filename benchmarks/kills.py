"""Kills `eda assemble --overwrite` or `eda train` at random moments, and looks at what is left.

    python benchmarks/kills.py assemble --kills 100
    python benchmarks/kills.py train --kills 100

After every kill of `assemble`, the folder must be the complete result from before or the complete new one, and the next
command must replace it and leave nothing beside it. After every kill of `train`, the same command must resume; at the
end, the weights must be those of a run that was never killed, bit for bit, and no file more may be there.

Every command is a fork of a process that has imported everything, so that the kills meet the work and not the imports.
Half of those of `assemble` wait until it writes. Exit code 1 if something was not as it must be.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # a process with threads must not be forked

# The slow imports of the commands.
import numpy as np
import torch
from safetensors.numpy import load_file

import eda.assembly
import eda.data.piece_files
import eda.output.result_files
import eda.train
from eda.cli import main as run_main
from eda.output.result_files import PictureSizes

SECONDS = 300  # that a command may take before it counts as hanging

Words = list[str]


class Command:
    """A command in a process group of its own, with its output in a file."""

    def __init__(self, words: Words, log: Path) -> None:
        self.log = log
        self.process = multiprocessing.get_context("fork").Process(target=_run, args=(words, log))
        self.process.start()

    def kill(self) -> None:
        """Kill it at once, with the processes that it started."""
        try:
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        except ProcessLookupError:  # it has no group yet, or has ended
            self.process.kill()
        self.process.join()

    def wait(self) -> int:
        """Its exit code; it is negative after a kill."""
        self.process.join(SECONDS)
        if self.process.is_alive():
            self.kill()
        return self.process.exitcode or 0

    def wait_or_kill(self, seconds: float) -> int:
        """Its exit code, after so many seconds at most."""
        self.process.join(seconds)
        if self.process.is_alive():
            self.kill()
        return self.process.exitcode or 0


def _run(words: Words, log: Path) -> None:
    os.setsid()
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    faulthandler.enable()
    torch.set_num_threads(1)
    eda.output.result_files.PictureSizes = lambda: PictureSizes(60, 40, 2, 1)  # type: ignore[assignment,misc]
    sys.argv = ["eda", *words]
    run_main()


class Findings:
    """What was seen, as a table."""

    def __init__(self, command: str) -> None:
        self.command, self.seen, self.faults = command, Counter[str](), list[str]()

    def expect(self, right: bool, fault: str, log: Path | None = None) -> None:
        """Note a fault, with the end of the command's output."""
        if not right:
            said = log.read_text()[-2000:].strip() if log else ""
            self.faults.append(f"{fault} {said}".strip())
            print(f"FAULT: {self.faults[-1]}", file=sys.stderr, flush=True)

    def table(self) -> str:
        """In Markdown."""
        names = [*sorted(self.seen), "faults"]
        values = [*(str(self.seen[name]) for name in sorted(self.seen)), str(len(self.faults))]
        head = f"| command | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}\n"
        return f"{head}| `eda {self.command}` | {' | '.join(values)} |"


# -- assemble ----------------------------------------------------------------------------------------------------------


def write_pieces(folder: Path) -> None:
    """Two clouds: what is found is not the matter here."""
    folder.mkdir()
    for piece in range(2):
        points = np.random.default_rng(piece).normal(size=(200, 3))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        points[:, 0] += 1.5 * piece
        np.savetxt(folder / f"piece{piece}.xyz", points)


def result_of(folder: Path) -> dict[str, str] | None:
    """File -> what must be the same in two results of the same seed; None if a file is damaged or there is none."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        if path.name == "assembly.json":
            try:
                record = json.loads(content)
            except ValueError:
                return None
            content = json.dumps({**record, "seconds": 0, "command": ""}).encode()
        elif path.name == "report.html":  # says how long it took
            content = b"whole" if content.rstrip().endswith(b"</html>") else b"half"
        found[str(path.relative_to(folder))] = hashlib.sha256(content).hexdigest()
    return found or None


def is_being_written(folder: Path) -> bool:
    return any(folder.parent.glob(f".{folder.name}.*/partial"))


def wait_until(happens: Callable[[], bool], command: Command) -> float:
    """Seconds until this happens, or the command ends."""
    begin = time.monotonic()
    while not happens() and command.process.is_alive():
        time.sleep(0.001)
    return time.monotonic() - begin


def kill_assembling(kills: int, rng: random.Random, place: Path) -> Findings:
    findings, out, log = Findings("assemble --overwrite"), place / "results" / "out", place / "log"
    out.parent.mkdir()
    write_pieces(place / "pieces")
    options = ["--overwrite", "--samples", "1", "--steps", "1", "--solver", "rk1", "--no-refine", "--quiet"]

    def assemble(seed: int) -> Command:
        return Command(["assemble", str(place / "pieces"), "-o", str(out), "--seed", str(seed), *options], log)

    good, reading, writing = [], 0.0, 0.0
    for seed in (0, 1):
        command = assemble(seed)
        reading = max(reading, wait_until(lambda: is_being_written(out), command))
        begin = time.monotonic()
        if command.wait() != 0:
            sys.exit(f"a command that nobody killed failed: {log.read_text()}")
        writing = max(writing, time.monotonic() - begin)
        good.append(result_of(out))
    assert good[0] != good[1]

    for kill in range(kills):
        # The folder holds the result of seed 1 - kill % 2.
        seed = kill % 2
        command = assemble(seed)
        if rng.random() < 0.5:
            wait_until(lambda: is_being_written(out), command)
            code = command.wait_or_kill(rng.uniform(0, 1.2 * writing))
        else:
            code = command.wait_or_kill(rng.uniform(0, reading + writing))
        findings.seen["killed" if code < 0 else "ended before the kill"] += 1
        left = result_of(out)
        findings.expect(left in good, f"kill {kill}: the folder is neither the old nor the new result")
        findings.expect(code <= 0, f"kill {kill}: exit code {code}:", log)
        findings.seen["new result" if left == good[seed] else "old result"] += 1
        findings.seen["something left beside it"] += len(list(out.parent.iterdir())) > 1
        # The next command: the same one, so that both seeds take turns.
        code = assemble(seed).wait()
        findings.expect(code == 0, f"kill {kill}: the next command ends with exit code {code}:", log)
        findings.expect(result_of(out) == good[seed], f"kill {kill}: the next command did not replace the folder")
        beside = [path.name for path in out.parent.iterdir() if path != out]
        findings.expect(not beside, f"kill {kill}: left after the next command: {beside}")
        print(f"{kill + 1} of {kills}", file=sys.stderr, flush=True)
    return findings


# -- train -------------------------------------------------------------------------------------------------------------

TINY = (
    "model.network.num_levels=1", "model.network.num_blocks=1", "model.network.num_neighbors=4",
    "model.network.cross_neighbors=3", "model.network.max_degree=1", "model.network.channels=8",
    "model.network.num_heads=2", "model.network.num_knots=5", "model.network.spacing=0.2",
    "model.network.match_width=0", "model.num_points=60", "data.points_per_batch=120", "data.draws=1", "data.workers=1",
    "optimizer.steps=24", "optimizer.warmup=3", "watch.log_every=1", "watch.checkpoint_every=3",
)  # fmt: skip


def weights_of(folder: Path) -> dict[str, bytes]:
    """File and tensor -> its bytes, of all files with weights."""
    return {
        f"{path.name}: {name}": tensor.tobytes()
        for path in sorted(folder.glob("*.safetensors"))
        if "before" not in path.name  # of which step it is depends on the kills
        for name, tensor in load_file(path).items()
    }


def files_of(folder: Path) -> list[str]:
    """Also those beside the folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) + [
        path.name for path in folder.parent.iterdir() if path != folder
    ]


def kill_training(kills: int, rng: random.Random, place: Path) -> Findings:
    findings, log, data = Findings("train"), place / "log", str(place / "data")
    fracture = ["fracture", data, "--puzzles", "6", "--pieces", "2-3", "--points", "100", "--workers", "1", "--quiet"]
    if Command(fracture, log).wait() != 0:
        sys.exit(f"no dataset could be made: {log.read_text()}")
    settings = [word for setting in TINY for word in ("--set", setting)]

    def train(folder: Path) -> Command:
        folder.parent.mkdir(exist_ok=True)
        words = ["train", "fracture-small", "--out", str(folder), "--data", data, "--device", "cpu", *settings]
        return Command(words, log)

    begin = time.monotonic()
    if train(place / "whole" / "run").wait() != 0:
        sys.exit(f"a run that nobody killed failed: {log.read_text()}")
    duration = time.monotonic() - begin
    good, files = weights_of(place / "whole" / "run"), files_of(place / "whole" / "run")

    done, runs = 0, 0
    while done < kills:
        folder, ended = place / f"killed{runs}" / "run", False
        while not ended:
            seconds = rng.uniform(0, 0.6 * duration) if done < kills else SECONDS
            code = train(folder).wait_or_kill(seconds)
            ended = code >= 0
            done += not ended
            findings.seen["kills"] += not ended
            findings.expect(code <= 0, f"run {runs} after {done} kills: exit code {code}:", log)
        runs += 1
        findings.seen["runs"] += 1
        same = weights_of(folder) == good
        findings.seen["bit-equal at the end"] += same
        findings.expect(same, f"run {runs}: other weights than those of a run that was never killed")
        more = sorted(set(files_of(folder)) - set(files))
        findings.expect(not more, f"run {runs}: files that a run leaves only if it was killed: {more}")
        print(f"{done} of {kills}", file=sys.stderr, flush=True)
    return findings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("assemble", "train"))
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    kill = {"assemble": kill_assembling, "train": kill_training}[options.command]
    with tempfile.TemporaryDirectory(prefix="eda-kills-") as place:
        findings = kill(options.kills, random.Random(options.seed), Path(place))
    print(findings.table())
    sys.exit(1 if findings.faults else 0)


if __name__ == "__main__":
    main()
