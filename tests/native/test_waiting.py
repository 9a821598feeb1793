"""Threads that wait for each other give their cores back, also where torch was imported first; nothing else changes."""

import os
import subprocess
import sys

import pytest

from eda.native import library

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the runtime that spins is libgomp, on Linux")

COUNT = """
import os, sys, threading, time
def sleeping_teams():
    return [thread.name for thread in threading.enumerate()].count("eda-sleepers")
def states():
    tasks = [open(f"/proc/self/task/{task}/stat").read() for task in os.listdir("/proc/self/task")]
    return [task.rpartition(")")[2].split()[0] for task in tasks]
"""

AFTER_TORCH = """
import torch
before = len(states())
from eda.native import library
library()
library()
time.sleep(0.5)
print(sleeping_teams(), len(states()) - before >= max(len(os.sched_getaffinity(0)), 2), states().count("R"))
"""

BEFORE_TORCH = """
from eda.native import library
library()
assert "torch" not in sys.modules
print(sleeping_teams())
import torch
library()
print(sleeping_teams())
"""

WITHOUT_THE_MODULE = """
import torch, warnings, eda.native
eda.native.__file__ = "/nowhere/__init__.py"
warnings.simplefilter("ignore")
print(eda.native.library(), sleeping_teams())
"""

# Enough work for several threads of the compiled module, and none for those of torch, which do not survive a fork.
WORK = """
import hashlib, torch
from eda.kernels import equivariant_norm
features, gain = torch.randn(4000, 9, 64, generator=torch.Generator().manual_seed(0)), torch.ones(64)
def work():
    return hashlib.sha256(equivariant_norm(features, gain).numpy()).hexdigest()
"""

FORK = """
import multiprocessing
torch.set_num_threads(2)
expected = work()
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(all(found == expected for found in pool.map(worker, range(4))), work() == expected)
"""

LOADER = """
import torch.utils.data
torch.set_num_threads(2)
expected = work()
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return work()
loader = torch.utils.data.DataLoader(Data(), batch_size=None, num_workers=2)
print(all(found == expected for found in loader), work() == expected)
"""

LATER = """
torch.set_num_threads(1)
expected = work()
for threads in (3, 1, 2):
    torch.set_num_threads(threads)
    assert work() == expected
print(sleeping_teams(), torch.get_num_threads())
"""

ALARM = """
import signal
work()
time.sleep(0.2)
before = len(states())
signal.signal(signal.SIGALRM, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
time.sleep(0.3)
signal.setitimer(signal.ITIMER_REAL, 0)  # while the interpreter ends nobody would handle it
print(sleeping_teams(), len(states()) == before)
"""


def printed(*code: str, **environment: str) -> list[str]:
    """What a new process prints. It must end by itself, without an error and without a word on stderr."""
    if library() is None:
        pytest.skip("the compiled module was not built")
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", "\n".join([COUNT, *code])],
        capture_output=True, text=True, timeout=120, env={**os.environ, **environment}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_a_team_sleeps_beside_the_one_that_works_and_the_process_can_end():
    # One team, as many threads as cores; only the one that looks runs.
    assert printed(AFTER_TORCH) == ["1", "True", "1"]


def test_it_sleeps_also_where_the_module_was_used_before_torch_was_imported():
    assert printed(BEFORE_TORCH) == ["0", "1"]


def test_it_sleeps_also_without_the_compiled_module():
    assert printed(WITHOUT_THE_MODULE) == ["None", "1"]


def test_the_package_leaves_the_environment_alone():
    code = "before = dict(os.environ)\nimport eda, torch\nfrom eda.native import library\nlibrary()\n"
    assert printed(code, "print(dict(os.environ) == before)") == ["True"]


def test_one_thread_is_enough():
    assert printed(WORK, "work()\nprint(torch.get_num_threads(), sleeping_teams())", OMP_NUM_THREADS="1") == ["1", "1"]


def test_forked_processes_work():
    assert printed(WORK, "def worker(_):\n    return work()", FORK) == ["True", "True"]


def test_workers_of_a_loader_work():
    assert printed(WORK, LOADER) == ["True", "True"]


def test_the_number_of_threads_may_change_later():
    assert printed(WORK, LATER) == ["1", "2"]


def test_signals_do_not_wake_it():
    assert printed(WORK, ALARM) == ["1", "True"]


@pytest.mark.parametrize("end", ["sys.exit(0)", "os._exit(0)", "raise SystemExit"])
def test_a_process_ends_however_it_is_ended(end):
    assert printed(WORK, f"torch.set_num_threads(2)\nwork()\n{end}") == []
