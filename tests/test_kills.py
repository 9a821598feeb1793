"""A few kills at random moments, as `benchmarks/kills.py` makes many: nothing is lost, and the next command works."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import ENVIRONMENT

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "kills.py"


@pytest.mark.parametrize("command", ["assemble", "train"])
def test_after_a_few_kills_all_is_well(command):
    words = [sys.executable, str(SCRIPT), command, "--kills", "2"]
    ran = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1].endswith("| 0 |")
