"""Hostile files: seeded mutations of a valid file of every format, read in processes that may die alone.

    python benchmarks/fuzz.py --files 20000 --out fuzz     # a table, and a reproducer of every fault
    python benchmarks/fuzz.py --replay fuzz/000001-crash   # read one reproducer again, in this process

A file that is refused with an `InputError` or read is fine. What is not: a crash of the process, a hang of more than 10
seconds, more than 1 GB of memory on top of the file's size, or any other exception. Each is counted and kept. The n-th
file of a seed is always the same, so a run can be repeated, and a part of it runs in the tests.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import multiprocessing.pool
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from fuzz_targets import TARGETS, Target

MAX_SECONDS = 10.0
MAX_BYTES = 2**30  # on top of what the process had, and of the file itself
START_SECONDS = 120.0  # a process that starts imports torch, on a machine that may be busy

# -- mutations -------------------------------------------------------------------------------------------------------

Mutation = Callable[[bytearray, np.random.Generator], bytearray]

_NUMBERS = (b"-1", b"0", b"nan", b"inf", b"1e999", b"4294967295", b"99999999999999999999", b"-2147483648", b"1e-320")
_EXTREMES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 2**64 - 1)
_DIGITS = frozenset(b"0123456789.-+e")


def flip_bits(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Some bits anywhere."""
    for at in rng.integers(len(data), size=int(rng.integers(1, 9))):
        data[at] ^= 1 << int(rng.integers(8))
    return data


def flip_bits_of_the_head(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Some bits of the first 300 bytes, where most formats count what follows."""
    head = min(len(data), 300)
    data[:head] = flip_bits(data[:head], rng)
    return data


def cut(data: bytearray, rng: np.random.Generator) -> bytearray:
    """The beginning alone."""
    return data[: int(rng.integers(len(data)))]


def remove(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Without a stretch of bytes."""
    begin, end = _stretch(data, rng)
    del data[begin:end]
    return data


def repeat(data: bytearray, rng: np.random.Generator) -> bytearray:
    """With a stretch of bytes repeated."""
    begin, end = _stretch(data, rng)
    data[end:end] = data[begin:end] * int(rng.integers(1, 20))
    return data


def insert(data: bytearray, rng: np.random.Generator) -> bytearray:
    """With bytes by chance."""
    at = int(rng.integers(len(data) + 1))
    data[at:at] = rng.bytes(int(rng.integers(1, 64)))
    return data


def overwrite_integer(data: bytearray, rng: np.random.Generator) -> bytearray:
    """With an extreme integer of 1 to 8 bytes somewhere, mostly near the beginning."""
    width = int(2 ** rng.integers(4))
    limit = len(data) if rng.random() < 0.4 else min(len(data), 400)
    at = int(rng.integers(max(limit - width, 1)))
    value = _EXTREMES[int(rng.integers(len(_EXTREMES)))] % 256**width
    data[at : at + width] = value.to_bytes(width, "little" if rng.random() < 0.7 else "big")
    return data


def overwrite_number(data: bytearray, rng: np.random.Generator) -> bytearray:
    """With another number in place of one that is written as text."""
    starts = [i for i in range(len(data)) if data[i] in _DIGITS and (i == 0 or data[i - 1] not in _DIGITS)]
    if not starts:
        return overwrite_integer(data, rng)
    begin = starts[int(rng.integers(len(starts)))]
    end = begin
    while end < len(data) and data[end] in _DIGITS:
        end += 1
    data[begin:end] = _NUMBERS[int(rng.integers(len(_NUMBERS)))]
    return data


def shuffle_lines(data: bytearray, rng: np.random.Generator) -> bytearray:
    """With two lines exchanged."""
    lines = data.split(b"\n")
    i, j = rng.integers(len(lines), size=2)
    lines[i], lines[j] = lines[j], lines[i]
    return bytearray(b"\n").join(lines)


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    flip_bits_of_the_head,
    cut,
    remove,
    repeat,
    insert,
    overwrite_integer,
    overwrite_number,
    shuffle_lines,
)


