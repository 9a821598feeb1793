"""For tests of the command line: the installed command in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

COMMAND = Path(sys.executable).parent / "eda"

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1"}


def run_command(*arguments: object) -> subprocess.CompletedProcess:
    """The installed command in a process of its own."""
    words = [str(COMMAND), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, env=ENVIRONMENT, check=False)
