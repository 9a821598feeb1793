"""Ends that nobody foresaw: one sentence with the file, exit code 1, and the traceback only on demand."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import ENVIRONMENT

RAISING = """
import errno, sys
from pathlib import Path
import eda.cli
from eda.errors import InputError

class PanicException(BaseException):
    pass

def read(path):
    {statement}

read.__globals__["__name__"] = "eda.data.some_reader"
import eda.weights

class Shipped:
    def __iter__(self):
        read(Path("pieces/a.ply"))

eda.weights.SHIPPED = Shipped()
eda.cli.main()
"""


def run_raising(statement: str, *options: str) -> subprocess.CompletedProcess:
    """`eda models`, which reads a file in which this happens."""
    code = RAISING.format(statement=statement)
    command = [sys.executable, "-c", code, *options, "models"]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120, check=False)


HINT = "; `eda --debug ...` prints the traceback\n"


UNFORESEEN = "pieces/a.ply: an error that was not foreseen, "
NO_MEMORY = "pieces/a.ply: this needs more memory than there is; use fewer or smaller pieces, or a machine with more"
FULL = "pieces/a.ply: no space is left on the disk; free some and run the command again"


@pytest.mark.parametrize(
    ("statement", "code", "line"),
    [
        ("raise AssertionError('a\\nb')", 1, f"{UNFORESEEN}AssertionError: a b{HINT}"),
        ("raise AssertionError", 1, f"{UNFORESEEN}AssertionError{HINT}"),
        ("raise PanicException('index 3')", 1, f"{UNFORESEEN}PanicException: index 3{HINT}"),
        ("raise EOFError('end')", 1, f"{UNFORESEEN}EOFError: end{HINT}"),
        ("raise MemoryError", 1, f"{NO_MEMORY}{HINT}"),
        ("raise RuntimeError('DefaultCPUAllocator: can\\'t allocate memory')", 1, f"{NO_MEMORY}{HINT}"),
        ("raise OSError(errno.ENOSPC, 'No space left on device')", 1, f"{FULL}{HINT}"),
        ("raise OSError(errno.EIO, 'Input/output error', 'x.ply')", 1, f"x.ply: Input/output error{HINT}"),
        ("raise BrokenPipeError", 1, f"what reads the output ended before all of it was written{HINT}"),
        ("raise InputError('a.ply: is no mesh')", 2, "a.ply: is no mesh\n"),
        ("raise KeyboardInterrupt", 130, "interrupted\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143, "terminated\n"),
    ],
)
def test_every_end_is_one_line_and_an_exit_code(statement, code, line):
    ran = run_raising(statement)
    assert (ran.returncode, ran.stderr, ran.stdout) == (code, f"eda: {line}", "")


@pytest.mark.parametrize("statement", ["raise AssertionError('why')", "raise InputError('why')"])
def test_debug_prints_the_traceback_too(statement):
    plain, ran = run_raising(statement), run_raising(statement, "--debug")
    assert ran.returncode == plain.returncode
    assert ran.stderr.startswith("Traceback (most recent call last)")
    assert "in read" in ran.stderr
    assert ran.stderr.splitlines()[-1] == plain.stderr.removesuffix(HINT).strip()


def test_a_long_message_is_cut():
    ran = run_raising("raise KeyError('x' * 100000)")
    assert len(ran.stderr) < 700
    assert "xxx...;" in ran.stderr


def command_to(stdout: int) -> subprocess.CompletedProcess:
    words = [sys.executable, "-m", "eda.cli", "models"]
    return subprocess.run(
        words, stdout=stdout, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, timeout=120, check=False
    )


def test_output_that_nobody_reads_is_one_sentence():
    reader, writer = os.pipe()
    os.close(reader)
    ran = command_to(writer)
    os.close(writer)
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert ran.stderr.startswith("eda: what reads the output ended")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full device is needed")
def test_output_to_a_full_disk_is_one_sentence():
    with Path("/dev/full").open("w") as full:
        ran = command_to(full.fileno())
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert ran.stderr.startswith("eda: no space is left on the disk")


CHILD = """
import os, signal, time
from eda.cli.failures import terminable

with terminable():
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, b".")
        while True:
            time.sleep(1)
    os.read(reader, 1)
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
"""


def test_a_child_process_dies_of_a_termination_as_ever():
    ran = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.split() == [str(-signal.SIGTERM), "True"], ran.stderr