def _stretch(data: bytearray, rng: np.random.Generator) -> tuple[int, int]:
    begin = int(rng.integers(len(data)))
    return begin, min(len(data), begin + int(rng.integers(1, 1 + max(1, len(data) // 4))))


def mutated(target: Target, data: bytes, seed: int, number: int) -> bytes:
    """The `number`-th mutation of a target's file; half of them inside of its structure, if it has one."""
    rng = np.random.default_rng([seed, number])
    if target.structure is not None and rng.random() < 0.5:
        return target.structure(data, rng, lambda inner: mutate_bytes(inner, rng))
    return mutate_bytes(data, rng)


def mutate_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """One to three of the ways above, one after the other."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        if changed:
            changed = MUTATIONS[int(rng.integers(len(MUTATIONS)))](changed, rng)
    return bytes(changed)


# -- reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of a file."""

    kind: str  # "read", "refused", or one of FAULTS
    detail: str = ""


FAULTS = ("exception", "memory", "hang", "crash")


def read_file(target: Target, folder: Path) -> Outcome:
    """Read a target's folder in this process, with a bound on memory."""
    from eda.errors import InputError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with _memory_limit(MAX_BYTES + (folder / target.victim).stat().st_size):
                target.read(folder)
        except InputError as error:
            # Readers say so of what does not fit into memory. Here that is a fault: nothing in a small file needs 1 GB.
            return Outcome("memory", str(error)) if "more memory" in str(error) else Outcome("refused", str(error))
        except MemoryError:
            return Outcome("memory", traceback.format_exc())
        except BaseException:  # a Rust library raises what is not an Exception
            return Outcome("exception", traceback.format_exc())
    return Outcome("read")


class _memory_limit:  # noqa: N801 - a context manager
    """No more address space than there is now, and so many bytes."""

    def __init__(self, more: int) -> None:
        self.more = more

    def __enter__(self) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        self.before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + self.more, self.before[1]))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_AS, self.before)


# -- processes -------------------------------------------------------------------------------------------------------


def _serve(pipe: Connection, scratch: Path) -> None:
    """In a process of its own: read (target, content) until there is no more."""
    import torch

    import eda  # noqa: F401 - loaded before memory is bounded

    torch.set_num_threads(1)
    quiet = os.open(os.devnull, os.O_WRONLY)  # libraries print what they think of a file
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    pipe.send("ready")
    for number in itertools.count():
        index, content = pipe.recv()
        target, valid = TARGETS[index], scratch / str(index)
        if not valid.exists():
            valid.mkdir(parents=True)
            target.write(valid)
            read_file(target, valid)  # imports what reading this format takes
        folder = scratch / f"{index}-{number}"  # a new one each time: readers may remember what they have read
        shutil.copytree(valid, folder)
        (folder / target.victim).write_bytes(content)
        pipe.send("begin")
        pipe.send(read_file(target, folder))
        shutil.rmtree(folder)


class Worker:
    """A process that reads files, and is replaced when one of them kills it or takes too long."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.scratch = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, self.scratch), daemon=True)
        self.process.start()
        theirs.close()
        if not self.pipe.poll(START_SECONDS):
            raise RuntimeError("a worker did not start")
        self.pipe.recv()

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def read(self, index: int, content: bytes) -> Outcome:
        """What becomes of a target's file with this content."""
        try:
            self.pipe.send((index, content))
            self.pipe.poll(START_SECONDS)
            self.pipe.recv()
            if self.pipe.poll(MAX_SECONDS):
                return self.pipe.recv()
            outcome = Outcome("hang", f"more than {MAX_SECONDS:.0f} s")
        except (EOFError, ConnectionError):
            self.process.join()
            outcome = Outcome("crash", f"the process ended with {self.process.exitcode}")
        self.stop()
        self._start()
        return outcome


def valid_files() -> list[bytes]:
    """The content of every target's file as it should be."""
    contents = []
    for target in TARGETS:
        with tempfile.TemporaryDirectory() as name:
            target.write(Path(name))
            contents.append((Path(name) / target.victim).read_bytes())
    return contents


def plan(files: int, seed: int, first: int = 0) -> Iterator[tuple[int, int, int]]:
    """(number, index of the target, seed): targets take turns, so that any part is even over all of them."""
    for number in range(first, files):
        yield number, number % len(TARGETS), seed


# -- the command -----------------------------------------------------------------------------------------------------


def run(files: int, seed: int, out: Path, workers: int = 2) -> Counter[tuple[str, str]]:
    """Mutate and read; a table of outcomes by target. Faults are kept below `out`."""
    out.mkdir(parents=True, exist_ok=True)
    contents, counts = valid_files(), Counter[tuple[str, str]]()
    with multiprocessing.pool.ThreadPool(workers) as pool:
        crew = [Worker() for _ in range(workers)]
        free = list(range(workers))

        def one(job: tuple[int, int, int]) -> tuple[int, int, bytes, Outcome]:
            number, index, _ = job
            content, mine = mutated(TARGETS[index], contents[index], seed, number), free.pop()
            try:
                return number, index, content, crew[mine].read(index, content)
            finally:
                free.append(mine)

        began = time.monotonic()
        for done, (number, index, content, outcome) in enumerate(pool.imap_unordered(one, plan(files, seed)), 1):
            counts[TARGETS[index].name, outcome.kind] += 1
            if outcome.kind in FAULTS:
                keep(out / f"{number:06d}-{outcome.kind}", TARGETS[index], content, outcome)
                print(f"{number}: {TARGETS[index].name}: {outcome.kind}", flush=True)
            if done % 500 == 0:
                print(f"{done} of {files} in {time.monotonic() - began:.0f} s", flush=True)
        for worker in crew:
            worker.stop()
    return counts


def keep(folder: Path, target: Target, content: bytes, outcome: Outcome) -> None:
    """A reproducer: the folder as it was read, and what happened."""
    folder.mkdir(parents=True, exist_ok=True)
    target.write(folder)
    (folder / target.victim).write_bytes(content)
    what = {"target": target.name, "outcome": outcome.kind, "detail": outcome.detail}
    (folder / "outcome.json").write_text(json.dumps(what, indent=1))


def replay(folder: Path) -> Outcome:
    """Read a reproducer again."""
    what = json.loads((folder / "outcome.json").read_text())
    target = next(target for target in TARGETS if target.name == what["target"])
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(folder, name, dirs_exist_ok=True)
        (Path(name) / "outcome.json").unlink()
        return read_file(target, Path(name))


def table(counts: Counter[tuple[str, str]]) -> str:
    """Markdown: a row for every target."""
    kinds = ("read", "refused", *FAULTS)
    rows = [f"| target | files | {' | '.join(kinds)} |", "|---" * (len(kinds) + 2) + "|"]
    for name in [*(target.name for target in TARGETS), "all"]:
        numbers = [sum(n for (of, kind), n in counts.items() if kind == k and name in (of, "all")) for k in kinds]
        rows.append(f"| {name} | {sum(numbers)} | {' | '.join(map(str, numbers))} |")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000, help="how many mutated files, over all targets")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same files")
    parser.add_argument("--workers", type=int, default=2, help="processes that read at the same time")
    parser.add_argument("--out", type=Path, default=Path("fuzz"), help="where the table and the reproducers go")
    parser.add_argument("--replay", type=Path, help="read this reproducer again, and print what happens")
    options = parser.parse_args()
    if options.replay:
        outcome = replay(options.replay)
        print(outcome.kind, outcome.detail)
        return int(outcome.kind in FAULTS)
    counts = run(options.files, options.seed, options.out, options.workers)
    (options.out / "table.md").write_text(table(counts) + "\n")
    print(table(counts))
    return int(any(kind in FAULTS for _, kind in counts))


if __name__ == "__main__":
    sys.exit(main())
