"""Threads that wait for each other give their cores back, also where torch was imported first."""

import subprocess
import sys

import pytest

from eda.native import library

CODE = """
import os, threading, time, torch
before = len(os.listdir("/proc/self/task"))
from eda.native import library
library()
library()
sleepers = [thread for thread in threading.enumerate() if thread.name == "eda-sleepers"]
time.sleep(0.5)
tasks = [open(f"/proc/self/task/{task}/stat").read() for task in os.listdir("/proc/self/task")]
states = [task.rpartition(")")[2].split()[0] for task in tasks]
print(len(sleepers), len(states) - before >= max(len(os.sched_getaffinity(0)), 2), states.count("R"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the runtime that spins is libgomp, on Linux")
def test_a_team_sleeps_beside_the_one_that_works_and_the_process_can_end():
    if library() is None:
        pytest.skip("the compiled module was not built")
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["1", "True", "1"]  # one team, as many threads as cores; only the one that looks runs
